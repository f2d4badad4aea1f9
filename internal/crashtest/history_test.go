//go:build linux

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/crashtest/judge"
	"github.com/daybookhq/daybook/internal/proctest"
)

// mustBeEmpty are the tables that hold what is under way. Parked rows are what
// could not be processed, which here would be a fault of the program.
var mustBeEmpty = []string{"due_runs", "waiting_runs", "claims", "limit_holders", "outbox", "parked_runs", "projection_parked"}

// openStore connects as an engine does. The database need not stay there.
func openStore(t *testing.T, dsn string) *eventstore.Store {
	t.Helper()
	s, err := eventstore.Open(t.Context(), eventstore.Config{DSN: dsn, Actor: "test", OpsConns: 2, LoopConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// state is how far the system is, in one round trip.
type state struct {
	position int64 // of the log
	left     map[string]int
	running  int // runs that the read model has as not finished, or not at all
}

func look(s *eventstore.Store) (state, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	st := state{left: map[string]int{}}
	b := &pgx.Batch{}
	b.Queue("SELECT last_value FROM event_position").QueryRow(func(r pgx.Row) error { return r.Scan(&st.position) })
	b.Queue("SELECT (SELECT count(*) FROM run_slots) + (SELECT count(*) FROM run_keys) - (SELECT count(*) FROM run_summaries WHERE state IN ('succeeded', 'failed', 'cancelled', 'skipped'))").
		QueryRow(func(r pgx.Row) error { return r.Scan(&st.running) })
	for _, table := range mustBeEmpty {
		b.Queue("SELECT count(*) FROM " + table).QueryRow(func(r pgx.Row) error {
			var n int
			err := r.Scan(&n)
			st.left[table] = n
			return err
		})
	}
	return st, s.Pool().SendBatch(ctx, b).Close()
}

func (s state) empty() bool {
	for _, n := range s.left {
		if n > 0 {
			return false
		}
	}
	return s.running == 0
}

// drain waits until nothing is under way. It gives up when the log has not grown
// for longer than any lease and the queues are as they were.
func drain(t *testing.T, s *eventstore.Store, procs ...*proctest.Process) map[string]int {
	t.Helper()
	var last state
	moved := time.Now()
	for {
		for _, p := range procs {
			if p.Ended() {
				t.Fatalf("%s ended unasked: %v\n%s", p.Name, p.Err(), p.Tail())
			}
		}
		now, err := look(s)
		switch {
		case err == nil && now.empty():
			return now.left
		case err == nil && (now.position != last.position || now.running != last.running || fmt.Sprint(now.left) != fmt.Sprint(last.left)):
			last, moved = now, time.Now()
		case time.Since(moved) > proctest.Patience:
			t.Errorf("nothing moves any more, and there is work left: %d runs, rows %v, error %v", last.running, last.left, err)
			return last.left
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// collect reads everything the judge needs.
func collect(t *testing.T, s *eventstore.Store, w *workload, faults []judge.Fault, left map[string]int) judge.History {
	t.Helper()
	h := judge.History{Jobs: w.jobs, Faults: faults, Left: left, Summaries: map[uuid.UUID]judge.Summary{}}
	const page = 5000
	for cursor := (eventstore.Cursor{}); ; {
		events, next, err := s.Read(t.Context(), cursor, page)
		if err != nil {
			t.Fatal(err)
		}
		h.Events, cursor = append(h.Events, events...), next
		if len(events) < page {
			break
		}
	}
	rows, err := s.Pool().Query(t.Context(), "SELECT job_id, scheduled_at, run_id FROM run_slots")
	if err != nil {
		t.Fatal(err)
	}
	if h.Slots, err = pgx.CollectRows(rows, pgx.RowToStructByPos[judge.Slot]); err != nil {
		t.Fatal(err)
	}
	if rows, err = s.Pool().Query(t.Context(), "SELECT run_id, state, version FROM run_summaries"); err != nil {
		t.Fatal(err)
	}
	var id uuid.UUID
	var sum judge.Summary
	_, err = pgx.ForEachRow(rows, []any{&id, (*string)(&sum.State), &sum.Version}, func() error {
		h.Summaries[id] = judge.Summary{State: sum.State, Version: sum.Version}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range w.journals {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := judge.ReadJournal(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h.Journal = append(h.Journal, lines...)
	}
	return h
}

// save keeps the history and the logs where it was asked for, or where the test
// leaves what it made if it fails.
func save(t *testing.T, dir string, h judge.History, logs ...string) string {
	t.Helper()
	to := filepath.Join(dir, "history")
	if v := os.Getenv(saveVar); v != "" {
		to = filepath.Join(v, h.Settings.Name)
	}
	// A witness of an earlier run must not be heard in this one.
	if err := errors.Join(os.RemoveAll(to), h.Save(to)); err != nil {
		t.Fatal(err)
	}
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it had nothing to say
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// pass gives the verdict.
func pass(t *testing.T, h judge.History) judge.Report {
	t.Helper()
	report, v := h.Judge()
	t.Logf("\n%s", report)
	if s := v.String(); s != "" {
		t.Errorf("violations:\n%s", s)
	}
	if report.Runs == 0 || report.Executions == 0 {
		t.Error("nothing happened, so nothing is proved")
	}
	if report.Duplicates > report.Excused {
		t.Errorf("%d duplicates, the faults explain %d", report.Duplicates, report.Excused)
	}
	return report
}

// size is how much the commands have written. A journal that is not there yet has
// nothing in it.
func size(journal string) int64 {
	fi, err := os.Stat(journal)
	if err != nil {
		return 0
	}
	return fi.Size()
}

// await waits until commands of every kind run that did not before.
func (w *workload) await(t *testing.T, procs ...*proctest.Process) {
	t.Helper()
	for _, name := range w.journals {
		before := size(name)
		proctest.Await(t, "commands run", procs, func() (bool, string) { return size(name) > before, name + " does not grow" })
	}
	if w.seen != nil {
		before := w.seen.size()
		proctest.Await(t, "witnesses work", procs, func() (bool, string) { return w.seen.size() > before, "they note nothing" })
	}
}
