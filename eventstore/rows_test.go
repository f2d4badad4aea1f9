package eventstore

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// Columns that are the same in all rows of a batch are sent as one value, and
// those that are not as many: whatever is mixed, each run gets what is its own.
func TestEachRunOfABatchKeepsItsOwnColumns(t *testing.T) {
	w := newWorld(t)
	a, b, c := spec("a"), spec("b"), spec("c")
	b.Queue, b.Priority = "other", 3
	c.Kind, c.Timeout = "exec", domain.Duration(time.Minute)
	w.apply(t, a, b, c)
	later := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	mine, yours := uuid.New(), uuid.New()
	all := []RunRequest{
		{Job: "a", Key: "1", Args: json.RawMessage(`{"n": 1}`), Meta: Meta{Actor: "user:x", Correlation: &mine}},
		{Job: "b", Key: "1"},
		{Job: "c", Key: "2", At: later, Args: json.RawMessage(`"two"`), Meta: Meta{Causation: &yours}},
		{Job: "b", Key: "3", Args: json.RawMessage(`[]`), Meta: Meta{Actor: "user:y", Correlation: &yours, Causation: &mine}},
	}
	for _, batch := range [][]RunRequest{all[:1], all, {{Job: "c"}, {Job: "c"}, {Job: "c"}}} {
		got, err := w.Request(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range got {
			if g.Err != nil {
				t.Fatal(g.Err)
			}
			var runs int
			r := batch[i]
			err := w.admin.QueryRow(t.Context(), `
				SELECT count(*) FROM due_runs d JOIN jobs j ON j.id = d.job_id JOIN events e ON e.category = 'run' AND e.stream_id = d.run_id
				 WHERE d.run_id = $1 AND j.name = $2 AND d.queue = j.spec->>'queue' AND d.kind = j.spec->>'kind' AND d.priority = (j.spec->>'priority')::int
				   AND d.job_version = j.spec_version AND d.origin = 'request' AND d.version = 1 AND (d.attempt, d.dispatches, d.claims) = (0, 0, 0)
				   AND d.changed_at = e.at AND NOT d.catch_up AND d.waiting_since IS NULL AND (d.ready_at = $3 OR $3 < now() AND d.ready_at = e.at)
				   AND (convert_from(d.args, 'UTF8')::jsonb IS NOT DISTINCT FROM $4::jsonb) AND (e.data->'args' IS NOT DISTINCT FROM $4::jsonb)
				   AND e.version = 1 AND e.type = 'RunScheduled' AND e.actor = $5 AND e.correlation IS NOT DISTINCT FROM $6 AND e.causation IS NOT DISTINCT FROM $7`,
				g.RunID, r.Job, r.At, r.Args, w.meta(r.Meta).Actor, r.Meta.Correlation, r.Meta.Causation).Scan(&runs)
			if err != nil || runs != 1 {
				t.Errorf("request %d of %d, %+v: %d rows, %v", i+1, len(batch), r, runs, err)
			}
		}
	}

	var starts []Command
	var held []domain.Run
	for _, lane := range []*Lane{NewLane("default", "noop"), NewLane("other", "noop"), NewLane("default", "exec")} {
		got, err := w.Claim(t.Context(), ClaimRequest{Lane: lane, Limit: 10, Lease: time.Minute}, &memoryOutbox{})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, got.Runs...)
	}
	for i, r := range held {
		s := start(r)
		s.Do = domain.StartRun{ClaimID: r.ClaimID, Token: uuid.New(), Worker: fmt.Sprintf("w-%d", i%3), ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}
		starts = append(starts, s)
	}
	if len(held) != 6 {
		t.Fatalf("%d runs claimed, want 6", len(held))
	}
	for i, a := range w.execute(t, starts...) {
		var same bool
		err := w.admin.QueryRow(t.Context(), "SELECT worker = $2 AND start_token = $3 AND (deadline IS NOT NULL) = (kind = 'exec') AND attempt = 1 AND version = 3 FROM claims WHERE run_id = $1",
			a.Run.ID, fmt.Sprintf("w-%d", i%3), a.Run.Token).Scan(&same)
		if err != nil || a.Err != nil || !same {
			t.Errorf("start %d: %v %v", i, err, a.Err)
		}
	}
}

// Writers that take overlapping keys in whatever order agree on one run a key,
// none waits for ever, and only the run that has the key is due.
func TestRequestsThatShareKeysMakeOneRunOfEach(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("a"), spec("b"))
	const writers, keys = 4, 50
	got := make([][]Requested, writers)
	var g sync.WaitGroup
	for i := range writers {
		g.Go(func() {
			var requests []RunRequest
			for k := range keys {
				requests = append(requests, RunRequest{Job: "a", Key: fmt.Sprint(k)}, RunRequest{Job: "b", Key: fmt.Sprint(k + i)}, RunRequest{Job: "a", Key: fmt.Sprint(k)})
			}
			if i%2 == 1 {
				slices.Reverse(requests)
			}
			out, err := w.Request(t.Context(), requests)
			if err != nil {
				t.Error(err)
				return
			}
			if i%2 == 1 {
				slices.Reverse(out)
			}
			got[i] = out
		})
	}
	g.Wait()
	if t.Failed() {
		return
	}
	created := 0
	for i := range writers {
		for k, r := range got[i] {
			if r.Err != nil || k%3 != 1 && r.RunID != got[0][k].RunID {
				t.Errorf("writer %d, request %d: %+v, the first writer has %s", i, k, r, got[0][k].RunID)
			}
			if r.Created {
				created++
			}
		}
	}
	const want = keys + keys + writers - 1
	for _, table := range []string{"run_keys", "due_runs", "events WHERE type = 'RunScheduled'"} {
		if n := w.count(t, "SELECT count(*) FROM "+table); n != want || created != want {
			t.Errorf("%d rows in %s, %d runs reported new, want %d", n, table, created, want)
		}
	}
}
