package crontab

import (
	"strings"
	"testing"

	"github.com/daybookhq/daybook/internal/executor"
)

func TestPercent(t *testing.T) {
	for _, c := range []struct{ text, command, stdin string }{
		{`cmd`, `cmd`, ""},
		{`cmd%`, `cmd`, ""},
		{`cmd%a`, `cmd`, "a\n"},
		{`cmd%a%b`, `cmd`, "a\nb\n"},
		{`cmd%a%`, `cmd`, "a\n"},
		{`cmd%%`, `cmd`, "\n"},
		{`cmd%a%%b`, `cmd`, "a\n\nb\n"},
		{`date +\%F`, `date +%F`, ""},
		{`date +\%F%in\%put`, `date +%F`, "in%put\n"},
		{`echo a\b`, `echo a\b`, ""},
		{`echo a\\b`, `echo a\\b`, ""},
		{`echo a\\%b`, `echo a\\`, "b\n"},
		{`echo a\\\%b`, `echo a\\%b`, ""},
		{`cat%a\b`, `cat`, "a\\b\n"},
		{`cat%a\\%b`, `cat`, "a\\%b\n"},
		{`echo \`, `echo \`, ""},
	} {
		if command, stdin := percent(c.text); command != c.command || stdin != c.stdin {
			t.Errorf("%s: %q and %q, want %q and %q", c.text, command, stdin, c.command, c.stdin)
		}
	}
}

// What matters of all this is what a command does in the end.
func TestEntriesRunAsUnderCron(t *testing.T) {
	t.Setenv("LANG", "")
	home := t.TempDir()
	for _, c := range []struct{ name, text, want string }{
		{"input", `* * * * * cat -%first%second \% third`, "first\nsecond % third\n"},
		{"no input", `* * * * * cat; echo done`, "done\n"},
		{"percent sign", `* * * * * printf '\%s|' a b`, "a|b|"},
		{"default path and shell", `* * * * * echo $PATH $SHELL`, "/usr/bin:/bin /bin/sh\n"},
		{"variables", "A = '  a  '\nPATH=/bin:/usr/bin\n* * * * * echo \"$A|$PATH\"", "  a  |/bin:/usr/bin\n"},
		{"home", "HOME=" + home + "\n* * * * * pwd; echo ~", home + "\n" + home + "\n"},
		{"shell", "SHELL=/usr/bin/env\n* * * * * x", ""},
		{"nothing is expanded", "A=$HOME/x\n* * * * * echo \"$A\"", "$HOME/x\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := parse(t, c.text+"\n", Options{})
			if len(f.Entries) != 1 {
				t.Fatalf("problems %v", f.Problems)
			}
			r := executor.Run(t.Context(), f.Entries[0].Target(), executor.Options{})
			if c.name == "shell" { // env -c is an error of env, which shows that it was the shell
				if r.Err == nil || !strings.Contains(r.Output.Head, "env:") {
					t.Fatalf("error %v, output %q", r.Err, r.Output)
				}
				return
			}
			if r.Err != nil || r.Output.String() != c.want {
				t.Fatalf("error %v, output %q, want %q", r.Err, r.Output, c.want)
			}
		})
	}
}

func TestCommandCutByPercentIsWarnedAbout(t *testing.T) {
	for text, want := range map[string]bool{
		`echo $(date +%F)`:         true,
		`echo "$(date +%F)"`:       true,
		"echo `date +%F`":          true,
		`date +%F`:                 true,
		`date -u "+%F %T" >>log`:   true,
		`awk '{printf "%s", $1}'`:  true,
		`echo $(date +\%F)`:        false,
		`mail -s "hello" bob%text`: false,
		`cat%it's "me`:             false,
		`echo "it's" $(x)%in`:      false,
		`echo \"%in`:               false,
		`echo 'a\'%in`:             false,
		`update +x%in`:             false,
	} {
		f := parse(t, "* * * * * "+text+"\n", Options{})
		if warned := len(f.Problems) == 1 && strings.Contains(f.Problems[0].Reason, `write \%`); warned != want || len(f.Entries) != 1 {
			t.Errorf("%s: problems %v, want a warning: %v", text, f.Problems, want)
		}
	}
}

func TestCommentsBelongToTheEntryBelow(t *testing.T) {
	for text, want := range map[string]string{
		"# one\n#two\n":                                 "one\ntwo",
		"# far\n\n# near\n":                             "near",
		"# far\n\n":                                     "",
		"# about A\nA=1\n":                              "",
		"# x\n# m h dom mon dow command\n#\n":           "",
		"# old\n# 0 5 * * * /bin/old\n":                 "",
		"# at 5 in the morning\n":                       "at 5 in the morning",
		"# a\n* * * * * first\n":                        "",
		"# " + strings.Repeat("x", 600) + "\n# short\n": "short",
	} {
		f := parse(t, text+"* * * * * last\n", Options{})
		if got := f.Entries[len(f.Entries)-1].Comment; got != want {
			t.Errorf("%.60q: comment %q, want %q", text, got, want)
		}
	}
}
