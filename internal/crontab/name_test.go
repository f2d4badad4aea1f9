package crontab

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var jobName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

func names(t *testing.T, text string, o Options) []string {
	t.Helper()
	var l []string
	for _, e := range parse(t, text, o).Entries {
		l = append(l, e.Name)
	}
	return l
}

func TestNamesStayTheSame(t *testing.T) {
	const file = "0 1 * * * /opt/dump --all\n0 2 * * * /opt/clean\n0 3 * * * /opt/clean\n"
	base := names(t, file, Options{})
	dump, first, second := base[0], base[1], base[2]
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"read again", file, base},
		{"other schedule", "*/5 * * * * /opt/dump --all\n", []string{dump}},
		{"other blanks and comments", "# x\n\n*/5 *\t* * *    /opt/dump --all  \n", []string{dump}},
		{"other environment", "CRON_TZ=Asia/Tokyo\nA=1\n0 1 * * * /opt/dump --all\n", []string{dump}},
		{"other order of different commands", "0 2 * * * /opt/clean\n0 1 * * * /opt/dump --all\n0 3 * * * /opt/clean\n", []string{first, dump, second}},
		{"a line goes", "0 2 * * * /opt/clean\n0 3 * * * /opt/clean\n", []string{first, second}},
		{"a twin is broken", "0 1 * * * /opt/dump --all\n99 2 * * * /opt/clean\n0 3 * * * /opt/clean\n", []string{dump, second}},
		{"a twin at reboot", "@reboot /opt/clean\n0 2 * * * /opt/clean\n", []string{first}},
		{"a twin is new", file + "0 4 * * * /opt/clean\n", nil},
	} {
		got := names(t, c.text, Options{})
		if c.want == nil {
			c.want = append(slices.Clone(base), got[len(got)-1])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestNamesDiffer(t *testing.T) {
	all := slices.Concat(
		names(t, "* * * * * x\n* * * * * x\n* * * * * x y\n* * * * * xy\n* * * * * x%in\n* * * * * x%out\n", Options{File: "/etc/a"}),
		names(t, "* * * * * x\n", Options{File: "/etc/b"}),
		names(t, "* * * * * x y\n* * * * * x y z\n* * * * * alice x y\n", Options{File: "/etc/c", System: true}),
		names(t, "* * * * * root\n", Options{File: "/etc/c"}),
	)
	slices.Sort(all)
	if got := slices.Compact(slices.Clone(all)); len(got) != len(all) {
		t.Fatalf("two of %v are the same", all)
	}
}

func TestNamesTellWhatRuns(t *testing.T) {
	for command, want := range map[string]string{
		"/usr/local/bin/backup.sh --full >/dev/null 2>&1": "backup-sh-full",
		"A=1 B='x' /opt/run now":                          "run-now",
		"cd / && run-parts --report /etc/cron.hourly":     "cd-run-parts-report-cron-hourly",
		"/opt/My_Report.PY":                               "my-report-py",
		"ps aux | grep x":                                 "ps-aux",
		"été":                                             "t",
		"日報":                                              "cron",
		"--":                                              "cron",
		strings.Repeat("a", 100):                          strings.Repeat("a", 40),
		strings.Repeat("-a", 100):                         strings.TrimSuffix(strings.Repeat("a-", 20), "-"),
		"ab " + strings.Repeat("c", 100):                  "ab",
		"/opt/dir/":                                       "dir",
	} {
		e := parse(t, "* * * * * "+command+"\n", Options{}).Entries[0]
		if slug := e.Name[:len(e.Name)-1-hashLength]; slug != want {
			t.Errorf("%.40s: %s, want %s", command, slug, want)
		}
		if !jobName.MatchString(e.Name) {
			t.Errorf("%.40s: %q is no job name", command, e.Name)
		}
	}
}
