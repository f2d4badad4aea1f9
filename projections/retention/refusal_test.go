package retention

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections/evidence"
)

// verified exports the oldest month and has it verified: there is nothing left
// to do but to let go of it.
func (w *world) verified(t *testing.T) (of time.Time, run uuid.UUID, x eventstore.MonthExport) {
	t.Helper()
	if err := w.admin.QueryRow(t.Context(), "SELECT run_id FROM run_slots WHERE job_id = $1 ORDER BY scheduled_at LIMIT 1", domain.JobID("report")).Scan(&run); err != nil {
		t.Fatal(err)
	}
	i := domain.InstantOf(run)
	of = time.Date(i.Year(), i.Month(), 1, 0, 0, 0, 0, time.UTC)
	k := w.keeper(t)
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	x, err := k.export(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.verify(t.Context(), x.RetiredMonth); err != nil {
		t.Fatal(err)
	}
	if err := w.RecordVerified(t.Context(), of, x.SHA256); err != nil {
		t.Fatal(err)
	}
	return of, run, x
}

// liveRow has the columns of every table that a run can lie in.
const liveRow = `{"run_id": "%[1]s", "job_id": "%[1]s", "claim_id": "%[1]s", "job_version": 1, "origin": "request", "queue": "q", "kind": "k", "priority": 5, "limit_key": "x",
	"scheduled_at": "2020-01-01Z", "ready_at": "2020-01-01Z", "changed_at": "2020-01-01Z", "lease_until": "2020-01-01Z", "waiting_since": "2020-01-01Z", "parked_at": "2020-01-01Z",
	"version": 1, "attempt": 0, "dispatches": 0, "claims": 0, "catch_up": false, "cancel": false, "cancel_reason": "", "reason": "x", "row": {}}`

// lies puts the run into a table of live runs.
func lies(table string, run uuid.UUID) string {
	return "INSERT INTO " + table + " SELECT (jsonb_populate_record(NULL::" + table + ", '" + fmt.Sprintf(liveRow, run) + "')).*"
}

// The database refuses by itself: a keeper that did not look, or an engine's
// password in other hands, lets go of nothing before its time.
func TestTheDatabaseLooksItself(t *testing.T) {
	w := newWorld(t)
	of, run, x := w.verified(t)
	type obstacle struct{ hinder, why, mend string }
	obstacles := []obstacle{
		{"UPDATE retention SET keep_runs = '4000 days'", "runs are kept for 4000 days", "UPDATE retention SET keep_runs = '1 day'"},
		{"UPDATE retired_months SET newest_at = now()", "its newest event is of", "UPDATE retired_months SET newest_at = now() - interval '2 days'"},
		{"SELECT daybook_raise_era('restored')", "the database was restored or promoted since", "DELETE FROM eras WHERE era = 2"},
	}
	for _, table := range []string{"due_runs", "waiting_runs", "claims", "parked_runs"} {
		obstacles = append(obstacles, obstacle{lies(table, run), "a run of it is not finished", "DELETE FROM " + table})
	}
	for _, o := range obstacles {
		w.exec(t, o.hinder)
		var stays *eventstore.NotRetiredError
		if err := w.RetireMonth(t.Context(), of, x.SHA256, "x"); !errors.As(err, &stays) || !strings.HasPrefix(stays.Why, o.why) {
			t.Fatalf("%s: %v, want %q", o.hinder, err, o.why)
		}
		w.exec(t, o.mend)
	}
	if err := w.RetireMonth(t.Context(), of, x.SHA256, "x"); err != nil {
		t.Errorf("with nothing in the way: %v", err)
	}
}

const awaitsDrop = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"

// An event that is committed while the drop waits for its writer is seen before
// anything is dropped.
func TestAnEventThatComesAtTheLastMoment(t *testing.T) {
	w := newWorld(t)
	of, run, x := w.verified(t)
	tx, err := w.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `INSERT INTO events (category, stream_id, version, era, type, at, actor, data) SELECT category, $2, 1, era, type, at, actor, data FROM events WHERE stream_id = $1 AND version = 1`,
		run, domain.SlotID(domain.JobID("report"), domain.InstantOf(run).Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	dropped := make(chan error, 1)
	go func() {
		for {
			err := w.RetireMonth(t.Context(), of, x.SHA256, "x")
			if !errors.Is(err, eventstore.ErrInTheWay) {
				dropped <- err
				return
			}
		}
	}()
	for w.count(t, awaitsDrop) == 0 {
		select {
		case err := <-dropped:
			t.Fatalf("the drop did not wait for the writer: %v", err)
		default:
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-dropped; err == nil || !strings.Contains(err.Error(), "came to it since") {
		t.Errorf("the drop went on: %v", err)
	}
}

// A query that reads the log goes first, and the month afterwards.
func TestTheDropLetsAQueryGoFirst(t *testing.T) {
	w := newWorld(t)
	of, _, x := w.verified(t)
	tx, err := w.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM events"); err != nil {
		t.Fatal(err)
	}
	if err := w.RetireMonth(t.Context(), of, x.SHA256, "x"); !errors.Is(err, eventstore.ErrInTheWay) {
		t.Errorf("under a reader: %v", err)
	}
	dropped := make(chan error, 1)
	go func() { dropped <- w.keeper(t).drop(t.Context(), of, x.SHA256) }()
	for _, waits := range []bool{true, false} { // its first try has been given up
		for (w.count(t, awaitsDrop) > 0) != waits {
			if len(dropped) > 0 {
				t.Fatalf("dropped under a reader: %v", <-dropped)
			}
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-dropped; err != nil {
		t.Error(err)
	}
}

// One process looks after retention at a time.
func TestOneKeeperAtATime(t *testing.T) {
	w := newWorld(t)
	if held, err := w.LeaseRetention(t.Context(), "another", time.Minute); err != nil || !held {
		t.Fatal(held, err)
	}
	if d, err := w.keeper(t).Keep(t.Context()); !errors.Is(err, ErrElsewhere) {
		t.Errorf("beside another: %+v, %v", d, err)
	}
	if held, err := w.LeaseRetention(t.Context(), "another", 0); err != nil || !held {
		t.Fatal(held, err)
	}
	if d, err := w.keeper(t).Keep(t.Context()); err != nil || len(d.Retired) == 0 {
		t.Errorf("when it has left: %+v, %v", d, err)
	}
}

// What a run writes that is still in hand is kept, however old the run is.
func TestOutputsOfARunInHandStay(t *testing.T) {
	w := newWorld(t)
	_, run, _ := w.verified(t)
	w.exec(t, lies("claims", run))
	w.exec(t, "INSERT INTO run_outputs (run_id, attempt, updated_at) VALUES ($1, 7, now() - interval '2 days')", run)
	for _, want := range []int{1, 0} {
		if _, err := w.keeper(t).dropOutputs(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := w.count(t, "SELECT count(*) FROM run_outputs WHERE run_id = $1 AND attempt = 7", run); n != want {
			t.Errorf("%d outputs, want %d", n, want)
		}
		w.exec(t, "DELETE FROM claims")
	}
}

// A month that was dropped comes back with the instants of it that are made up
// for, and what is told of these runs stays.
func TestAMonthThatComesBack(t *testing.T) {
	w := newWorld(t)
	k := w.keeper(t)
	if d, err := k.Keep(t.Context()); err != nil || len(d.Retired) == 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	made, err := w.Backfill(t.Context(), eventstore.BackfillRequest{Job: "report", From: w.now.AddDate(0, 0, -119), To: w.now.AddDate(0, 0, -116), Limit: 100})
	if err != nil || made.Created == 0 {
		t.Fatalf("%+v, %v", made, err)
	}
	w.finish(t)
	w.follow(t)
	for range 2 {
		if d, err := k.Keep(t.Context()); err != nil || len(d.Retired)+len(d.Blocked) > 0 {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if n := w.count(t, "SELECT count(*) FROM run_summaries WHERE run_id < $1", w.bound()); n != made.Created {
		t.Errorf("%d of %d runs are listed", n, made.Created)
	}
	if r, err := evidence.New(w.Store).Verify(t.Context(), nil); err != nil || r.Count != 0 {
		t.Errorf("verify: %+v, %v", r, err)
	}
}
