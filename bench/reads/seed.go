package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

// perTransaction is how many runs a transaction writes.
const perTransaction = 20_000

// seeder copies a world into an empty database, as its owner.
type seeder struct {
	*world
	conn *pgx.Conn
	say  func(format string, args ...any)

	events, slots, outputs, due, claims [][]any
}

var (
	eventColumns  = []string{"category", "stream_id", "version", "era", "type", "at", "actor", "data"}
	slotColumns   = []string{"job_id", "scheduled_at", "run_id"}
	outputColumns = []string{"run_id", "attempt", "head", "total_bytes", "result", "updated_at"}
	liveColumns   = []string{"run_id", "job_id", "job_version", "origin", "queue", "kind", "priority", "scheduled_at", "ready_at", "version", "attempt", "dispatches", "claims", "changed_at"}
	claimColumns  = append(slices.Clip(liveColumns), "claim_id", "lease_until", "start_token", "worker", "started_at", "deadline")
	jobColumns    = []string{"id", "name", "spec", "version", "spec_version", "next_fire", "materialized_through", "created_at", "changed_at"}
)

// seed fills the log and the tables beside it; what reads the log comes after.
func (s *seeder) seed(ctx context.Context) error {
	if _, err := s.conn.Exec(ctx, "SELECT daybook_ensure_partition($1, $2)", s.began(), s.now); err != nil {
		return err
	}
	specs := make([]domain.JobSpec, s.jobs)
	var jobs [][]any
	for i := range specs {
		specs[i] = s.spec(i)
		if err := s.event(domain.CategoryJob, domain.JobID(specs[i].Name), 1, s.began(), domain.JobCreated{Spec: specs[i]}); err != nil {
			return err
		}
		text, err := json.Marshal(specs[i])
		if err != nil {
			return err
		}
		next := s.instant(s.instants() - 1).Add(every)
		jobs = append(jobs, []any{domain.JobID(specs[i].Name), specs[i].Name, string(text), 1, 1, next, s.now, s.began(), s.began()})
	}
	if err := s.copy(ctx, "jobs", jobColumns, &jobs); err != nil {
		return err
	}
	for i := range s.instants() {
		for k := range specs {
			if err := s.run(&specs[k], s.instant(i), i == s.instants()-1); err != nil {
				return err
			}
		}
		if len(s.slots) >= perTransaction || i == s.instants()-1 {
			if err := s.flush(ctx); err != nil {
				return err
			}
			s.say("%d of %d runs", (i+1)*s.jobs, s.runs)
		}
	}
	return nil
}

func (s *seeder) run(spec *domain.JobSpec, at time.Time, last bool) error {
	t, err := s.tell(spec, at, last)
	if err != nil {
		return err
	}
	r := t.run
	s.slots = append(s.slots, []any{r.JobID, at, r.ID})
	for i, e := range t.events {
		if err := s.event(domain.CategoryRun, r.ID, i+1, e.At, e.Event); err != nil {
			return err
		}
	}
	if r.State == domain.Succeeded {
		s.outputs = append(s.outputs, []any{r.ID, r.Attempt, []byte("reading\nwriting\ndone\n"), 21, `{"rows": 1207}`, r.ChangedAt})
	}
	live := []any{r.ID, r.JobID, r.JobVersion, string(r.Origin), r.Queue, r.Kind, r.Priority, r.ScheduledAt, r.ReadyAt, r.Version, r.Attempt, r.Dispatches, r.Claims, r.ChangedAt}
	switch {
	case r.State == domain.Pending:
		s.due = append(s.due, live)
	case r.State == domain.Claimed:
		s.claims = append(s.claims, append(live, r.ClaimID, r.LeaseUntil, nil, nil, nil, nil))
	case r.State == domain.Running:
		s.claims = append(s.claims, append(live, r.ClaimID, r.LeaseUntil, r.Token, r.Worker, r.StartedAt, r.Deadline))
	}
	return nil
}

func (s *seeder) event(c domain.Category, stream [16]byte, version int, at time.Time, e domain.Event) error {
	data, err := domain.EncodeEvent(e)
	if err != nil {
		return err
	}
	s.events = append(s.events, []any{string(c), stream, version, 1, e.EventType(), at, "engine-1", string(data)})
	return nil
}

func (s *seeder) flush(ctx context.Context) error {
	tx, err := s.conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	for _, c := range []struct {
		table   string
		columns []string
		rows    *[][]any
	}{
		{"events", eventColumns, &s.events}, {"run_slots", slotColumns, &s.slots}, {"run_outputs", outputColumns, &s.outputs},
		{"due_runs", liveColumns, &s.due}, {"claims", claimColumns, &s.claims},
	} {
		if err := s.copy(ctx, c.table, c.columns, c.rows); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

func (s *seeder) copy(ctx context.Context, table string, columns []string, rows *[][]any) error {
	if len(*rows) == 0 {
		return nil
	}
	if _, err := s.conn.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromRows(*rows)); err != nil {
		return fmt.Errorf("copy into %s: %w", table, err)
	}
	*rows = (*rows)[:0]
	return nil
}

// follow has the projections read the log to its end.
func follow(ctx context.Context, store *eventstore.Store) error {
	f := projections.New(store, projections.Config{Owner: "bench"})
	for {
		did, next, err := f.Step(ctx)
		if err != nil {
			return err
		}
		if !did && next > 0 {
			return nil
		}
	}
}

// attend makes the workers of the story present.
func (w *world) attend(ctx context.Context, store *eventstore.Store) error {
	for i := range workers {
		lane := func(n int) eventstore.WorkerLane {
			return eventstore.WorkerLane{Queue: fmt.Sprintf("queue-%d", n%10), Kind: fmt.Sprintf("kind-%d", n%20)}
		}
		err := store.SeeWorker(ctx, eventstore.Worker{ID: fmt.Sprintf("worker-%d", i), Lanes: []eventstore.WorkerLane{lane(i), lane(i + 1)}, Slots: 8, Version: "bench", Host: "host"})
		if err != nil {
			return err
		}
	}
	return nil
}
