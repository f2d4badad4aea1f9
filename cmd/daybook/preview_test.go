package main

import (
	"strings"
	"testing"
)

func TestPreviewNeedsNoServer(t *testing.T) {
	c := offline(t)
	r := c.run("job", "preview", "--schedule", "30 2 * * *", "--zone", "America/New_York", "--after", "2026-03-07T12:00:00Z", "-n", "2", "-o", "json").exits(exitOK)
	v := r.json()
	hasKeys(t, v, "description", "warnings", "fires")
	fires := v["fires"].([]any)
	if len(fires) != 2 {
		t.Fatalf("%d fires", len(fires))
	}
	first := fires[0].(map[string]any)
	hasKeys(t, first, "at", "local", "nominal", "shift", "fold")
	for key, want := range map[string]any{
		"at": "2026-03-08T07:30:00Z", "local": "2026-03-08T03:30:00-04:00", "nominal": "2026-03-08T02:30", "shift": "1h0m0s", "fold": 0.0,
	} {
		if first[key] != want {
			t.Errorf("%s is %v, want %v", key, first[key], want)
		}
	}
	if again := c.run("job", "preview", "--schedule", "30 2 * * *", "--zone", "America/New_York", "--after", "2026-03-07T12:00:00Z", "-n", "2").exits(exitOK); again.out != r.out {
		t.Error("to a program the standard is another than JSON")
	}
	c.run("job", "preview", "--schedule", "30 2 * * *", "-o", "table").exits(exitOK).prints("Every day at 02:30 (UTC)")
	ids := c.run("job", "preview", "--schedule", "@every 90m", "--schedule", "@at 2026-01-01T01:00:00Z", "--after", "2026-01-01T00:00:00Z", "--until", "2026-01-01T03:00:00Z", "-o", "id").exits(exitOK)
	if ids.out != "2026-01-01T01:00:00Z\n2026-01-01T01:30:00Z\n2026-01-01T03:00:00Z\n" {
		t.Errorf("instants of two schedules up to an instant: %q", ids.out)
	}
	if n := strings.Count(c.run("job", "preview", "--schedule", "* * * * *", "-n", "100000", "-o", "id").exits(exitOK).out, "\n"); n != 100_000 {
		t.Errorf("%d instants", n)
	}
	if n := len(c.run("job", "preview", "--schedule", "* * * * *", "-n", "3", "-o", "jsonl").exits(exitOK).jsonl()); n != 3 {
		t.Errorf("%d lines", n)
	}
}

func TestRefusedScheduleIsSaidToPeopleAndPrograms(t *testing.T) {
	c := offline(t)
	for _, test := range []struct{ expr, zone, code, field string }{
		{"99 2 * * *", "", "E_RANGE", "minute"},
		{"", "", "E_EMPTY", "schedule"},
		{"* * * *", "", "E_FIELDS", "schedule"},
		{"0 0 30 2 *", "", "E_NEVER", ""},
		{"0 2 * * *", "Mars/Olympus", "E_ZONE", "time_zone"},
	} {
		v := c.run("job", "preview", "--schedule", test.expr, "--zone", test.zone, "-o", "json").exits(exitUsage).json()
		refused := v["error"].(map[string]any)
		hasKeys(t, refused, "code", "field", "value", "message", "hint")
		if refused["code"] != test.code || test.field != "" && refused["field"] != test.field {
			t.Errorf("%q: %v", test.expr, refused)
		}
		r := c.run("job", "preview", "--schedule", test.expr, "--zone", test.zone, "-o", "table").exits(exitUsage, refused["message"].(string))
		if r.out != "" {
			t.Errorf("to people, %q on stdout", r.out)
		}
	}
	for _, args := range [][]string{
		{}, {"a", "b"}, {"a", "--schedule", "* * * * *"}, {"--schedule", "* * * * *", "-n", "100001"}, {"--schedule", "* * * * *", "-n", "-1"},
		{"--schedule", "* * * * *", "--after", "tomorrow"}, {"--schedule", "* * * * *", "--after", "2026-01-02", "--until", "2026-01-01"},
	} {
		c.run(append([]string{"job", "preview"}, args...)...).exits(exitUsage)
	}
}

func TestPreviewOfAJob(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	v := c.run("job", "preview", "nightly-report", "-n", "1", "-o", "json").exits(exitOK).json()
	if v["description"] != "Every day at 02:30 (America/New_York)" || len(v["fires"].([]any)) != 1 {
		t.Errorf("got %v", v)
	}
	v = c.run("job", "preview", "hello", "-o", "json").exits(exitOK).json()
	if len(v["fires"].([]any)) != 0 || v["description"] != "On request only" {
		t.Errorf("a job without a schedule: %v", v)
	}
}
