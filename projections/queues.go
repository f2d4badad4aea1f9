package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// QueueStats is a lane as it stands: live counts, not a projection.
type QueueStats struct {
	Queue         string          `json:"queue"`
	Kind          string          `json:"kind"`
	Due           int             `json:"due"`     // could be claimed now
	NotDue        int             `json:"not_due"` // wait for their time
	Waiting       int             `json:"waiting"` // set aside until a place under a limit or behind a predecessor is free
	OldestReadyAt *time.Time      `json:"oldest_ready_at,omitempty"`
	OldestWait    domain.Duration `json:"oldest_wait"` // how long the oldest due run has been ready
	Claimed       int             `json:"claimed"`     // in hand, not started
	Running       int             `json:"running"`
	Workers       int             `json:"workers"` // that declare the lane and were heard of lately
	Slots         int             `json:"slots"`   // theirs, for all their lanes together
}

// Index: due_runs_lane alone for the first part, whose cost grows with what
// is due some time; the other tables are small.
const selectQueues = `
WITH d AS (SELECT queue, kind, count(*) FILTER (WHERE ready_at <= now()) AS due, count(*) FILTER (WHERE ready_at > now()) AS later, min(ready_at) AS oldest
             FROM due_runs GROUP BY queue, kind),
     p AS (SELECT queue, kind, count(*) AS waiting FROM waiting_runs GROUP BY queue, kind),
     c AS (SELECT queue, kind, count(*) FILTER (WHERE started_at IS NULL) AS claimed, count(started_at) AS running FROM claims GROUP BY queue, kind),
     w AS (SELECT l.queue, l.kind, count(*) AS workers, sum(slots) AS slots
             FROM workers, jsonb_to_recordset(lanes) AS l(queue text, kind text) WHERE seen_at > now() - $1::interval GROUP BY l.queue, l.kind)
SELECT queue, kind, coalesce(due, 0), coalesce(later, 0), coalesce(waiting, 0), CASE WHEN oldest <= now() THEN oldest END,
       CASE WHEN oldest <= now() THEN now() - oldest ELSE interval '0' END,
       coalesce(claimed, 0), coalesce(running, 0), coalesce(workers, 0), coalesce(slots, 0)
  FROM d FULL JOIN p USING (queue, kind) FULL JOIN c USING (queue, kind) FULL JOIN w USING (queue, kind) ORDER BY queue, kind`

// Queues gives the depth of every lane in which something waits or runs or that
// a worker declares.
func (r *Reader) Queues(ctx context.Context) ([]QueueStats, error) {
	rows, err := r.store.Pool().Query(ctx, selectQueues, eventstore.Silence)
	if err != nil {
		return nil, fmt.Errorf("read queues: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (QueueStats, error) {
		var q QueueStats
		var wait time.Duration
		err := row.Scan(&q.Queue, &q.Kind, &q.Due, &q.NotDue, &q.Waiting, &q.OldestReadyAt, &wait, &q.Claimed, &q.Running, &q.Workers, &q.Slots)
		q.OldestReadyAt, q.OldestWait = inUTC(q.OldestReadyAt), domain.Duration(wait)
		return q, err
	})
	if err != nil {
		return nil, fmt.Errorf("read queues: %w", err)
	}
	return out, nil
}

func jobID(name string) uuid.UUID { return domain.JobID(name) }

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}
