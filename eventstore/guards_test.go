package eventstore

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// Each guard that a statement holds is taken away, and a race that it decides is
// run. Something else must notice: the decision on the state that was read, the
// row count, or the key of the log. What noticed is printed.

// without removes a guard from a statement; the test is void if it is not there.
func without(t *testing.T, sql string, guards ...string) string {
	t.Helper()
	for _, g := range guards {
		if !strings.Contains(sql, g) {
			t.Fatalf("the statement has no %q to take away:\n%s", g, sql)
		}
		sql = strings.Replace(sql, g, "", 1)
	}
	return sql
}

// rendezvous lets n transactions reach the point between decision and commit
// before any of them goes on.
func rendezvous(n int) func(string) {
	var mu sync.Mutex
	waiting, open := 0, make(chan struct{})
	return func(string) {
		mu.Lock()
		waiting++
		if waiting == n {
			close(open)
		}
		mu.Unlock()
		select {
		case <-open:
		case <-time.After(2 * time.Second): // the guard under test kept the other one out
		}
	}
}

// race runs the calls at once and returns their errors and refusals.
func race(calls ...func() error) []error {
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, f := range calls {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errs
}

func (w *world) call(t *testing.T, s *Store, c Command) func() error {
	return func() error {
		a, err := s.execute(t.Context(), []Command{c}) // one try: a repeat would hide what noticed
		if err != nil {
			return err
		}
		return a[0].Err
	}
}

func TestStartWithoutItsCompareAndSetIsNoticed(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 1)
	run := w.claim(t, 1)[0]
	other := start(run)
	other.Do = domain.StartRun{ClaimID: run.ClaimID, Token: uuid.New(), Worker: "w-2", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}

	w.sql.lockClaims = without(t, lockClaims, " FOR UPDATE")
	w.pausing = rendezvous(2)
	errs := race(w.call(t, w.Store, start(run)), w.call(t, w.Store, other))
	assertOneNoticed(t, "lock of the start taken away", errs)

	w.sql.updateClaims = without(t, updateClaims, " AND c.claim_id = u.k AND c.version = u.v")
	w.request(t, "report", 1)
	run = w.claim(t, 1)[0]
	other.RunID, other.Do = run.ID, domain.StartRun{ClaimID: run.ClaimID, Token: uuid.New(), Worker: "w-2", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}
	w.pausing = rendezvous(2)
	errs = race(w.call(t, w.Store, start(run)), w.call(t, w.Store, other))
	assertOneNoticed(t, "lock and compare-and-set of the start taken away", errs)
	if n := w.count(t, "SELECT count(*) FROM events WHERE type = 'RunStarted' AND stream_id = $1", run.ID); n != 1 {
		t.Errorf("%d starts of one claim", n)
	}
}

func TestOutcomeWithoutItsFenceIsNoticed(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 1)
	run := w.claim(t, 1)[0]
	w.execute(t, start(run))
	w.exec(t, "UPDATE claims SET lease_until = now() - interval '1 s'")

	// The worker's success and the reaper both read the claim before either
	// closes it.
	w.sql.lockClaims = without(t, lockClaims, " FOR UPDATE")
	w.sql.lockExpired = without(t, lockExpired, " FOR UPDATE SKIP LOCKED")
	w.sql.deleteClaims = without(t, deleteClaims, " AND c.claim_id = u.k AND c.version = u.v")
	w.pausing = rendezvous(2)
	reap := func() error { _, _, err := w.expire(t.Context(), 10); return err }
	errs := race(w.call(t, w.Store, succeed(run)), reap)
	assertOneNoticed(t, "locks and fence of the outcome taken away", errs)
	if n := w.count(t, "SELECT count(*) FROM events WHERE version = 4 AND stream_id = $1", run.ID); n != 1 {
		t.Errorf("%d events close one claim", n)
	}

	// An outcome of an earlier claim never gets as far as the statement.
	w = newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 1)
	first := w.claim(t, 1)[0]
	w.exec(t, "UPDATE claims SET lease_until = now() - interval '1 s'")
	if _, err := w.ExpireClaims(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	second := w.claim(t, 1)[0]
	w.execute(t, start(second))
	w.sql.deleteClaims = without(t, deleteClaims, " AND c.claim_id = u.k AND c.version = u.v")
	err := w.call(t, w.Store, succeed(first))()
	t.Logf("fence of the outcome taken away, a stale claim succeeds: noticed by the decision: %v", err)
	if code(err) != domain.CodeStaleClaim {
		t.Errorf("success of a stale claim: %v", err)
	}
}

func TestReaperWithoutItsGuardIsNoticed(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 1)
	run := w.claim(t, 1)[0]
	w.execute(t, start(run))
	w.sql.lockExpired = without(t, lockExpired, " WHERE lease_until <= now()")
	_, err := w.ExpireClaims(t.Context(), 10)
	t.Logf("guard of the reaper taken away: noticed by the decision: %v", err)
	if code(err) != domain.CodeLeaseLive {
		t.Errorf("reaping a live lease: %v, want it refused", err)
	}
	if n := w.count(t, "SELECT count(*) FROM claims WHERE run_id = $1", run.ID); n != 1 {
		t.Error("the live claim is gone")
	}
}

// A lease that is renewed between the reaper's look and its lock is left alone:
// FOR UPDATE evaluates the condition again.
func TestReaperSeesALeaseRenewedUnderIt(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 1)
	run := w.claim(t, 1)[0]
	w.execute(t, start(run))
	tx, err := w.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.exec(t, "UPDATE claims SET lease_until = now() - interval '1 s'")
	if _, err := tx.Exec(t.Context(), "UPDATE claims SET lease_until = now() + interval '1 minute'"); err != nil {
		t.Fatal(err)
	}
	w.sql.lockExpired = strings.Replace(lockExpired, " SKIP LOCKED", "", 1) // so that it waits for the renewal
	done := make(chan error, 1)
	go func() {
		got, err := w.ExpireClaims(t.Context(), 10)
		if err == nil && len(got) > 0 {
			err = errors.New("the renewed claim was closed")
		}
		done <- err
	}()
	for w.count(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%lease_until <= now()%'") == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func assertOneNoticed(t *testing.T, what string, errs []error) {
	t.Helper()
	failed := 0
	for _, err := range errs {
		if err == nil {
			continue
		}
		failed++
		by := "the decision"
		switch {
		case errors.Is(err, ErrVersionConflict):
			by = "the key of the log"
		case sqlState(err) == stateCountMismatch:
			by = "the row count"
		case code(err) == "":
			t.Errorf("%s: unexpected error %v", what, err)
		}
		t.Logf("%s: noticed by %s: %v", what, by, err)
	}
	if failed != 1 {
		t.Errorf("%s: %d of %d transactions failed, want precisely one", what, failed, len(errs))
	}
}
