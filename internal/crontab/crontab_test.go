package crontab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func parseFile(t *testing.T, name string, o Options) *File {
	t.Helper()
	r, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o.File = "/var/spool/" + name
	f, err := Parse(r, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func parse(t *testing.T, text string, o Options) *File {
	t.Helper()
	if o.File == "" {
		o.File = "/etc/test"
	}
	f, err := Parse(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// one is the only entry of a text without problems.
func one(t *testing.T, text string, o Options) Entry {
	t.Helper()
	f := parse(t, text, o)
	if len(f.Entries) != 1 || len(f.Problems) != 0 {
		t.Fatalf("%q: entries %+v, problems %v; want precisely one entry", text, f.Entries, f.Problems)
	}
	return f.Entries[0]
}

// problems are "line severity", in order.
func problems(f *File) []string {
	var l []string
	for _, p := range f.Problems {
		l = append(l, fmt.Sprintf("%d %s", p.Line, p.Severity))
	}
	return l
}

func TestUserCrontab(t *testing.T) {
	f := parseFile(t, "user.crontab", Options{Zone: "Europe/Berlin"})
	want := []struct {
		line                       int
		expr, zone, command, stdin string
		comment                    string
	}{
		{10, "30 2 * * *", "Europe/Berlin", "/opt/backup/dump.sh --all --keep 7 >/var/log/dump.log 2>&1", "", "Nightly database dump, kept for a week"},
		{11, "*/15 * * * *", "Europe/Berlin", "/usr/bin/flock -n /run/lock/sync cd /srv/app && ./bin/sync", "", ""},
		{12, "0 9-17 * * MON-FRI", "Europe/Berlin", `echo "$GREETING" | logger -t office`, "", ""},
		{14, "5,35 8 1,15 * *", "Europe/Berlin", "/opt/billing/invoice\t--month", "", ""},
		{15, "@daily", "Europe/Berlin", "/opt/report/daily", "", ""},
		{17, "0 0 1 jan *", "Europe/Berlin", `mail -s "100% new" alice@example.com`, "Happy new year,\n\nall of us.\n100% of us.\n", ""},
		{18, "10 4 * * *", "Europe/Berlin", "tar czf /var/backups/home-$(date +%F).tgz /home", "", ""},
		{19, "15 4 * * *", "Europe/Berlin", `/opt/log/rotate "$(date +`, "F)\"\n", ""},
		{21, "0 16 * * 1-5", "America/New_York", "/opt/market/close", "", ""},
		{23, "30 16 * * 1-5", "America/New_York", "/opt/market/report", "", ""},
		{27, "0 * * * 7", "Europe/Berlin", "./weekly.sh", "", ""},
		{28, "@hourly", "Europe/Berlin", "./weekly.sh", "", ""},
		{29, "0 12 * * 0", "Europe/Berlin", "./weekly.sh", "", ""},
	}
	if len(f.Entries) != len(want) {
		t.Fatalf("%d entries, want %d", len(f.Entries), len(want))
	}
	for i, w := range want {
		e := f.Entries[i]
		if e.Line != w.line || e.Expr != w.expr || e.Zone != w.zone || e.Command != w.command || e.Stdin != w.stdin || e.Comment != w.comment || e.User != "" {
			t.Errorf("line %d: got\n%+v, want\n%+v", w.line, e, w)
		}
	}
	if got, want := problems(f), []string{"6 warning", "16 skipped", "19 warning", "22 warning"}; !slices.Equal(got, want) {
		t.Errorf("problems %v, want at %v", f.Problems, want)
	}

	first, market, last := f.Entries[0].Env, f.Entries[9].Env, f.Entries[12].Env
	for name, value := range map[string]string{"SHELL": "/bin/bash", "PATH": "/usr/local/bin:/usr/bin:/bin", "MAILTO": "ops@example.com", "GREETING": "  hello, world  "} {
		if first[name] != value {
			t.Errorf("line 10 has %s=%q, want %q", name, first[name], value)
		}
	}
	if _, early := first["TZ"]; early || market["TZ"] != "America/New_York" || market["CRON_TZ"] != "America/New_York" {
		t.Errorf("a variable is not in effect precisely below its line: %v, %v", first, market)
	}
	if last["HOME"] != "/srv/app" || last["MAILTO"] != "" || first["HOME"] != "" {
		t.Errorf("the last entries have %v", last)
	}
}

func TestSystemCrontab(t *testing.T) {
	f := parseFile(t, "system.crontab", Options{System: true})
	var got []string
	for _, e := range f.Entries {
		got = append(got, fmt.Sprintf("%d|%s|%s|%s|%s", e.Line, e.Expr, e.User, e.Command, e.Comment))
	}
	want := []string{
		"9|17 * * * *|root|cd / && run-parts --report /etc/cron.hourly|",
		"10|25 6 * * *|root|test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }|",
		"11|47 6 * * 7|root|test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.weekly; }|",
		"12|52 6 1 * *|root|test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.monthly; }|",
		"13|09,39 * * * *|root|[ -x /usr/lib/php/sessionclean ] && /usr/lib/php/sessionclean|",
		"14|@weekly|www-data|/usr/bin/certbot -q renew|",
		"15|*/5 * * * *|svc_web$|/usr/bin/poll|",
		"16|*/5 * * * *|www-data|/usr/bin/poll|",
	}
	if !slices.Equal(got, want) {
		t.Errorf("entries\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if p := problems(f); !slices.Equal(p, []string{"17 skipped"}) || f.Errors() != 0 {
		t.Errorf("problems %v", f.Problems)
	}
	for text, reason := range map[string]string{
		"* * * * * /usr/bin/poll":         "/usr/bin/poll cannot be a user",
		"* * * * * root":                  "no command",
		"* * * * * root:wheel /bin/x":     "group or login class",
		"* * * * * root/daemon /bin/x":    "group or login class",
		"0 0 2 * * * root /bin/x":         "Did you mean 0 2 * * *?",
		"@reboot":                         "neither a user nor a command",
		"@daily (cd /;x) /bin/x":          "cannot be a user",
		"0 4 * * * root %only the input":  "no command before the %",
		"0 4 * * * $USER /bin/x":          "cannot be a user",
		"0 4 * * 8 root /bin/no-such-day": "8",
	} {
		f := parse(t, text+"\n", Options{System: true})
		if len(f.Entries) != 0 || f.Errors() != 1 || !strings.Contains(f.Problems[0].Reason, reason) {
			t.Errorf("%s: entries %v, problems %v; want an error with %q", text, f.Entries, f.Problems, reason)
		}
	}
}

func TestBadLines(t *testing.T) {
	f := parseFile(t, "bad.crontab", Options{})
	want := []struct {
		line     int
		severity Severity
		reason   string
	}{
		{1, Error, "minute: 60 is out of range 0-59"},
		{2, Error, "is a field missing?"},
		{3, Error, "there is no command"},
		{4, Error, "Did you mean 30 2 * * *?"},
		{5, Error, "Did you mean 0 2 * * MON?"},
		{6, Error, "never fires"},
		{7, Error, "step 90"},
		{8, Error, "a jobs file has it"},
		{9, Error, "@Daily is written @daily"},
		{10, Error, "@fortnightly is none of @reboot"},
		{11, Error, `no closing "`},
		{12, Error, `text after the closing "`},
		{13, Error, "DAYBOOK_"},
		{14, Error, `"Mars/Phobos"`},
		{15, Error, "CRON_TZ of line 14"},
		{18, Error, `SHELL: "bash" is relative`},
		{20, Error, "no command before the %"},
		{21, Warning, "USER"},
		{22, Warning, "LOGNAME"},
		{23, Warning, "random delay"},
		{24, Warning, "nothing is expanded"},
		{25, Warning, `"root"`},
		{26, Warning, "5/20 is read as every 20 from 5"},
		{27, Warning, "does not continue"},
		{28, Error, "five time fields and a command"},
		{29, Error, "five time fields and a command"},
	}
	for i, w := range want {
		if i >= len(f.Problems) {
			t.Fatalf("%d problems, want %d", len(f.Problems), len(want))
		}
		if p := f.Problems[i]; p.Line != w.line || p.Severity != w.severity || !strings.Contains(p.Reason, w.reason) || p.Text == "" {
			t.Errorf("got %v, want line %d %s %q", p, w.line, w.severity, w.reason)
		}
	}
	var lines []int
	for _, e := range f.Entries {
		lines = append(lines, e.Line)
	}
	if len(f.Problems) != len(want) || !slices.Equal(lines, []int{25, 26, 27}) || f.Errors() != 19 {
		t.Errorf("%d problems, %d errors, entries of lines %v", len(f.Problems), f.Errors(), lines)
	}
	if _, set := f.Entries[0].Env["LOGNAME"]; set {
		t.Error("LOGNAME was set")
	}
}

func TestAssignments(t *testing.T) {
	for text, want := range map[string]string{
		`A=x`:                    `x`,
		"  A\t=  x y  ":          `x y`,
		`A="  x  "  `:            `  x  `,
		`A='it "is"'`:            `it "is"`,
		`A=it's "so"`:            `it's "so"`,
		`'A' = x`:                `x`,
		`"A"=x`:                  `x`,
		`A=`:                     ``,
		`A=""`:                   ``,
		`A=x # no comment`:       `x # no comment`,
		`A=b=c`:                  `b=c`,
		`A=50%`:                  `50%`,
		`A=* * * * * not a line`: `* * * * * not a line`,
	} {
		e := one(t, text+"\n* * * * * x\n", Options{})
		if got, set := e.Env["A"]; got != want || !set {
			t.Errorf("%s: %q (set: %v), want %q", text, got, set, want)
		}
	}
	// A command may begin with an assignment of its own.
	if e := one(t, "* * * * * A=1 B=2 cmd\n", Options{}); e.Command != "A=1 B=2 cmd" || len(e.Env) != 0 {
		t.Errorf("got %+v", e)
	}
}

func TestFilesFromOtherSystems(t *testing.T) {
	f := parse(t, "\ufeffA=1\r\n\r\n# note\r\n0 5 * * * /bin/x\r\n0 6 * * * /bin/y", Options{})
	if p := problems(f); !slices.Equal(p, []string{"1 warning", "1 warning", "5 warning"}) {
		t.Fatalf("problems %v", f.Problems)
	}
	if len(f.Entries) != 2 || f.Entries[0].Command != "/bin/x" || f.Entries[0].Env["A"] != "1" || f.Entries[0].Comment != "note" || f.Entries[1].Command != "/bin/y" {
		t.Fatalf("entries %+v", f.Entries)
	}
}

func TestUnreadableLinesAreListedAndTheRestIsRead(t *testing.T) {
	long := "* * * * * echo " + strings.Repeat("x", 10*MaxLine)
	f := parse(t, "* * * * * a\x00b\n"+long+"\n* * * * * caf\xe9\n# caf\xe9 \x00\n* * * * * last\n", Options{})
	if got := problems(f); !slices.Equal(got, []string{"1 error", "2 error", "3 error"}) {
		t.Fatalf("problems %v", got)
	}
	for _, p := range f.Problems {
		if len(p.Text) > 250 || strings.ContainsRune(p.Text, 0) || !strings.HasPrefix(p.Text, "* * * * *") {
			t.Errorf("text %.80q of %d bytes", p.Text, len(p.Text))
		}
	}
	if len(f.Entries) != 1 || f.Entries[0].Line != 5 || f.Entries[0].Comment != "caf\ufffd \ufffd" {
		t.Fatalf("entries %+v", f.Entries)
	}

	exact := "* * * * * echo "
	exact += strings.Repeat("x", MaxLine-len(exact))
	one(t, exact+"\n", Options{})
	if f := parse(t, exact+"x\n", Options{}); f.Errors() != 1 {
		t.Errorf("a line of MaxLine+1 bytes: %v", problems(f))
	}
}

func TestReadErrorsAreReported(t *testing.T) {
	broken := errors.New("disk on fire")
	_, err := Parse(io.MultiReader(strings.NewReader("* * * * * x\n"), iotest.ErrReader(broken)), Options{File: "/etc/crontab"})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "/etc/crontab") {
		t.Fatalf("error %v", err)
	}
}
