package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/eventstore"
)

// goldenEvents are the types of which the domain keeps an example.
func goldenEvents(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("..", "..", "domain", "testdata", "events"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".")
		names = append(names, name)
	}
	return names
}

func TestOutboxStatusAndReplay(t *testing.T) {
	c := newCLI(t)
	c.run("outbox", "status").exits(exitOK).prints("pending", "failed", "parked")
	parked, failed := uuid.NewString(), uuid.NewString()
	const insert = `INSERT INTO outbox (id, owner, until, created_at, attempts, last_error, parked_at, messages, pack)
		VALUES ($1, 'engine-1', now() + interval '1 hour', now() - $2::interval, 3, $3, CASE WHEN $4 THEN now() END, 2, '')`
	c.exec(insert, parked, "90 minutes", "no \x1b[31mresponders", true)
	c.exec(insert, failed, "10 minutes", "timeout", false)
	r := c.run("outbox", "status").exits(exitOK)
	if row := r.row("parked"); row[1] != "1" || row[2] != "2" {
		t.Errorf("row %v", row)
	}
	if row := r.row(parked); row[1] != "parked" || strings.Contains(r.out, "\x1b") || !strings.Contains(r.out, "no responders") {
		t.Errorf("row %q", row)
	}
	v := c.run("outbox", "status", "-o", "json").exits(exitOK).json()
	hasKeys(t, v, "pending", "failed", "parked", "packs")
	hasKeys(t, v["parked"], "packs", "messages", "oldest")
	pack := v["packs"].([]any)[0]
	hasKeys(t, pack, "id", "state", "messages", "attempts", "age", "created_at", "until", "owner", "last_error", "parked_at")
	instant(t, pack.(map[string]any)["parked_at"])
	if out := c.run("outbox", "status", "-o", "id").exits(exitOK).out; out != parked+"\n"+failed+"\n" {
		t.Errorf("ids: %q", out)
	}

	c.run("outbox", "replay").exits(exitUsage, "--all")
	c.run("outbox", "replay", "--id", "x").exits(exitUsage, `--id "x"`)
	c.run("outbox", "replay", "--id", uuid.NewString()).exits(exitOK).prints("0 packs")
	c.run("outbox", "replay", "--since", "1h", "--until", "now").exits(exitOK).prints("1 pack due again")
	if v := c.run("outbox", "replay", "--all", "-o", "json").exits(exitOK).json(); v["replayed"] != 1.0 {
		t.Errorf("got %v: the parked one was left", v)
	}
	if row := c.run("outbox", "status").exits(exitOK).row("pending"); row[1] != "2" {
		t.Errorf("after the replay: %v", row)
	}
}

func TestQueueAndWorkerList(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	c.run("queue", "list").exits(exitOK, "no worker is there")
	c.run("worker", "list").exits(exitOK, "no worker was heard of")
	err := c.store.SeeWorker(t.Context(), eventstore.Worker{ID: "w-1", Slots: 4, Host: "h", Version: "1.0", Lanes: []eventstore.WorkerLane{{Queue: "default", Kind: "exec"}}})
	if err != nil {
		t.Fatal(err)
	}
	c.trigger("hello")
	c.execute(start(c.claim()[0]))
	c.trigger("hello")
	c.trigger("hello", "--at", "1h")
	row := c.run("queue", "list").exits(exitOK).row("default")
	if got := strings.Join(append(row[:3:3], row[4:]...), " "); got != "default exec 1 1 0 1 1 4" {
		t.Errorf("row %v", row)
	}
	queue := c.run("queue", "list", "-o", "json").exits(exitOK).json()["queues"].([]any)[0]
	hasKeys(t, queue, "queue", "kind", "due", "not_due", "oldest_ready_at", "oldest_wait", "claimed", "running", "workers", "slots")
	if row := c.run("worker", "list").exits(exitOK).row("w-1"); row[1] != "h" || row[2] != "1" || row[3] != "4" {
		t.Errorf("row %v", row)
	}
	worker := c.run("worker", "list", "-o", "json").exits(exitOK).json()["workers"].([]any)[0].(map[string]any)
	hasKeys(t, worker, "id", "host", "version", "lanes", "slots", "running", "first_seen", "seen_at")
	if lane := worker["lanes"].([]any)[0].(map[string]any); lane["queue"] != "default" || lane["kind"] != "exec" {
		t.Errorf("lane %v", lane)
	}
}

func TestBackfill(t *testing.T) {
	c := newCLI(t)
	c.apply("jobs:\n  - {name: hourly, schedule: \"0 * * * *\", exec: {argv: [echo]}}\n  - {name: hello, exec: {argv: [echo]}}\n")
	v := c.run("job", "backfill", "hourly", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T05:30:00Z", "--reason", "was down", "-o", "json").exits(exitOK).json()
	if v["seen"] != 6.0 || v["created"] != 6.0 || v["done"] != true {
		t.Errorf("got %v", v)
	}
	c.run("job", "backfill", "hourly", "--from", "2026-01-01T00:00:00Z", "--to", "2026-03-01T00:00:00Z").exits(exitOK).prints("1417 instants, 1411 runs made")
	c.run("job", "backfill", "hourly", "--from", "10m", "--to", "now").exits(exitOK)
	c.run("job", "backfill", "hourly", "--from", "1h").exits(exitUsage, "--from and --to are needed")
	c.run("job", "backfill", "hourly", "--from", "2026-02-01", "--to", "2026-01-01").exits(exitUsage, "ends")
	c.run("job", "backfill", "hourly", "--from", "2026-02-01", "--to", "2999-01-01").exits(exitUsage, "still to be decided")
	c.run("job", "backfill", "hello", "--from", "2026-01-01", "--to", "2026-01-02").exits(exitUsage, "no schedule")
	c.settle()
	if n := len(c.run("run", "list", "--job", "hourly", "--until", "2026-01-01T05:30:00Z", "-o", "jsonl").exits(exitOK).jsonl()); n != 6 {
		t.Errorf("%d runs", n)
	}
}
