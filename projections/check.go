package projections

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// CheckReport is what comparing a projection with the log found. What the
// follower has not applied yet is no drift.
type CheckReport struct {
	Projection string  `json:"projection"`
	Streams    int     `json:"streams"` // compared
	Parked     int     `json:"parked"`  // of them, compared up to the event that cannot be applied
	Drifted    int     `json:"drifted"`
	Drift      []Drift `json:"drift"` // the first of them
}

// Drift is a row that is not what the log says.
type Drift struct {
	Table       string       `json:"table"`
	Key         string       `json:"key"` // run id, job, or lane; with the time of a bucket
	What        string       `json:"what"`
	Differences []Difference `json:"differences,omitempty"`
}

// Difference is a column of a drifted row.
type Difference struct {
	Column string `json:"column"`
	Log    string `json:"log"`
	Table  string `json:"table"`
}

const driftShown = 100

func (r *CheckReport) add(d Drift) {
	if r.Drifted++; len(r.Drift) < driftShown {
		r.Drift = append(r.Drift, d)
	}
}

// Check folds the log and compares the projection with it: every run and, after
// them, the statistics of every job and lane, or with a sample above 0 about that many
// runs at random places. Readers, writers and followers go on.
func Check(ctx context.Context, store *eventstore.Store, name string, sample int) (CheckReport, error) {
	if name != RunSummariesName {
		return CheckReport{}, &UnknownProjectionError{Name: name}
	}
	c := checker{store: store, report: CheckReport{Projection: name, Drift: []Drift{}}, traffic: newTraffic()}
	run := c.all
	if sample > 0 {
		run = func(ctx context.Context) error { return c.sample(ctx, sample) }
	}
	if err := run(ctx); err != nil {
		return c.report, fmt.Errorf("check %s: %w", name, err)
	}
	return c.report, nil
}

type checker struct {
	store   *eventstore.Store
	report  CheckReport
	traffic *traffic // counted along the way
}

// judgeStrays judges rows of runs that the log does not have. That is no wonder in
// a month that was let go of: its rows go after its events. Which months those are
// is asked afterwards, since one may go during a check.
func (c *checker) judgeStrays(ctx context.Context, rows []uuid.UUID) error {
	if len(rows) == 0 {
		return nil
	}
	months, err := c.store.RetiredMonths(ctx)
	if err != nil {
		return err
	}
	for _, id := range rows {
		at := domain.InstantOf(id)
		retired := slices.ContainsFunc(months, func(m eventstore.RetiredMonth) bool {
			return m.DroppedAt != nil && !at.Before(m.Month) && at.Before(m.Month.AddDate(0, 1, 0))
		})
		if !retired {
			c.report.add(Drift{Table: "run_summaries", Key: id.String(), What: "the log has no such run"})
		}
	}
	return nil
}

const checkedPage = 10_000

func (c *checker) all(ctx context.Context) error {
	began, err := c.beginTraffic(ctx)
	if err != nil {
		return err
	}
	after, done := uuid.Nil, false
	for !done {
		var err error
		if after, done, err = c.chunk(ctx, after, checkedPage); err != nil {
			return err
		}
	}
	if err := c.stats(ctx); err != nil {
		return err
	}
	return c.compareTraffic(ctx, began)
}

// Index: the primary keys of the partitions.
const runBounds = `
SELECT (SELECT stream_id FROM events WHERE category = 'run' ORDER BY stream_id LIMIT 1), (SELECT stream_id FROM events WHERE category = 'run' ORDER BY stream_id DESC LIMIT 1)`

func (c *checker) sample(ctx context.Context, runs int) error {
	const eventsAtOnePlace = 400
	var low, high *uuid.UUID
	if err := c.store.Pool().QueryRow(ctx, runBounds).Scan(&low, &high); err != nil || low == nil {
		return err
	}
	from, to := binary.BigEndian.Uint64(low[:8]), binary.BigEndian.Uint64(high[:8])
	for stuck := 0; c.report.Streams < runs && stuck < 3; {
		var at uuid.UUID
		binary.BigEndian.PutUint64(at[:8], from+rand.Uint64N(to-from+1))
		before := c.report.Streams
		if _, _, err := c.chunk(ctx, at, eventsAtOnePlace); err != nil {
			return err
		}
		if stuck++; c.report.Streams > before {
			stuck = 0
		}
	}
	return nil
}

// The events of the streams after one, and whether the checkpoint's cursor has
// each behind it. Index: the primary keys of the partitions.
const checkEvents = `
SELECT ` + eventColumns + `,
       CASE WHEN e.era <> $3 THEN e.era < $3
            ELSE pg_visible_in_snapshot(e.xid, $4::pg_snapshot) OR coalesce(pg_visible_in_snapshot(e.xid, $5::pg_snapshot), false) AND e.position <= $6 END
  FROM events e WHERE e.category = 'run' AND e.stream_id > $1 ORDER BY e.stream_id, e.version LIMIT $2`

// Index: run_summaries_pkey.
var checkRows = "SELECT " + summaryColumns + " FROM run_summaries WHERE run_id > $1 AND run_id <= $2"

// Index: projection_parked_pkey.
const checkParked = `SELECT stream_id FROM projection_parked WHERE projection = $1`

// logged is an event and whether the follower has it behind it.
type logged struct {
	eventstore.Recorded
	applied bool
}

// oneSnapshot shows log, checkpoint and the tables as they belong together. They
// are locked before the snapshot is taken: a rebuild may exchange them after it,
// and what is in the new ones by then is behind what the old checkpoint says.
func (c *checker) oneSnapshot(ctx context.Context, tables []string, f func(pgx.Tx) error) error {
	return inTx(ctx, c.store.Pool(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE "+strings.Join(tables, ", ")+" IN ACCESS SHARE MODE"); err != nil {
			return err
		}
		return f(tx)
	})
}

// chunk compares the streams after one, as many as the events of a page make up
// whole.
func (c *checker) chunk(ctx context.Context, after uuid.UUID, limit int) (last uuid.UUID, done bool, err error) {
	var strays []uuid.UUID
	err = c.oneSnapshot(ctx, []string{"run_summaries"}, func(tx pgx.Tx) error {
		streams, end, whole, err := c.streams(ctx, tx, after, limit)
		if err != nil {
			return err
		}
		last, done = end, whole
		if done {
			last = allIDs
		}
		rows, err := queryRows(ctx, tx, scanSummary, checkRows, after, last)
		if err != nil {
			return err
		}
		parked, err := queryRows(ctx, tx, pgx.RowTo[uuid.UUID], checkParked, c.report.Projection)
		if err != nil {
			return err
		}
		strays = c.compare(streams, rows, parked)
		return nil
	})
	if err == nil {
		err = c.judgeStrays(ctx, strays)
	}
	return last, done, err
}

func (c *checker) streams(ctx context.Context, tx pgx.Tx, after uuid.UUID, limit int) (streams [][]logged, last uuid.UUID, done bool, err error) {
	at, err := c.place(ctx, tx)
	if err != nil {
		return nil, last, false, err
	}
	prev, next := at.Prev, (*string)(nil)
	if prev == "" {
		prev = "1:1:"
	}
	if at.Next != "" {
		next = &at.Next
	}
	for {
		events, err := queryRows(ctx, tx, scanLogged, checkEvents, after, limit, at.Era, prev, next, at.Position)
		if err != nil {
			return nil, last, false, err
		}
		for i, e := range events {
			if i == 0 || e.StreamID != events[i-1].StreamID {
				streams = append(streams, nil)
			}
			streams[len(streams)-1] = append(streams[len(streams)-1], e)
		}
		if len(events) < limit {
			return streams, last, true, nil
		}
		if len(streams) > 1 { // the last stream may have been cut
			streams = streams[:len(streams)-1]
			return streams, streams[len(streams)-1][0].StreamID, false, nil
		}
		streams, limit = nil, 2*limit
	}
}

func scanLogged(row pgx.CollectableRow) (logged, error) {
	var r logged
	err := row.Scan(&r.Category, &r.StreamID, &r.Version, &r.Position, &r.Era, &r.Type, &r.SchemaVersion, &r.At, &r.Actor, &r.Correlation, &r.Causation, &r.Data, &r.applied)
	return r, err
}

func queryRows[T any](ctx context.Context, tx pgx.Tx, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// Statistics are compared with the runs, which have been compared with the log:
// both are written in the same transactions. Retired runs count as their jobs'
// streams tell; rows that they have left do not. Index: none; this reads all of
// the table, in the order of run_summaries_job, and all events of jobs.
const checkStats = `
WITH counted AS (
  SELECT job_id, (state = 'succeeded')::int AS succeeded, (state = 'failed')::int AS failed, (state = 'cancelled')::int AS cancelled, (state = 'skipped')::int AS skipped,
         CASE state WHEN 'succeeded' THEN finished_at END AS last_success_at, CASE state WHEN 'failed' THEN finished_at END AS last_failure_at,
         CASE state WHEN 'succeeded' THEN run_id END AS last_success_run, finished_at AS last_finished_at, run_id AS last_run
    FROM run_summaries s WHERE state IN ('succeeded', 'failed', 'cancelled', 'skipped')
     AND NOT (EXISTS (SELECT FROM retired_months m WHERE m.dropped_at IS NOT NULL AND s.run_id >= daybook_run_bound(m.month::timestamp AT TIME ZONE 'UTC')
                         AND s.run_id < daybook_run_bound((m.month + interval '1 month') AT TIME ZONE 'UTC'))
              AND NOT EXISTS (SELECT FROM events e WHERE e.category = 'run' AND e.stream_id = s.run_id AND e.version = 1))
  UNION ALL
  SELECT job_id, succeeded, failed, cancelled, skipped, last_success_at, last_failure_at, last_success_run, last_finished_at, last_run FROM retired_runs),
     r AS (
  SELECT job_id, sum(succeeded)::bigint AS succeeded, sum(failed)::bigint AS failed, sum(cancelled)::bigint AS cancelled, sum(skipped)::bigint AS skipped,
         max(last_success_at) AS last_success_at, max(last_failure_at) AS last_failure_at,
         max(last_success_run::text) AS last_success_run, max(last_finished_at) AS last_finished_at,
         (max(ARRAY[to_char(last_finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), last_run::text]))[2] AS last_run_id
    FROM counted GROUP BY job_id),
     s AS (
  SELECT job_id, succeeded, failed, cancelled, skipped, last_success_at, last_failure_at, last_success_run::text, last_finished_at, last_run_id::text FROM job_stats)
SELECT coalesce(s.job_id, r.job_id)::text, coalesce(r::text, 'null'), coalesce(s::text, 'null')
  FROM r FULL JOIN s USING (job_id) WHERE r IS DISTINCT FROM s`

func (c *checker) stats(ctx context.Context) error {
	return inTx(ctx, c.store.Pool(), pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		for table, sql := range map[string]string{"job_stats": checkStats, "queue_stats": checkDepths} {
			drift, err := queryRows(ctx, tx, func(row pgx.CollectableRow) (Drift, error) {
				diff := Difference{Column: "all"}
				d := Drift{Table: table, What: "differs"}
				err := row.Scan(&d.Key, &diff.Log, &diff.Table)
				d.Differences = []Difference{diff}
				return d, err
			}, sql)
			if err != nil {
				return err
			}
			for _, d := range drift {
				c.report.add(d)
			}
		}
		return nil
	})
}
