package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRetention(t *testing.T) {
	c := besideDatabase(t)
	owner := "--migrate-database-url=" + c.db.DSN
	c.run("retention", "status").exits(exitOK, "runs are kept 400d, outputs 30d").prints("MONTH", "kept")
	v := c.run("retention", "status", "-o", "json").exits(exitOK).json()
	hasKeys(t, v["retention"], "keep_runs", "keep_outputs", "low_mark", "months")
	c.run("retention", "run").exits(exitOK, "no month of runs is due")
	c.run("retention", "run", "--apply").exits(exitUsage, "--dir is needed")

	c.run("retention", "set").exits(exitUsage, "--runs or --outputs")
	c.run("retention", "set", "--runs", "soon").exits(exitUsage, `--runs "soon"`)
	c.run("retention", "set", "--runs", "1d").exits(exitFailed, "only the owner")
	c.run("retention", "set", "--runs", "1h", owner).exits(exitFailed, "a day at least")
	c.run("retention", "set", "--runs", "forever", owner).exits(exitOK, "runs are kept for ever, outputs 30d")
	c.run("retention", "set", "--runs", "1d", "--outputs", "14d", owner).exits(exitOK, "runs are kept 1d, outputs 14d")

	// A month without a run is due and leaves no file; one with a run leaves one.
	c.exec("SELECT daybook_ensure_partition('2020-01-01Z', '2020-02-28Z')")
	c.run("retention", "run").exits(exitOK, "nothing was changed").prints("2020-01", "2020-02")
	c.exec("INSERT INTO checkpoints (name, cursor, updated_at) VALUES ('run_summaries', '{\"era\": 9}', now()), ('event_feed', '{\"era\": 9}', now())")
	c.exec(`INSERT INTO events (category, stream_id, version, era, type, at, actor, data) VALUES
		('run', daybook_run_bound('2020-01-05Z'), 1, 1, 'RunScheduled', '2020-01-05Z', 'x', '{"job_id": "00000000-0000-0000-0000-000000000001", "job": "old", "job_version": 1, "origin": "schedule", "scheduled_at": "2020-01-05T00:00:00Z", "ready_at": "2020-01-05T00:00:00Z", "queue": "default", "kind": "noop"}')`)
	dir := filepath.Join(t.TempDir(), "retired")
	c.run("retention", "run", "--dir", dir, "--apply").exits(exitFailed, "2020-01 stays: run 016f7", "is pending")
	c.exec(`INSERT INTO events (category, stream_id, version, era, type, at, actor, data) VALUES ('run', daybook_run_bound('2020-01-05Z'), 2, 1, 'RunSkipped', '2020-01-06Z', 'x', '{"reason": "overlap"}')`)
	c.exec(`INSERT INTO jobs (id, name, spec, version, spec_version, materialized_through, created_at, changed_at) VALUES ('00000000-0000-0000-0000-000000000001', 'old', '{"name": "old", "queue": "default", "kind": "noop"}', 1, 1, now(), now(), now())`)
	r := c.run("retention", "run", "--dir", dir, "--apply").exits(exitOK, "1 month").prints("2020-01", "1 run", "runs-2020-01-")
	name := strings.Split(strings.TrimSpace(r.out), "\t")[2]
	if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || strings.Count(string(b), "\n") != 2 {
		t.Errorf("%s: %q, %v", name, b, err)
	}
	c.run("retention", "status").exits(exitOK, "complete above position").prints("retired", name)
	c.run("run", "show", "016f7330-5800-8000-8000-000000000000").exits(exitNotFound, name)
	c.run("events", "tail", "--after", "1").exits(exitNotFound, "no longer holds all events", "retention status")
}

// What is done as the owner of the tables is done to the deployment that is
// named, and never to another that is within reach.
func TestTheOwnersDatabaseIsTheNamedOne(t *testing.T) {
	c := offline(t)
	c.env["DAYBOOK_URL"] = "http://127.0.0.1:1"
	for _, line := range [][]string{{"retention", "set", "--runs", "1d"}, {"migrate", "status"}} {
		c.run(line...).exits(exitUsage, "http://127.0.0.1:1 does not lead to it")
	}
	c.env["DATABASE_URL"] = "postgres://nobody@127.0.0.1:1/none"
	for _, line := range [][]string{{"retention", "set", "--runs", "1d"}, {"migrate", "status"}} {
		c.run(append(line, "--data", t.TempDir())...).exits(exitUnreachable, "no running 'daybook dev' found")
	}
}
