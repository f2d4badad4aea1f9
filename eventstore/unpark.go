package eventstore

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// Unparked is what became of a parked run.
type Unparked struct {
	Run     domain.Run
	Outcome UnparkOutcome
}

// UnparkOutcome says where an unparked run went.
type UnparkOutcome string

// The outcomes.
const (
	UnparkedDue       UnparkOutcome = "due"       // it is due again
	UnparkedCancelled UnparkOutcome = "cancelled" // its job is archived, which cancels what waits
	UnparkedStale     UnparkOutcome = "stale"     // it had gone on elsewhere or ended: only the row is removed
	UnparkedNot       UnparkOutcome = "none"      // it was not parked
)

// Unpark makes a parked run due again, as its stream has it. If the cause is
// still there, the next claim parks it once more. The error says why it cannot
// be made due; it stays parked then.
func (s *Store) Unpark(ctx context.Context, run uuid.UUID, m Meta) (Unparked, error) {
	var out Unparked
	err := again(ctx, func() (err error) {
		out, err = s.unpark(ctx, run)
		return err
	})
	if err == nil && out.Outcome == UnparkedCancelled {
		err = s.cancelParked(ctx, run, m)
	}
	if err != nil {
		return Unparked{}, fmt.Errorf("unpark run %s: %w", run, err)
	}
	return out, nil
}

// The lock keeps the job from being archived before the run is due, where an
// archive finds it. Index: parked_runs_pkey, jobs_pkey.
const shareJobOfParked = `
SELECT archived FROM jobs WHERE id = (SELECT job_id FROM parked_runs WHERE run_id = $1) FOR KEY SHARE`

// Index: parked_runs_pkey, and the primary keys of the tables that live runs are in.
const lockToUnpark = `
SELECT (row->>'waiting_since')::timestamptz,
       EXISTS (SELECT 1 FROM claims WHERE run_id = $1) OR EXISTS (SELECT 1 FROM due_runs WHERE run_id = $1)
       OR EXISTS (SELECT 1 FROM waiting_runs WHERE run_id = $1)
  FROM parked_runs WHERE run_id = $1 FOR UPDATE`

func (s *Store) unpark(ctx context.Context, run uuid.UUID) (Unparked, error) {
	var since *time.Time
	var parked, archived, elsewhere bool
	tx, err := beginWith(ctx, s.loops,
		query{shareJobOfParked, []any{run}, func(rows pgx.Rows) error { return rows.Scan(&archived) }},
		query{lockToUnpark, []any{run}, func(rows pgx.Rows) error {
			parked = true
			return rows.Scan(&since, &elsewhere)
		}})
	if err != nil {
		return Unparked{}, err
	}
	defer tx.rollback(ctx)
	if !parked {
		return Unparked{Run: domain.Run{ID: run}, Outcome: UnparkedNot}, nil
	}
	runs, err := foldRuns(ctx, tx, []uuid.UUID{run})
	if err != nil {
		return Unparked{}, err
	}
	r, found := runs[run]
	out := Unparked{Run: r, Outcome: UnparkedDue}
	b := &pgx.Batch{}
	b.Queue(deleteParked, []uuid.UUID{run}, 1)
	switch {
	case !found:
		return Unparked{}, fmt.Errorf("the log has no events of it: %w", ErrNotFound)
	case elsewhere || r.State.Terminal():
		out.Outcome = UnparkedStale
	case r.State == domain.Running: // a cancel would ask a worker that it does not have
		return Unparked{}, fmt.Errorf("%w: its stream says %s, and it has no claim", errInconsistent, r.State)
	case r.State != domain.Pending:
		return Unparked{}, fmt.Errorf("%w: its stream says %s, and it has no claim; it can be cancelled", errInconsistent, r.State)
	case archived:
		out.Outcome = UnparkedCancelled
		return out, nil
	default:
		if since != nil {
			r.WaitingSince = since.UTC()
		}
		r.ReadyAt = readyAt(r.ReadyAt, tx.now)
		out.Run = r
		var due liveRows
		due.add(r)
		due.queueDue(b)
	}
	return out, tx.commit(ctx, b)
}

// cancelParked does what the archive of the job does to its waiting runs.
func (s *Store) cancelParked(ctx context.Context, run uuid.UUID, m Meta) error {
	answers, err := s.Execute(ctx, []Command{{RunID: run, Do: domain.CancelRun{Reason: reasonArchived}, Meta: m}})
	if err != nil {
		return err
	}
	return answers[0].Err
}
