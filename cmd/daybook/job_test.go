package main

import (
	"strings"
	"testing"
)

func TestJobList(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	c.run("job", "archive", "hello", "--reason", "gone").exits(exitOK)
	r := c.run("job", "list").exits(exitOK).lacks("hello")
	r.prints("NAME", "NEXT", "30 2 * * *", "America/New_York", "02:30:00 E") // EST or EDT
	c.run("job", "list", "--all").exits(exitOK).prints("hello", "archived")
	c.run("job", "list", "-o", "wide").exits(exitOK).prints("TAGS", "billing")
	if out := c.run("job", "list", "-o", "id").exits(exitOK).out; out != "nightly-report\n" {
		t.Errorf("ids: %q", out)
	}
	if lines := c.run("job", "list", "--all", "-o", "jsonl").exits(exitOK).jsonl(); len(lines) != 2 {
		t.Errorf("%d lines", len(lines))
	}
	jobs := c.run("job", "list", "-o", "json").exits(exitOK).json()["jobs"].([]any)
	hasKeys(t, jobs[0], "name", "id", "state", "version", "spec_version", "next_fire", "materialized_through", "created_at", "changed_at", "spec")
	job := jobs[0].(map[string]any)
	instant(t, job["next_fire"])
	instant(t, job["created_at"])
	if zone := job["spec"].(map[string]any)["time_zone"]; zone != "America/New_York" {
		t.Errorf("time_zone %v", zone)
	}
}

func TestEmptyListIsAnEmptyListToPrograms(t *testing.T) {
	c := newCLI(t)
	for _, args := range [][]string{{"job", "list"}, {"run", "list"}, {"queue", "list"}, {"worker", "list"}} {
		for key, v := range c.run(append(args, "-o", "json")...).exits(exitOK).json() {
			if list, isList := v.([]any); isList && list == nil || v == nil {
				t.Errorf("%v: %s is null", args, key)
			}
		}
		if out := c.run(append(args, "-o", "jsonl")...).exits(exitOK).out; out != "" {
			t.Errorf("%v -o jsonl printed %q", args, out)
		}
	}
}

func TestJobShow(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	c.run("job", "show", "nightly-report").exits(exitOK).prints("Every day at 02:30 (America/New_York)", "report --all", "1, no retry", "no run has finished yet", "billing")
	c.trigger("nightly-report")
	c.work(fail)
	c.settle()
	c.run("job", "show", "nightly-report").exits(exitOK).prints("1 failed", "last failure")
	v := c.run("job", "show", "nightly-report", "-o", "json").exits(exitOK).json()
	if stats := v["stats"].(map[string]any); stats["failed"] != 1.0 || stats["last_state"] != "failed" {
		t.Errorf("stats %v", stats)
	}
}

func TestUnknownJobIsNotFoundAndSimilarOnesAreNamed(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	for _, args := range [][]string{
		{"job", "show", "nigthly-report"},
		{"job", "history", "nightly-reports"},
		{"job", "trigger", "nightly"},
		{"job", "pause", "nightly_report", "--reason", "x"},
		{"job", "resume", "Nightly-Report"},
		{"job", "archive", "nightly-repot"},
		{"job", "preview", "nightlyreport"},
		{"job", "backfill", "night-report", "--from", "1h", "--to", "now"},
		{"run", "list", "--job", "nightly-repor"},
	} {
		c.run(args...).exits(exitNotFound, "does not exist: did you mean nightly-report?")
	}
	if r := c.run("job", "show", "something-else-entirely").exits(exitNotFound); strings.Contains(r.err, "did you mean") {
		t.Errorf("suggested %s", r.err)
	}
	if r := c.run("job", "show", "x\x1b[31my").exits(exitNotFound); strings.Contains(r.err, "\x1b") {
		t.Errorf("an escape sequence came back: %q", r.err)
	}
}

func TestPauseResumeArchive(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	c.run("job", "pause", "nightly-report").exits(exitUsage, "--reason is needed")
	c.run("job", "pause", "nightly-report", "--reason", "supplier is down").exits(exitOK).prints("nightly-report paused")
	c.run("job", "pause", "nightly-report", "--reason", "again").exits(exitOK).prints("already")
	c.run("job", "show", "nightly-report").exits(exitOK).prints("paused: supplier is down").lacks("Next")
	c.run("job", "preview", "nightly-report", "-o", "id").exits(exitOK, "is paused")
	c.trigger("nightly-report") // by hand it still runs
	c.run("job", "resume", "nightly-report").exits(exitOK).prints("resumed; next at")
	c.run("job", "resume", "nightly-report").exits(exitOK).prints("not paused")
	v := c.run("job", "archive", "nightly-report", "--reason", "no longer needed", "-o", "json").exits(exitOK).json()
	if v["state"] != "archived" {
		t.Errorf("state %v", v["state"])
	}
	c.run("job", "archive", "nightly-report").exits(exitOK).prints("already")
	c.run("job", "pause", "nightly-report", "--reason", "x").exits(exitConflict, "archived")
	c.run("job", "trigger", "nightly-report").exits(exitConflict, "archived")
	c.run("job", "history", "nightly-report").exits(exitOK).prints("JobPaused", "supplier is down", "JobResumed", "JobArchived", "no longer needed")
	page := c.run("job", "history", "nightly-report", "--before", "3", "--limit", "1", "-o", "jsonl").exits(exitOK).jsonl()
	if len(page) != 1 || page[0]["type"] != "JobPaused" || page[0]["version"] != 2.0 {
		t.Errorf("the page before version 3: %v", page)
	}
	hasKeys(t, page[0], "position", "era", "category", "stream_id", "version", "type", "at", "actor", "data")
	c.run("job", "history", "nightly-report", "--limit", "0").exits(exitUsage, "--limit 0")
}
