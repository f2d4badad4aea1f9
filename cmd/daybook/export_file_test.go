package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An export that was killed anywhere is gone on with by the same command, and
// what it holds in the end is what one without interruption holds.
func TestExportGoesOn(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	c.trigger("hello")
	dir := t.TempDir()
	file, whole := filepath.Join(dir, "log.jsonl"), filepath.Join(dir, "whole.jsonl")
	c.run("audit", "export", "--file", file).exits(exitOK, "3 events", "goes on")
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first := read(file)
	if strings.Count(first, "\n") != 3 {
		t.Fatalf("exported %q", first)
	}
	// Killed in the middle of its next page, it leaves lines that it does not
	// count, the last of them cut.
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(first[:len(first)/2]); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	c.trigger("hello")
	c.run("audit", "export", "--file", file).exits(exitOK, "1 event;")
	c.run("audit", "export", "--file", whole).exits(exitOK, "4 events")
	if read(file) != read(whole) {
		t.Errorf("gone on with:\n%s\nwhole:\n%s", read(file), read(whole))
	}
	c.run("audit", "export", "--file", file, "--job", "hello").exits(exitUsage, "holds another export")
	c.run("audit", "export", "--file", file, "--after", "{}").exits(exitUsage, "--after is not needed")
	c.run("audit", "export", "--file", c.file("mine.txt", "mine")).exits(exitUsage, "no export")
	if err := os.Truncate(file, 10); err != nil {
		t.Fatal(err)
	}
	c.run("audit", "export", "--file", file).exits(exitFailed, "it was changed")

	c.run("audit", "export", "--job", "hello").exits(exitOK, "3 events").prints("RunScheduled").lacks("nightly-report")
	c.run("audit", "export", "--to", "2020-01-01").exits(exitOK, "0 events")
}
