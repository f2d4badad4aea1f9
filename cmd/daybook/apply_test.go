package main

import (
	"strings"
	"testing"

	"github.com/daybookhq/daybook/domain"
)

func TestApplySaysWhatItChanged(t *testing.T) {
	c := newCLI(t)
	file := c.file("jobs.yaml", twoJobs)
	r := c.run("job", "apply", "-f", file, "--dry-run").exits(exitOK, "nothing has been changed")
	if row := r.row("hello"); row[1] != "create" {
		t.Errorf("a job that would be created: %v", row)
	}
	c.run("job", "list").exits(exitOK, "no jobs yet").lacks("hello")

	r = c.run("job", "apply", "-f", file, "--reason", "first").exits(exitOK)
	if row := r.row("nightly-report"); row[1] != "created" {
		t.Errorf("a new job: %v", row)
	}
	if row := c.run("job", "apply", "-f", file).exits(exitOK).row("nightly-report"); row[1] != "unchanged" {
		t.Errorf("the same again: %v", row)
	}
	c.in = strings.NewReplacer("30 2 * * *", "45 3 * * *", "[billing]", "[billing, eu]").Replace(twoJobs)
	r = c.run("job", "apply", "-f", "-").exits(exitOK).prints("updated (schedules, tags)")
	if row := r.row("hello"); row[1] != "unchanged" {
		t.Errorf("a job that is as before: %v", row)
	}
	history := c.run("job", "history", "nightly-report", "-o", "json").exits(exitOK).json()["events"].([]any)
	if len(history) != 2 {
		t.Fatalf("%d events, want JobUpdated and JobCreated", len(history))
	}
	created := history[1].(map[string]any)
	actor := created["actor"].(string)
	byUser := strings.HasPrefix(actor, "cli:") && strings.HasSuffix(actor, "@"+hostname())
	if overHTTP && actor != "http:loopback" || !overHTTP && !byUser {
		t.Errorf("actor %q, want cli:USER@%s, or http:loopback", actor, hostname())
	}
	if reason := created["data"].(map[string]any)["reason"]; reason != "first" {
		t.Errorf("reason %v", reason)
	}
}

func TestApplyJSON(t *testing.T) {
	c := newCLI(t)
	file := c.file("jobs.yaml", twoJobs)
	v := c.run("job", "apply", "-f", file, "-o", "json").exits(exitOK).json()
	hasKeys(t, v, "applied", "jobs")
	first := v["jobs"].([]any)[0].(map[string]any)
	if v["applied"] != true || first["name"] != "nightly-report" || first["action"] != "create" {
		t.Errorf("got %v", v)
	}
	v = c.run("job", "apply", "-f", file, "-o", "json", "--dry-run").exits(exitOK).json()
	if v["applied"] != false {
		t.Errorf("a dry run says applied: %v", v)
	}
	if lines := c.run("job", "apply", "-f", file, "-o", "jsonl").exits(exitOK).jsonl(); len(lines) != 2 {
		t.Errorf("%d lines", len(lines))
	}
	if out := c.run("job", "apply", "-f", file, "-o", "id").exits(exitOK).out; out != "nightly-report\nhello\n" {
		t.Errorf("ids: %q", out)
	}
}

func TestApplyRefusesWhatIsWrong(t *testing.T) {
	c := newCLI(t)
	good := c.file("good.yaml", twoJobs)
	for name, test := range map[string]struct {
		args []string
		said []string
	}{
		"no file":          {nil, []string{"-f FILE is needed"}},
		"not there":        {[]string{"-f", "/nowhere/jobs.yaml"}, []string{"/nowhere/jobs.yaml"}},
		"no YAML":          {[]string{"-f", c.file("bad.yaml", "jobs:\n  - name: [\n")}, []string{"bad.yaml:"}},
		"unknown field":    {[]string{"-f", c.file("bad.yaml", "jobs:\n  - name: hello\n    exec: {argv: [echo]}\n    retries: 3\n")}, []string{"bad.yaml:4:", "retries"}},
		"bad schedule":     {[]string{"-f", c.file("bad.yaml", "jobs:\n  - name: hello\n    schedule: \"99 2 * * *\"\n    exec: {argv: [echo]}\n")}, []string{"bad.yaml:3:", "99"}},
		"twice":            {[]string{"-f", good, "-f", good}, []string{"good.yaml:2: job \"nightly-report\" is defined in", "hello"}},
		"one of two wrong": {[]string{"-f", good, "-f", c.file("bad.yaml", "jobs: 3\n")}, []string{"bad.yaml:1:"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cli{t: t, env: c.env}
			c.run(append([]string{"job", "apply"}, test.args...)...).exits(exitUsage, test.said...)
		})
	}
	c.run("job", "list").exits(exitOK, "no jobs yet")
}

func TestApplyDoesNotTakeAwayAFilesJob(t *testing.T) {
	c := newCLI(t)
	tab := c.file("tab", "0 2 * * * /usr/bin/backup\n")
	c.run("import", "crontab", tab, "--apply").exits(exitOK)
	name := strings.TrimSpace(c.run("job", "list", "-o", "id").out)
	c.in = "jobs:\n  - {name: " + name + ", exec: {argv: [echo]}}\n  - {name: other, exec: {argv: [echo]}}\n"
	r := c.run("job", "apply", "-f", "-").exits(exitConflict, name, "crontab:"+tab)
	if r.out != "" {
		t.Errorf("a refused change printed %q", r.out)
	}
	v := c.run("job", "apply", "-f", "-", "-o", "json").exits(exitConflict).json()
	if conflict := v["conflicts"].([]any)[0].(map[string]any); conflict["owner"] != "crontab:"+tab || v["applied"] != false {
		t.Errorf("got %v", v)
	}
	c.run("job", "show", "other").exits(exitNotFound) // all or nothing

	c.run("job", "archive", name).exits(exitOK)
	c.run("job", "apply", "-f", "-").exits(exitOK) // nobody's any more
	if job := c.run("job", "show", name, "-o", "json").exits(exitOK).json(); job["state"] != "active" || job["spec"].(map[string]any)["kind"] != domain.KindExec {
		t.Errorf("got %v", job)
	}
}
