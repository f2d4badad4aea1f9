package main

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

func TestRunList(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	failed := c.trigger("hello")
	c.work(fail)
	done := c.trigger("nightly-report")
	c.work(succeed)
	later := c.trigger("hello", "--at", "48h")
	c.settle()

	r := c.run("run", "list").exits(exitOK)
	if row := r.row(failed.String()); row[1] != "hello" || row[2] != "failed" || !strings.Contains(strings.Join(row, " "), "exit status 3") {
		t.Errorf("row %v", row)
	}
	only := func(want uuid.UUID, args ...string) {
		t.Helper()
		if out := c.run(append([]string{"run", "list", "-o", "id"}, args...)...).exits(exitOK).out; out != want.String()+"\n" {
			t.Errorf("run list %v: %q, want %s", args, out, want)
		}
	}
	only(done, "--job", "nightly-report")
	only(failed, "--state", "failed")
	only(later, "--since", "2099-01-01", "--job", "hello", "--until", "2100-01-01", "--state", "pending", "--since", "1h")
	only(later, "--state", "pending", "--queue", "default")
	only(failed, "--error", "STATUS 3")
	c.run("run", "list", "--queue", "other").exits(exitOK, "no runs")
	c.run("run", "list", "--job", "nightly-report", "--state", "failed").exits(exitOK, "no runs")

	page := c.run("run", "list", "--since", "1h", "--limit", "2", "-o", "json").exits(exitOK).json()
	hasKeys(t, page, "runs", "next", "lag")
	runs := page["runs"].([]any)
	hasKeys(t, runs[0], "run_id", "state", "job", "queue", "kind", "origin", "scheduled_at", "ready_at", "attempt", "changed_at")
	if len(runs) != 2 || runs[0].(map[string]any)["run_id"] != later.String() {
		t.Fatalf("the newest are not first: %v", runs)
	}
	instant(t, runs[1].(map[string]any)["finished_at"])

	// What is said on stderr leads to the next page, also where the range was
	// given as an age, which means another one by then.
	r = c.run("run", "list", "--since", "1h", "--limit", "2", "-o", "id").exits(exitOK, "there is more: --since ")
	_, more, _ := strings.Cut(r.err, "there is more: ")
	next := append([]string{"run", "list", "--limit", "2", "-o", "id"}, strings.Fields(more)...)
	if out := c.run(next...).exits(exitOK).out; out != failed.String()+"\n" {
		t.Errorf("the next page: %q, want %s", out, failed)
	}
}

func TestRunListRefusesBadFilters(t *testing.T) {
	c := newCLI(t)
	for _, test := range []struct{ flag, value, said string }{
		{"--state", "done", `"done" is none of`},
		{"--since", "yesterday", `--since "yesterday"`},
		{"--limit", "0", "--limit 0"},
		{"--limit", "501", "1 to 500"},
		{"--limit", "many", "invalid argument"},
		{"--cursor", "zzz", "cursor"},
		{"--until", "1971-01-01", "until"},
		{"-o", "xml", "want table, wide, json, jsonl or id"},
	} {
		c.run("run", "list", "--since", "1980-01-01", test.flag, test.value).exits(exitUsage, test.said)
	}
}

func TestRunShowAndEvents(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	id := c.trigger("nightly-report", "--reason", "look here")
	c.run("run", "show", id.String()).exits(exitOK).prints("pending", "request: look here", "nightly-report, version 1")
	c.work(fail)
	c.run("run", "show", id.String()).exits(exitOK).prints("failed after", "exit_status: exit status 3", "w-1", "RunFailed", "Worker")
	v := c.run("run", "show", id.String(), "-o", "json").exits(exitOK).json()
	hasKeys(t, v, "run_id", "state", "claim_history", "outputs", "error_type", "finished_at")
	if claims := v["claim_history"].([]any); len(claims) != 1 || claims[0].(map[string]any)["ended_by"] != "RunFailed" {
		t.Errorf("claims %v", claims)
	}
	if out := c.run("run", "show", id.String(), "-o", "id").exits(exitOK).out; out != id.String()+"\n" {
		t.Errorf("id %q", out)
	}
	events := c.run("run", "events", id.String(), "-o", "jsonl").exits(exitOK).jsonl()
	var types []string
	for i, e := range events {
		types = append(types, e["type"].(string))
		instant(t, e["at"])
		if e["version"] != float64(i+1) || e["category"] != "run" || e["stream_id"] != id.String() {
			t.Errorf("event %d: %v", i, e)
		}
	}
	if got := strings.Join(types, " "); got != "RunScheduled RunClaimed RunStarted RunFailed" {
		t.Errorf("events %s", got)
	}
	c.run("run", "events", id.String()).exits(exitOK).prints("attempt 1 on w-1", "worker:w-1", "look here")
}

func TestRunsThatDoNotExist(t *testing.T) {
	c := newCLI(t)
	id := uuid.NewString()
	for _, command := range []string{"show", "events", "output", "cancel", "retry"} {
		c.run("run", command, id).exits(exitNotFound, "run "+id+" does not exist")
		c.run("run", command, "no-such-run").exits(exitUsage, `"no-such-run" is no id of a run`)
		c.run("run", command, strings.ReplaceAll(id, "-", "")).exits(exitUsage, "is no id of a run")
		c.run("run", command).exits(exitUsage, "takes ID")
	}
}

func TestRunOutput(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	id := c.trigger("hello")
	c.run("run", "output", id.String()).exits(exitNotFound, "is pending; there is no output")
	c.work(func(r domain.Run) eventstore.Command {
		s := succeed(r)
		s.Output = &eventstore.Output{Head: []byte("first\x1b[31m\xff\n"), Tail: []byte("last\n"), TotalBytes: 1000, Result: []byte(`{"n":1}`)}
		return s
	})
	r := c.run("run", "output", id.String()).exits(exitOK, "[983 bytes were not kept]")
	if r.out != "first\x1b[31m\xff\nlast\n" {
		t.Errorf("not byte for byte: %q", r.out)
	}
	c.run("run", "output", id.String(), "--attempt", "1").exits(exitOK).prints("last")
	c.run("run", "output", id.String(), "--attempt", "2").exits(exitNotFound, "no output of attempt 2")
	c.run("run", "output", id.String(), "--attempt", "-1").exits(exitUsage, "--attempt -1")
	v := c.run("run", "output", id.String(), "-o", "json").exits(exitOK).json()
	hasKeys(t, v, "run_id", "attempt", "text", "omitted", "total_bytes", "result", "updated_at")
	if text := v["text"].(string); !strings.HasPrefix(text, "first") || !strings.Contains(text, "[983 bytes were not kept]") || v["total_bytes"] != 1000.0 {
		t.Errorf("got %v", v)
	}
}

func TestCancelAndRetry(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	pending := c.trigger("hello", "--at", "1h", "--args", `{"n": 7}`)
	c.run("run", "retry", pending.String()).exits(exitConflict, "is pending: only a finished run can be retried")
	c.run("run", "cancel", pending.String(), "--reason", "wrong arguments").exits(exitOK).prints("cancelled")
	c.run("run", "cancel", pending.String()).exits(exitOK).prints("was cancelled before")
	c.run("run", "show", pending.String()).exits(exitOK).prints("wrong arguments")

	c.trigger("hello")
	running := c.claim()[0]
	c.execute(start(running))
	v := c.run("run", "cancel", running.ID.String(), "-o", "json").exits(exitOK).json()
	if v["state"] != "running" || v["repeat"] != false {
		t.Errorf("cancel of a running run: %v", v)
	}
	c.run("run", "cancel", running.ID.String()).exits(exitOK).prints("asked to end before")
	c.execute(succeed(running))
	c.run("run", "cancel", running.ID.String()).exits(exitConflict, "has succeeded already")

	again := c.run("run", "retry", pending.String(), "--key", "once more", "--reason", "try again").exits(exitOK)
	id := strings.TrimSpace(again.out)
	run := c.run("run", "show", id, "-o", "json").exits(exitOK).json()
	if run["retry_of"] != pending.String() || run["args"].(map[string]any)["n"] != 7.0 || run["origin"] != "retry" {
		t.Errorf("the retry: %v", run)
	}
	if r := c.run("run", "retry", pending.String(), "--key", "once more").exits(exitOK, "has its run already"); strings.TrimSpace(r.out) != id {
		t.Errorf("the same key gave %s", r.out)
	}
	c.run("job", "archive", "hello").exits(exitOK)
	c.run("run", "retry", pending.String()).exits(exitConflict, "archived")
}

// A parked run is in sight, is told of where one looks for it, can be made due
// again or cancelled.
func TestParkedRuns(t *testing.T) {
	c := newCLI(t)
	c.apply(twoJobs)
	c.run("run", "parked").exits(exitOK, "no run is parked")
	ids := []string{c.trigger("hello").String(), c.trigger("hello").String(), c.trigger("hello").String()}
	c.exec(`WITH gone AS (DELETE FROM due_runs RETURNING *)
		INSERT INTO parked_runs (run_id, job_id, parked_at, reason, row) SELECT run_id, job_id, now(), 'its job is ' || chr(27) || '[31mof the future', to_jsonb(gone) FROM gone`)
	if row := c.run("run", "parked").exits(exitOK).row(ids[0]); row[1] != "hello" || strings.Contains(strings.Join(row, " "), "\x1b") {
		t.Errorf("row %q", row)
	}
	v := c.run("run", "parked", "-o", "jsonl").exits(exitOK).jsonl()
	if len(v) != 3 {
		t.Fatalf("%v", v)
	}
	hasKeys(t, v[0], "run_id", "job", "queue", "kind", "scheduled_at", "parked_at", "reason")
	instant(t, v[0]["parked_at"])
	c.run("run", "show", ids[0]).exits(exitOK).prints("Parked", "of the future")
	c.run("doctor").prints("3 runs put aside", "daybook run parked")

	c.run("run", "unpark").exits(exitUsage, "--all")
	c.run("run", "unpark", "x").exits(exitUsage, "no id of a run")
	c.run("run", "unpark", ids[0]).exits(exitOK).prints("due again")
	c.run("run", "unpark", ids[0]).exits(exitNotFound, "is not parked")
	c.run("run", "cancel", ids[1]).exits(exitOK).prints("cancelled")
	out := c.run("run", "unpark", "--all", "-o", "json").exits(exitOK)
	if !strings.Contains(out.out, ids[2]) || !strings.Contains(out.out, `"due"`) {
		t.Errorf("got %s", out.out)
	}
	c.run("run", "unpark", "--all").exits(exitOK, "nothing was unparked")
	if n := len(c.work(succeed)); n != 2 {
		t.Errorf("%d runs went on, want the two that were not cancelled", n)
	}
}
