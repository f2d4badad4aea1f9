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

// The database refuses by itself: a keeper that did not look, or an engine's
// password in other hands, lets go of nothing before its time.
func TestTheDatabaseLooksItself(t *testing.T) {
	w := newWorld(t)
	of, run, x := w.verified(t)
	const row = `{"run_id": "%[1]s", "job_id": "%[1]s", "claim_id": "%[1]s", "job_version": 1, "origin": "request", "queue": "q", "kind": "k", "priority": 5, "limit_key": "x",
		"scheduled_at": "2020-01-01Z", "ready_at": "2020-01-01Z", "changed_at": "2020-01-01Z", "lease_until": "2020-01-01Z", "waiting_since": "2020-01-01Z", "parked_at": "2020-01-01Z",
		"version": 1, "attempt": 0, "dispatches": 0, "claims": 0, "catch_up": false, "cancel": false, "cancel_reason": "", "reason": "x", "row": {}}`
	type obstacle struct{ hinder, why, mend string }
	obstacles := []obstacle{
		{"UPDATE retention SET keep_runs = '4000 days'", "runs are kept for 4000 days", "UPDATE retention SET keep_runs = '1 day'"},
		{"UPDATE retired_months SET newest_at = now()", "its newest event is of", "UPDATE retired_months SET newest_at = now() - interval '2 days'"},
		{"SELECT daybook_raise_era('restored')", "restored or promoted since the export", "DELETE FROM eras WHERE era = 2"},
	}
	for _, table := range []string{"due_runs", "waiting_runs", "claims", "parked_runs"} {
		obstacles = append(obstacles, obstacle{"INSERT INTO " + table + " SELECT (jsonb_populate_record(NULL::" + table + ", '" + fmt.Sprintf(row, run) + "')).*", "a run of it is not finished", "DELETE FROM " + table})
	}
	for _, o := range obstacles {
		w.exec(t, o.hinder)
		var stays *eventstore.NotRetiredError
		if err := w.RetireMonth(t.Context(), of, x.SHA256, "x"); !errors.As(err, &stays) || !strings.Contains(stays.Why, o.why) {
			t.Fatalf("%s: %v, want %q", o.hinder, err, o.why)
		}
		w.exec(t, o.mend)
	}
	if err := w.RetireMonth(t.Context(), of, x.SHA256, "x"); err != nil {
		t.Errorf("with nothing in the way: %v", err)
	}
}

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
	for w.count(t, "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == 0 {
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
