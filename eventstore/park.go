package eventstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// Index: due_runs_lane, as takeDue.
const takeToPark = `
DELETE FROM due_runs WHERE ctid = ANY (ARRAY (
  SELECT r.ctid
    FROM unnest($3::smallint[], $4::timestamptz[]) WITH ORDINALITY AS p(level, low, rank),
         LATERAL (SELECT d.ctid FROM due_runs d
                   WHERE d.queue = $1 AND d.kind = $2 AND d.priority = p.level AND d.ready_at BETWEEN p.low AND now()
                   ORDER BY d.ready_at FOR UPDATE SKIP LOCKED LIMIT 1) r
   LIMIT 1))
RETURNING run_id, job_id, to_jsonb(due_runs.*)`

// Index: parked_runs_pkey.
const insertParked = `
INSERT INTO parked_runs (run_id, job_id, parked_at, reason, row) VALUES ($1, $2, now(), $3, $4)
ON CONFLICT (run_id) DO UPDATE SET parked_at = excluded.parked_at, reason = excluded.reason, row = excluded.row`

// park takes the one run that a claim of one would take and puts it aside. It
// always returns an error: *ParkedError when it worked.
func (s *Store) park(ctx context.Context, lane *Lane, cause error) error {
	levels, lows := lane.order(ctx, s)
	var run domain.Run
	var row []byte
	tx, err := begin(ctx, s.loops, takeToPark, []any{lane.Queue, lane.Kind, levels, lows}, func(rows pgx.Rows) error {
		return rows.Scan(&run.ID, &run.JobID, &row)
	})
	if err != nil {
		return errors.Join(cause, err)
	}
	defer tx.rollback(ctx)
	if row == nil {
		return cause
	}
	b := &pgx.Batch{}
	b.Queue(insertParked, run.ID, run.JobID, cause.Error(), string(row))
	if err := tx.commit(ctx, b); err != nil {
		return errors.Join(cause, fmt.Errorf("park run %s: %w", run.ID, err))
	}
	return &ParkedError{Run: run.ID, Reason: cause}
}

// Parked is a run that was put aside.
type Parked struct {
	RunID    string
	JobID    string
	ParkedAt time.Time
	Reason   string
}

// ListParked lists parked runs, the newest first.
func (s *Store) ListParked(ctx context.Context, limit int) ([]Parked, error) {
	rows, err := s.loops.Query(ctx, "SELECT run_id::text, job_id::text, parked_at, reason FROM parked_runs ORDER BY parked_at DESC LIMIT $1", limit)
	if err != nil {
		return nil, fmt.Errorf("list parked runs: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Parked])
}
