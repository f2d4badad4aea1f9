package eventstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Index: due_runs_pkey.
const takeToPark = `DELETE FROM due_runs WHERE run_id = $1 RETURNING job_id, to_jsonb(due_runs.*)`

// Index: parked_runs_pkey.
const insertParked = `
INSERT INTO parked_runs (run_id, job_id, parked_at, reason, row) VALUES ($1, $2, now(), $3, $4)
ON CONFLICT (run_id) DO UPDATE SET parked_at = excluded.parked_at, reason = excluded.reason, row = excluded.row`

// park puts aside the run that made a claim of its own fail. Whoever took it
// meanwhile keeps it. It always returns an error: *ParkedError when it worked.
func (s *Store) park(ctx context.Context, run uuid.UUID, cause error) error {
	var job uuid.UUID
	var row []byte
	tx, err := begin(ctx, s.loops, takeToPark, []any{run}, func(rows pgx.Rows) error { return rows.Scan(&job, &row) })
	if err != nil {
		return errors.Join(cause, err)
	}
	defer tx.rollback(ctx)
	if row == nil {
		return cause
	}
	b := &pgx.Batch{}
	b.Queue(insertParked, run, job, cause.Error(), string(row))
	if err := tx.commit(ctx, b); err != nil {
		return errors.Join(cause, fmt.Errorf("park run %s: %w", run, err))
	}
	return &ParkedError{Run: run, Reason: cause}
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
