package eventstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Silence is how long an engine or worker may say nothing before it counts as
// gone. They speak every third of it.
const Silence = 15 * time.Second

// WorkerLane is a lane that a worker declares.
type WorkerLane struct {
	Queue string `json:"queue"`
	Kind  string `json:"kind"`
}

// Worker is a process that executes runs.
type Worker struct {
	ID        string
	Lanes     []WorkerLane
	Slots     int
	Version   string
	Host      string
	FirstSeen time.Time
	SeenAt    time.Time
}

// Index: workers_pkey.
const upsertWorker = `
INSERT INTO workers (worker_id, lanes, slots, version, host, first_seen, seen_at) VALUES ($1, $2, $3, $4, $5, now(), now())
ON CONFLICT (worker_id) DO UPDATE SET lanes = excluded.lanes, slots = excluded.slots, version = excluded.version, host = excluded.host, seen_at = excluded.seen_at`

// SeeWorker records a worker's presence. One that drains declares no lanes.
func (s *Store) SeeWorker(ctx context.Context, w Worker) error {
	lanes, err := json.Marshal(w.Lanes)
	if err != nil {
		return err
	}
	if _, err := s.ops.Exec(ctx, upsertWorker, w.ID, string(lanes), w.Slots, w.Version, w.Host); err != nil {
		return fmt.Errorf("record worker %s: %w", w.ID, err)
	}
	return nil
}

// Index: none; the table is small.
const selectWorkers = `SELECT worker_id, lanes, slots, version, host, first_seen, seen_at FROM workers WHERE seen_at > now() - $1::interval ORDER BY worker_id`

// Workers lists the workers that spoke within Silence.
func (s *Store) Workers(ctx context.Context) ([]Worker, error) {
	rows, err := s.loops.Query(ctx, selectWorkers, Silence)
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	return pgx.CollectRows(rows, scanWorker)
}

func scanWorker(row pgx.CollectableRow) (Worker, error) {
	var w Worker
	var lanes []byte
	if err := row.Scan(&w.ID, &lanes, &w.Slots, &w.Version, &w.Host, &w.FirstSeen, &w.SeenAt); err != nil {
		return w, err
	}
	w.FirstSeen, w.SeenAt = w.FirstSeen.UTC(), w.SeenAt.UTC()
	return w, json.Unmarshal(lanes, &w.Lanes)
}

// Load is how much of the claims table belongs to a lane or a worker.
type Load struct {
	Queue, Kind string
	Worker      string // empty: not started
	Claims      int
}

// Index: none; the table is scanned.
const selectLoad = `SELECT queue, kind, coalesce(worker, ''), count(*) FROM claims GROUP BY 1, 2, 3`

// Loads counts the runs in hand.
func (s *Store) Loads(ctx context.Context) ([]Load, error) {
	rows, err := s.loops.Query(ctx, selectLoad)
	if err != nil {
		return nil, fmt.Errorf("count claims: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Load])
}

// Capacity is what the workers can take and have.
type Capacity struct {
	Workers []Worker
	Loads   []Load
	// At is when, or a little after, the loads were counted: what a transaction
	// did that began later is not in them.
	At time.Time
}

// Capacity reads Workers and Loads in one round trip.
func (s *Store) Capacity(ctx context.Context) (c Capacity, err error) {
	b := &pgx.Batch{}
	b.Queue(selectWorkers, Silence).Query(func(rows pgx.Rows) (err error) {
		c.Workers, err = pgx.CollectRows(rows, scanWorker)
		return err
	})
	b.Queue(selectLoad).Query(func(rows pgx.Rows) (err error) {
		c.Loads, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Load])
		return err
	})
	b.Queue("SELECT clock_timestamp()").QueryRow(func(row pgx.Row) error { return row.Scan(&c.At) })
	if err := s.loops.SendBatch(ctx, b).Close(); err != nil {
		return Capacity{}, fmt.Errorf("count what workers have: %w", err)
	}
	return c, nil
}

// Index: engines_pkey.
const upsertEngine = `
INSERT INTO engines (engine_id, roles, version, host, first_seen, seen_at) VALUES ($1, $2, $3, $4, now(), now())
ON CONFLICT (engine_id) DO UPDATE SET roles = excluded.roles, seen_at = excluded.seen_at`

// Index: none; the table is small. What has been silent for an hour is removed.
const sweepPresence = `
WITH w AS (DELETE FROM workers WHERE seen_at < now() - interval '1 hour'), e AS (DELETE FROM engines WHERE seen_at < now() - interval '1 hour')
SELECT count(*) FROM engines WHERE seen_at > now() - $1::interval AND 'engine' = ANY (string_to_array(roles, ','))`

// SeeEngine records this process's presence and counts the live ones that claim.
func (s *Store) SeeEngine(ctx context.Context, id, roles, version, host string) (live int, err error) {
	if _, err := s.loops.Exec(ctx, upsertEngine, id, roles, version, host); err != nil {
		return 0, fmt.Errorf("record engine %s: %w", id, err)
	}
	if err := s.loops.QueryRow(ctx, sweepPresence, Silence).Scan(&live); err != nil {
		return 0, fmt.Errorf("count engines: %w", err)
	}
	return live, nil
}

// LeaveEngine removes this engine's presence on a clean stop.
func (s *Store) LeaveEngine(ctx context.Context, id string) error {
	_, err := s.loops.Exec(ctx, "DELETE FROM engines WHERE engine_id = $1", id)
	return err
}

// Index: none; the claims table is scanned. It holds the runs in hand only.
const selectUnstarted = `
SELECT c.run_id, c.claim_id, c.lease_until
  FROM claims c JOIN unnest($1::text[], $2::text[]) AS l(q, k) ON c.queue = l.q AND c.kind = l.k
 WHERE c.start_token IS NULL AND c.lease_until > now() ORDER BY c.priority, c.ready_at LIMIT $3`

// Unstarted lists claims of the lanes that nobody has started: what a worker
// without the broker may start. The same claim is listed until it is started.
func (s *Store) Unstarted(ctx context.Context, lanes []WorkerLane, limit int) ([]Hint, error) {
	queues, kinds := make([]string, len(lanes)), make([]string, len(lanes))
	for i, l := range lanes {
		queues[i], kinds[i] = l.Queue, l.Kind
	}
	rows, err := s.ops.Query(ctx, selectUnstarted, queues, kinds, limit)
	if err != nil {
		return nil, fmt.Errorf("list unstarted claims: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Hint])
}
