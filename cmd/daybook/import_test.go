package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/domain"
)

const tab = `# a backup each night
MAILTO=ops@example.com
SHELL=/bin/bash
0 2 * * * /usr/local/bin/backup --full
*/5 * * * * echo hi | cat%input
@reboot /usr/bin/start-up
CRON_TZ=Europe/Berlin
30 9 * * 1-5 /usr/bin/report --day=$(date +\%F)
`

func TestImportIsShownFirst(t *testing.T) {
	c := newCLI(t)
	file := c.file("tab", tab)
	r := c.run("import", "crontab", file).exits(exitOK, "a user's crontab, time zone America/New_York (from TZ)",
		":2: warning:", ":6: skipped: @reboot", "3 to create", "nothing has been changed: --apply does it")
	for line, cells := range map[string]string{
		"4": "create 0 2 * * * America/New_York /usr/local/bin/backup --full",
		"5": "create */5 * * * * America/New_York echo hi | cat",
		"8": "create 30 9 * * 1-5 Europe/Berlin /usr/bin/report --day=$(date +%F)",
	} {
		row := r.row(line)
		if got := row[1] + " " + strings.Join(row[3:], " "); got != cells {
			t.Errorf("line %s: %q, want %q", line, got, cells)
		}
	}
	c.run("job", "list").exits(exitOK, "no jobs yet")
}

func TestImportedLinesMeanWhatTheyMeanToCron(t *testing.T) {
	c := newCLI(t)
	file := c.file("tab", tab)
	c.run("import", "crontab", file, "--apply", "--queue", "cron").exits(exitOK, "3 created")
	for _, j := range c.run("job", "list", "-o", "jsonl").exits(exitOK).jsonl() {
		s := j["spec"].(map[string]any)
		for key, want := range map[string]any{
			"kind": domain.KindExec, "queue": "cron", "timeout": "0s", "overlap": "allow", "misfire": "latest",
			"catchup_window": "1m0s", "source": "crontab:" + file,
		} {
			if s[key] != want {
				t.Errorf("%v: %s is %v, want %v", j["name"], key, s[key], want)
			}
		}
		if n := s["retry"].(map[string]any)["max_attempts"]; n != 1.0 {
			t.Errorf("%v: %v attempts", j["name"], n)
		}
		target := s["target"].(map[string]any)
		if target["shell_path"] != "/bin/bash" {
			t.Errorf("%v: shell %v", j["name"], target)
		}
		if strings.HasPrefix(j["name"].(string), "echo") && (target["stdin"] != "input\n" || target["shell"] != "echo hi | cat") {
			t.Errorf("the %% rule: %v", target)
		}
	}
}

func TestImportTheSameFileAgain(t *testing.T) {
	c := newCLI(t)
	file := c.file("tab", tab)
	c.run("import", "crontab", file, "--apply").exits(exitOK)
	backup := c.run("import", "crontab", file, "--apply").exits(exitOK, "3 unchanged").row("4")
	if backup[1] != "unchanged" {
		t.Errorf("the second import: %v", backup)
	}
	if n := len(c.run("job", "history", backup[2], "-o", "jsonl").exits(exitOK).jsonl()); n != 1 {
		t.Errorf("%d events after an import that changed nothing", n)
	}

	edited := strings.Replace(tab, "0 2 * * *", "15 3 * * *", 1)
	edited = strings.Replace(edited, "*/5 * * * * echo hi | cat%input\n", "", 1)
	if err := os.WriteFile(file, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	r := c.run("import", "crontab", file).exits(exitOK, "1 to update, 1 to archive, 1 unchanged")
	if row := r.row("-"); row[1] != "archive" || !strings.HasPrefix(row[2], "echo-hi-") {
		t.Errorf("what goes is not shown first: %v", row)
	}
	r = c.run("import", "crontab", file, "--apply").exits(exitOK, "1 updated, 1 archived, 1 unchanged")
	if row := r.row("4"); row[1] != "updated" || row[2] != "(schedules)" || row[3] != backup[2] {
		t.Errorf("a line with another schedule is the same job: %v", row)
	}
	gone := r.row("-")[2]
	if job := c.run("job", "show", gone, "-o", "json").exits(exitOK).json(); job["state"] != "archived" {
		t.Errorf("state %v", job["state"])
	}
	c.run("import", "crontab", file, "--apply").exits(exitOK, "2 unchanged")

	if err := os.WriteFile(file, []byte(tab), 0o600); err != nil {
		t.Fatal(err)
	}
	if row := c.run("import", "crontab", file, "--apply").exits(exitOK).row("5"); row[1] != "created" || row[2] != gone {
		t.Errorf("a line that came back: %v", row)
	}
}

func TestImportRefusesWholeWhatItCannotHonour(t *testing.T) {
	c := newCLI(t)
	file := c.file("tab", tab+"61 * * * * /bin/late\n0 0 0 1 1 1 /bin/six\n")
	for _, args := range [][]string{{}, {"--apply"}} {
		c.run(append([]string{"import", "crontab", file}, args...)...).exits(exitUsage,
			file+":9: error: minute: 61 is out of range 0-59", ":10: error:", "2 lines cannot be honoured, so nothing is applied", "--skip-bad")
	}
	c.run("job", "list").exits(exitOK, "no jobs yet")
	c.run("import", "crontab", file, "--apply", "--skip-bad").exits(exitOK, "3 created", ":9: error:")
}

func TestImportJSON(t *testing.T) {
	c := newCLI(t)
	file := c.file("tab", tab+"61 * * * * /bin/late\n")
	v := c.run("import", "crontab", file, "-o", "json", "--apply").exits(exitUsage).json()
	hasKeys(t, v, "file", "source", "time_zone", "system", "applied", "jobs", "problems")
	if v["applied"] != false {
		t.Error("applied in spite of a bad line")
	}
	problems := v["problems"].([]any)
	last := problems[len(problems)-1].(map[string]any)
	hasKeys(t, last, "line", "text", "reason", "severity")
	if last["line"] != 9.0 || last["severity"] != "error" {
		t.Errorf("got %v", last)
	}
	v = c.run("import", "crontab", file, "-o", "json", "--apply", "--skip-bad").exits(exitOK).json()
	job := v["jobs"].([]any)[0].(map[string]any)
	hasKeys(t, job, "line", "action", "name", "schedule", "time_zone", "command")
	if v["applied"] != true || job["action"] != "create" {
		t.Errorf("got %v", v)
	}
}

func TestImportConflict(t *testing.T) {
	c := newCLI(t)
	file := c.file("tab", "0 2 * * * /usr/bin/backup\n0 3 * * * /usr/bin/tidy\n")
	name := c.run("import", "crontab", file).exits(exitOK).row("1")[2]
	c.apply("jobs:\n  - {name: " + name + ", exec: {argv: [echo]}}\n")
	c.run("import", "crontab", file, "--apply").exits(exitConflict, fmt.Sprintf("job %q exists and is not owned by a file", name)).prints("conflict")
	if n := len(c.run("job", "list", "-o", "jsonl").exits(exitOK).jsonl()); n != 1 {
		t.Errorf("%d jobs after a refused import", n)
	}
}

func TestImportFormatsAndZones(t *testing.T) {
	c := newCLI(t)
	system := c.file("tab", "0 2 * * * root /usr/bin/backup\n")
	v := c.run("import", "crontab", system, "--system", "--zone", "Asia/Tokyo", "-o", "json").exits(exitOK).json()
	job := v["jobs"].([]any)[0].(map[string]any)
	if job["user"] != "root" || job["command"] != "/usr/bin/backup" || job["time_zone"] != "Asia/Tokyo" || v["system"] != true {
		t.Errorf("got %v", v)
	}
	c.run("import", "crontab", system, "--user").exits(exitOK, `the command is "root"`)
	c.run("import", "crontab", system, "--user", "--system").exits(exitUsage, "exclude each other")
	c.run("import", "crontab", system, "--zone", "Mars/Olympus").exits(exitUsage, `"Mars/Olympus" is no IANA time zone`)
	c.run("import", "crontab", system, "--queue", "No Queue").exits(exitUsage, "--queue")
	c.run("import", "crontab", "/nowhere/crontab").exits(exitUsage, "/nowhere/crontab")
	c.run("import", "crontab").exits(exitUsage, "takes FILE")
	c.env["TZ"] = "EST5EDT,M3.2.0,M11.1.0"
	c.run("import", "crontab", system).exits(exitUsage, "TZ is", "give --zone")

	c.in = "0 4 * * * /usr/bin/tidy\n"
	v = c.run("import", "crontab", "-", "--zone", "UTC", "--apply", "-o", "json").exits(exitOK).json()
	if source := v["source"].(string); !strings.HasPrefix(source, "crontab:stdin:") || v["file"] != "stdin" {
		t.Errorf("got %v", v)
	}
}

func TestImportAtTheStartOfDev(t *testing.T) {
	c := besideDatabase(t)
	d := devFile{Database: c.env["DATABASE_URL"]}
	start := func(file string) (string, error) {
		var errs strings.Builder
		a := &app{in: strings.NewReader(""), err: &errs, env: func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }}
		err := a.importAtStart(t.Context(), file, d)
		return errs.String(), err
	}
	for _, test := range []struct{ name, text, said string }{
		{"jobs.yaml", twoJobs, "2 created"},
		{"jobs", "# mine\n" + twoJobs, "2 unchanged"},
		{"jobs.json", `{"jobs": [{"name": "third", "exec": {"argv": ["true"]}}]}`, "1 created"},
		{"tab", tab, "3 created"},
		{"tab", "# only a comment\n", "nothing to do"},
	} {
		said, err := start(c.file(test.name, test.text))
		if err != nil || !strings.Contains(said, test.said) {
			t.Errorf("%s: %v, %q; want %q", test.name, err, said, test.said)
		}
	}
	for name, text := range map[string]string{"jobs.yaml": "jobs: 3\n", "tab": "61 * * * * late\n"} {
		if _, err := start(c.file(name, text)); err == nil {
			t.Errorf("%s: a file with an error is taken", name)
		}
	}
	if _, err := start("/nowhere/tab"); err == nil {
		t.Error("a file that is not there is taken")
	}
}
