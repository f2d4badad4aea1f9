package main

import (
	"testing"
	"time"
)

func TestAsOf(t *testing.T) {
	c := newCLI(t)
	c.apply(`jobs: [{name: report, exec: {argv: [x]}}]`)
	id := c.trigger("report").String()
	then, err := c.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := then.Format(time.RFC3339Nano)
	c.run("job", "pause", "report", "--reason", "month end").exits(exitOK)
	c.run("run", "cancel", id).exits(exitOK)

	c.run("job", "show", "report").exits(exitOK).prints("month end")
	c.run("job", "show", "report", "--as-of", at).exits(exitOK).prints("active").lacks("month end")
	c.run("run", "show", id).exits(exitOK).prints("cancelled")
	c.run("run", "show", id, "--as-of", at).exits(exitOK).prints("pending")
	c.run("queue", "list").exits(exitOK).lacks("default")
	if row := c.run("queue", "list", "--as-of", at).exits(exitOK).row("default"); row[2] != "1" {
		t.Errorf("row %q", row)
	}
	c.run("queue", "list", "--as-of", "2026-01-01T00:00:00Z").exits(exitOK, "nothing waited, and nothing ran")
	c.run("queue", "list", "--as-of", at).exits(exitOK).lacks("WORKERS") // they are not on record
	c.run("queue", "list", "--as-of", "sometime").exits(exitUsage, "--as-of")
	c.run("job", "show", "report", "--as-of", "2020-01-01T00:00:00Z").exits(exitNotFound, `there was no job "report" at 2019-12-31 19:00:00 EST`)
}
