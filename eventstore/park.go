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

// Index: parked_runs_pkey.
const lockParked = `SELECT run_id FROM parked_runs WHERE run_id = ANY($1) ORDER BY run_id FOR UPDATE`

// Index: parked_runs_pkey.
const deleteParked = `
WITH gone AS (DELETE FROM parked_runs WHERE run_id = ANY($1) RETURNING 1)
SELECT daybook_expect('parked runs dealt with', count(*), $2) FROM gone`

// Parked is a run that was put aside. It waits for somebody: it is cancelled, or
// unparked once its cause is gone.
type Parked struct {
	RunID       uuid.UUID
	Job         string // empty: the job's row is gone
	Queue, Kind string
	ScheduledAt time.Time
	ParkedAt    time.Time
	Reason      string
}

// Index: parked_runs_pkey when runs are named, otherwise the table, which is
// empty unless something is wrong; jobs_pkey.
const selectParked = `
SELECT p.run_id, coalesce(j.name, ''), coalesce(p.row->>'queue', ''), coalesce(p.row->>'kind', ''),
       coalesce((p.row->>'scheduled_at')::timestamptz, p.parked_at), p.parked_at, p.reason
  FROM parked_runs p LEFT JOIN jobs j ON j.id = p.job_id
 WHERE $1::uuid[] IS NULL OR p.run_id = ANY($1)
 ORDER BY p.parked_at DESC, p.run_id LIMIT $2`

// ListParked lists parked runs, the newest first: those named, or all.
func (s *Store) ListParked(ctx context.Context, limit int, runs ...uuid.UUID) ([]Parked, error) {
	rows, err := s.loops.Query(ctx, selectParked, runs, limit)
	if err != nil {
		return nil, fmt.Errorf("list parked runs: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Parked])
	if err != nil {
		return nil, fmt.Errorf("list parked runs: %w", err)
	}
	for i := range found {
		found[i].ScheduledAt, found[i].ParkedAt = found[i].ScheduledAt.UTC(), found[i].ParkedAt.UTC()
	}
	return found, nil
}
