package eventstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// fireNow makes the job's instants due and materializes them.
func (w *world) fireNow(t *testing.T, job string, instants int) {
	t.Helper()
	w.due(t, job, instants)
	if _, err := w.Materialize(t.Context(), 10, LongestDueFirst, nil); err != nil {
		t.Fatal(err)
	}
}

// due makes so many instants of a job that fires every second due. It waits for
// the beginning of a second, so that no other comes due before they are decided.
func (w *world) due(t *testing.T, job string, instants int) {
	t.Helper()
	w.exec(t, "SELECT pg_sleep(1 - f) FROM (SELECT extract(epoch FROM clock_timestamp() - date_trunc('second', clock_timestamp())) AS f) x WHERE f > 0.5")
	w.exec(t, `UPDATE jobs SET materialized_through = date_trunc('second', now()) - $2 * interval '1 s', next_fire = date_trunc('second', now()) - ($2 - 1) * interval '1 s' WHERE name = $1`, job, instants)
}

func everySecond(name string, overlap domain.Overlap) domain.JobSpec {
	s := spec(name)
	s.Schedules, s.Overlap = []string{"@every 1s"}, overlap
	return s
}

// settle claims until nothing of the lane is due any more, and returns what was
// claimed.
func (w *world) settle(t *testing.T) (claimed []domain.Run, replaced []uuid.UUID) {
	t.Helper()
	lane := NewLane("default", "noop")
	for {
		c, err := w.Claim(t.Context(), ClaimRequest{Lane: lane, Limit: 100, Lease: time.Minute}, &memoryOutbox{})
		if err != nil {
			t.Fatal(err)
		}
		claimed, replaced = append(claimed, c.Runs...), append(replaced, c.Replaced...)
		if len(c.Runs)+c.Waiting+c.Skipped == 0 {
			return claimed, replaced
		}
	}
}

func TestOverlapSkipNamesTheRunThatBlocks(t *testing.T) {
	w := newWorld(t)
	w.apply(t, everySecond("tick", domain.OverlapSkip))
	w.fireNow(t, "tick", 3)
	claimed, _ := w.settle(t)
	if len(claimed) != 1 {
		t.Fatalf("%d runs of one job claimed at once", len(claimed))
	}
	holder := claimed[0]
	if n := w.count(t, "SELECT count(*) FROM events WHERE type = 'RunSkipped' AND data->>'reason' = 'overlap' AND data->>'blocked_by' = $1", holder.ID.String()); n != 2 {
		t.Errorf("%d skips name the run that blocks, want 2", n)
	}
	// The place is kept through a retry, and given back at the end.
	w.execute(t, start(holder), Command{RunID: holder.ID, Do: domain.FailRun{ClaimID: holder.ClaimID, Retryable: true, RetryAfter: time.Hour}})
	w.fireNow(t, "tick", 1)
	if claimed, _ := w.settle(t); len(claimed) != 0 {
		t.Error("an instant ran beside a run that waits for its retry")
	}
	w.execute(t, Command{RunID: holder.ID, Do: domain.CancelRun{}})
	if n := w.count(t, "SELECT count(*) FROM limit_holders"); n != 0 {
		t.Errorf("%d places held after the run was cancelled", n)
	}
	time.Sleep(1100 * time.Millisecond) // the next instant of the job
	w.fireNow(t, "tick", 1)
	if claimed, _ := w.settle(t); len(claimed) != 1 {
		t.Errorf("%d instants ran once the place was free, want 1", len(claimed))
	}
}

func TestOverlapQueueKeepsOneWaiter(t *testing.T) {
	w := newWorld(t)
	w.apply(t, everySecond("tick", domain.OverlapQueue))
	w.fireNow(t, "tick", 4)
	claimed, _ := w.settle(t)
	if len(claimed) != 1 || w.count(t, "SELECT count(*) FROM waiting_runs") != 1 || w.count(t, "SELECT count(*) FROM events WHERE type = 'RunSkipped' AND data->>'reason' = 'overlap_queue_full'") != 2 {
		t.Fatalf("claimed %d, waiting %d", len(claimed), w.count(t, "SELECT count(*) FROM waiting_runs"))
	}
	w.execute(t, start(claimed[0]), succeed(claimed[0]))
	if n := w.count(t, "SELECT count(*) FROM waiting_runs"); n != 0 {
		t.Error("the waiter was not let go with the outcome")
	}
	if second, _ := w.settle(t); len(second) != 1 {
		t.Errorf("%d runs claimed after the first ended, want the waiter", len(second))
	}
}

func TestOverlapReplaceAsksTheOldRunToStop(t *testing.T) {
	w := newWorld(t)
	w.apply(t, everySecond("tick", domain.OverlapReplace))
	w.fireNow(t, "tick", 1)
	first, _ := w.settle(t)
	w.execute(t, start(first[0]))
	time.Sleep(2100 * time.Millisecond)
	w.fireNow(t, "tick", 2)
	claimed, replaced := w.settle(t)
	if len(claimed) != 0 || !slices.Contains(replaced, first[0].ID) {
		t.Fatalf("claimed %d, to be replaced %v, want %s", len(claimed), replaced, first[0].ID)
	}
	if n := w.count(t, "SELECT count(*) FROM waiting_runs"); n != 1 {
		t.Errorf("%d runs wait, want the newest alone", n)
	}
	if n := w.count(t, "SELECT count(*) FROM events WHERE type = 'RunSkipped' AND data->>'reason' = 'replaced'"); n != 1 {
		t.Errorf("%d waiters were replaced by a later instant, want 1", n)
	}
	w.execute(t, Command{RunID: first[0].ID, Do: domain.CancelRun{Reason: "replaced"}})
	if claimed, _ := w.settle(t); len(claimed) != 0 {
		t.Error("the new run did not wait for the old one's end")
	}
	w.execute(t, Command{RunID: first[0].ID, Do: domain.FailRun{ClaimID: first[0].ClaimID}})
	if claimed, _ := w.settle(t); len(claimed) != 1 {
		t.Error("the new run does not follow the old one")
	}
}

func TestRequestedRunsIgnoreOverlap(t *testing.T) {
	w := newWorld(t)
	w.apply(t, everySecond("tick", domain.OverlapSkip))
	w.fireNow(t, "tick", 1)
	w.settle(t)
	w.request(t, "tick", 3)
	if claimed, _ := w.settle(t); len(claimed) != 3 {
		t.Errorf("%d of 3 requested runs claimed beside a scheduled one", len(claimed))
	}
}

func TestLimitIsNotExceededByRacingReplicas(t *testing.T) {
	w := newWorld(t)
	s := spec("import")
	s.Concurrency = &domain.Concurrency{Key: "tenant", Limit: 3}
	w.apply(t, s)
	var requests []RunRequest
	for i := range 200 {
		requests = append(requests, RunRequest{Job: "import", Args: json.RawMessage(fmt.Sprintf(`{"tenant": "t%d"}`, i%2))})
	}
	if _, err := w.Request(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for replica := range 3 {
		st := w.open(t, fmt.Sprintf("engine-%d", replica+2))
		wg.Go(func() {
			lane := NewLane("default", "noop")
			for w.count(t, "SELECT count(*) FROM events WHERE type = 'RunSucceeded'") < 200 {
				c, err := st.Claim(t.Context(), ClaimRequest{Lane: lane, Limit: 20, Lease: time.Minute}, &memoryOutbox{})
				if err != nil {
					t.Error(err)
					return
				}
				if n := w.count(t, `SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM claims c JOIN limit_holders h USING (run_id) GROUP BY h.key) x`); n > 3 {
					t.Errorf("%d runs of one tenant in hand, the limit is 3", n)
				}
				for _, r := range c.Runs {
					if a, err := st.Execute(t.Context(), []Command{start(r), succeed(r)}); err != nil || a[1].Err != nil {
						t.Error(err, a)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if n := w.count(t, "SELECT (SELECT count(*) FROM limit_holders) + (SELECT count(*) FROM waiting_runs) + (SELECT count(*) FROM due_runs) + (SELECT count(*) FROM claims)"); n != 0 {
		t.Errorf("%d rows left when all had succeeded", n)
	}
}

// Both claims have decided before either commits; the key's lock is what keeps
// them from finding the same place free.
func TestLastPlaceIsTakenOnce(t *testing.T) {
	w := newWorld(t)
	s := spec("import")
	s.Concurrency = &domain.Concurrency{Limit: 1}
	w.apply(t, s)
	w.request(t, "import", 2)
	w.pausing = rendezvous(2)
	other := w.open(t, "engine-2")
	other.pausing = w.pausing
	claim := func(s *Store) func() error {
		return func() error {
			_, err := s.Claim(t.Context(), ClaimRequest{Lane: NewLane("default", "noop"), Limit: 1, Lease: time.Minute}, &memoryOutbox{})
			return err
		}
	}
	for _, err := range race(claim(w.Store), claim(other)) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := w.count(t, "SELECT count(*) FROM claims"); n != 1 {
		t.Errorf("%d runs in hand, the limit is 1", n)
	}
	if n := w.count(t, "SELECT (SELECT count(*) FROM due_runs) + (SELECT count(*) FROM waiting_runs)"); n != 1 {
		t.Errorf("%d runs due or waiting, want the other one", n)
	}
}

func TestFullLimitStallsNobodyElse(t *testing.T) {
	w := newWorld(t)
	s := spec("narrow")
	s.Concurrency = &domain.Concurrency{Limit: 1}
	w.apply(t, s, spec("free"))
	w.request(t, "narrow", 5000)
	w.request(t, "free", 100)
	lane := NewLane("default", "noop")
	free := 0
	for range 30 {
		c, err := w.Claim(t.Context(), ClaimRequest{Lane: lane, Limit: 500, Lease: time.Minute}, &memoryOutbox{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range c.Runs {
			if r.JobID == domain.JobID("free") {
				free++
			}
		}
		if free == 100 {
			break
		}
	}
	if free != 100 {
		t.Errorf("%d of 100 free runs claimed behind 5000 that wait", free)
	}
}

func TestCrashedHolderBlocksNoLongerThanItsLease(t *testing.T) {
	w := newWorld(t)
	s := everySecond("tick", domain.OverlapQueue)
	s.Retry.MaxAttempts = 1
	w.apply(t, s)
	w.fireNow(t, "tick", 2)
	claimed, _ := w.settle(t)
	w.execute(t, start(claimed[0]))
	w.exec(t, "UPDATE claims SET lease_until = now() - interval '1 s'")
	if _, err := w.ExpireClaims(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if second, _ := w.settle(t); len(second) != 1 {
		t.Errorf("%d runs claimed once the crashed holder's lease was over, want 1", len(second))
	}
}

func TestArchiveCancelsWaitersToo(t *testing.T) {
	w := newWorld(t)
	w.apply(t, everySecond("tick", domain.OverlapQueue))
	w.fireNow(t, "tick", 2)
	w.settle(t)
	if _, err := w.CommandJobs(t.Context(), []JobCommand{{Name: "tick", Do: domain.ArchiveJob{}}}); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT (SELECT count(*) FROM waiting_runs) + (SELECT count(*) FROM due_runs)"); n != 0 {
		t.Errorf("%d pending runs of an archived job", n)
	}
}

// A retried run keeps its overlap place while it waits for a concurrency place;
// archiving the job gives both up.
func TestArchiveGivesBackThePlacesOfWaiters(t *testing.T) {
	w := newWorld(t)
	s := everySecond("tick", domain.OverlapSkip)
	s.Concurrency = &domain.Concurrency{Limit: 1}
	w.apply(t, s)
	w.fireNow(t, "tick", 1)
	first, _ := w.settle(t)
	w.execute(t, start(first[0]), Command{RunID: first[0].ID, Do: domain.FailRun{ClaimID: first[0].ClaimID, Retryable: true, RetryAfter: time.Microsecond}})
	w.exec(t, "UPDATE due_runs SET ready_at = now() + interval '1 s'")
	w.request(t, "tick", 1)
	if claimed, _ := w.settle(t); len(claimed) != 1 {
		t.Fatalf("%d claimed", len(claimed))
	}
	w.exec(t, "UPDATE due_runs SET ready_at = now()")
	w.settle(t)
	if n := w.count(t, "SELECT count(*) FROM waiting_runs WHERE run_id = $1", first[0].ID); n != 1 {
		t.Fatal("the retried run does not wait")
	}
	if _, err := w.CommandJobs(t.Context(), []JobCommand{{Name: "tick", Do: domain.ArchiveJob{}}}); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT count(*) FROM limit_holders WHERE run_id = $1", first[0].ID); n != 0 {
		t.Error("the cancelled run has its place for ever")
	}
}

// A cancel locks the keys of a run before it locks its claim. A claim that is
// committed in between has keys that it has not locked.
func TestCancelThatMeetsAFreshClaimGivesItsPlaceBack(t *testing.T) {
	w := newWorld(t)
	s := spec("import")
	s.Concurrency = &domain.Concurrency{Limit: 1}
	w.apply(t, s)
	id := w.request(t, "import", 1)[0]
	w.settle(t)
	// What the cancel's first statement saw when the claim was not there yet.
	w.sql.lockClaims = lockClaims
	var found []*located
	tx, err := begin(t.Context(), w.ops, lockClaims, []any{[]uuid.UUID{id}}, func(rows pgx.Rows) error {
		r, err := scanClaim(rows)
		found = append(found, &located{Run: r, before: was(r), at: inClaims})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = w.decide(t.Context(), tx, []Command{{RunID: id, Do: domain.CancelRun{}}}, nil, found, nil)
	tx.rollback(t.Context())
	if !errors.Is(err, errLookAgain) {
		t.Errorf("a cancel without the key's lock: %v, want it decided again", err)
	}
	if a := w.execute(t, Command{RunID: id, Do: domain.CancelRun{}})[0]; a.Err != nil {
		t.Fatal(a.Err)
	}
	if n := w.count(t, "SELECT count(*) FROM limit_holders"); n != 0 {
		t.Errorf("%d places held after the cancel", n)
	}
}

// Instants that come due with the very command that archives their job are
// decided, and their runs cancelled.
func TestArchiveCancelsWhatComesDueWithIt(t *testing.T) {
	w := newWorld(t)
	w.apply(t, everySecond("tick", domain.OverlapAllow))
	w.exec(t, `UPDATE jobs SET materialized_through = now() - interval '3 s', next_fire = now() - interval '3 s'`)
	if _, err := w.CommandJobs(t.Context(), []JobCommand{{Name: "tick", Do: domain.ArchiveJob{}}}); err != nil {
		t.Fatal(err)
	}
	slots := w.count(t, "SELECT count(*) FROM run_slots")
	if slots < 3 || w.count(t, "SELECT count(*) FROM events WHERE type = 'RunCancelled'") != slots || w.count(t, "SELECT count(*) FROM due_runs") != 0 {
		t.Errorf("%d instants, %d cancelled, %d due", slots, w.count(t, "SELECT count(*) FROM events WHERE type = 'RunCancelled'"), w.count(t, "SELECT count(*) FROM due_runs"))
	}
}

func TestNudgeGoesFromKeyToKey(t *testing.T) {
	w := newWorld(t)
	s := spec("import")
	s.Concurrency = &domain.Concurrency{Key: "tenant", Limit: 1}
	w.apply(t, s)
	var requests []RunRequest
	for i := range 12 {
		requests = append(requests, RunRequest{Job: "import", Args: json.RawMessage(fmt.Sprintf(`{"tenant": "t%d"}`, i%4))})
	}
	if _, err := w.Request(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	w.settle(t)
	w.exec(t, "UPDATE waiting_runs SET waiting_since = waiting_since - interval '1 minute'")
	total, after := 0, ""
	for i := range 2 {
		n, next, err := w.NudgeWaiting(t.Context(), 3, after)
		if err != nil || (i == 0) != (next != "") {
			t.Fatalf("look %d: %d nudged, next %q, %v", i, n, next, err)
		}
		total, after = total+n, next
	}
	if total != 4 {
		t.Errorf("%d waiters nudged, want the first of each of 4 keys", total)
	}
}
