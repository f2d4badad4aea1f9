package projections

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Depths are compared with the runs, in one snapshot, as job_stats are. A lane
// in which nothing is left need not have a row. Index: run_summaries_state.
const checkDepths = `
WITH r AS (
  SELECT queue, kind, count(*) FILTER (WHERE state = 'pending') AS pending, count(*) FILTER (WHERE state = 'claimed') AS claimed, count(*) FILTER (WHERE state = 'running') AS running
    FROM run_summaries WHERE state IN ('pending', 'claimed', 'running') GROUP BY queue, kind),
     s AS (SELECT queue, kind, pending, claimed, running FROM queue_stats WHERE (pending, claimed, running) <> (0, 0, 0))
SELECT coalesce(s.queue, r.queue) || '/' || coalesce(s.kind, r.kind), coalesce(r::text, 'null'), coalesce(s::text, 'null')
  FROM r FULL JOIN s USING (queue, kind) WHERE r IS DISTINCT FROM s`

// A check takes its time, and the follower goes on. What it applies meanwhile is
// of the last minutes: an event is dated with the beginning of a transaction, and
// none is open for two minutes. Buckets that had ended before are compared, and
// if nothing came at all those that are under way, too.

func (c *checker) place(ctx context.Context, db querier) (at checkpoint, err error) {
	err = db.QueryRow(ctx, "SELECT cursor FROM checkpoints WHERE name = $1", c.report.Projection).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return at, nil
	}
	return at, err
}

// beginTraffic returns where the follower is when the check begins.
func (c *checker) beginTraffic(ctx context.Context) (began checkpoint, err error) {
	if began, err = c.place(ctx, c.store.Pool()); err != nil {
		return began, err
	}
	c.traffic.floors, err = scanFloors(c.store.Pool().QueryRow(ctx, statsBegin))
	return began, err
}

func (c *checker) compareTraffic(ctx context.Context, began checkpoint) error {
	return c.oneSnapshot(ctx, []string{laneMinutes.table, jobMinutes.table, laneHours.table, jobDays.table}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		now, err := c.place(ctx, tx)
		if err != nil {
			return err
		}
		// What is kept now may be less than when the check began. The transaction's
		// time is older than its snapshot, before which more may have gone.
		kept, err := scanFloors(tx.QueryRow(ctx, statsBegin))
		if err != nil {
			return err
		}
		const waited = 60
		for _, f := range []*int64{&kept.laneMinutes, &kept.jobMinutes, &kept.laneHours, &kept.jobDays} {
			*f += waited
		}
		return c.compareTables(ctx, tx, began, now, kept)
	})
}

func (c *checker) compareTables(ctx context.Context, tx pgx.Tx, began, now checkpoint, f floors) error {
	const longestTransaction = 2 * time.Minute
	end := int64(math.MaxInt64)
	switch {
	case began.Scan != nil || now.Scan != nil:
		return nil // tables are being filled, in another order than that of time
	case began.Applied != now.Applied:
		end = began.Through.Add(-longestTransaction).Unix()
	}
	t, flows := c.traffic, strings.Join(flowColumns, ", ")
	sameFlow := func(a, b *Flow) bool { return *a == *b }
	sameCount := func(a, b int64) bool { return a == b }
	return errors.Join(
		compareSums(ctx, c, tx, laneMinutes, "queue, kind, "+flows, f.laneMinutes, end, t.lanes, sameFlow,
			func(row pgx.CollectableRow, at *time.Time) (k laneBucket, v *Flow, err error) {
				v = &Flow{}
				return k, v, row.Scan(append([]any{at, &k.queue, &k.kind}, v.pointers()...)...)
			}, func(k *laneBucket) (string, *int64) { return k.queue + "/" + k.kind, &k.at }),
		compareSums(ctx, c, tx, jobMinutes, "job_id, "+flows, f.jobMinutes, end, t.jobs, sameFlow,
			func(row pgx.CollectableRow, at *time.Time) (k jobBucket, v *Flow, err error) {
				v = &Flow{}
				return k, v, row.Scan(append([]any{at, (*[16]byte)(&k.job)}, v.pointers()...)...)
			}, func(k *jobBucket) (string, *int64) { return k.job.String(), &k.at }),
		compareSums(ctx, c, tx, laneHours, "queue, kind, measure, step, n", f.laneHours, end, t.laneSpans, sameCount,
			func(row pgx.CollectableRow, at *time.Time) (k laneSpan, v int64, err error) {
				err = row.Scan(at, &k.queue, &k.kind, &k.measure, &k.step, &v)
				return k, v, err
			}, func(k *laneSpan) (string, *int64) {
				return fmt.Sprintf("%s/%s %s step %d", k.queue, k.kind, k.measure, k.step), &k.at
			}),
		compareSums(ctx, c, tx, jobDays, "job_id, measure, step, n", f.jobDays, end, t.jobSpans, sameCount,
			func(row pgx.CollectableRow, at *time.Time) (k jobSpan, v int64, err error) {
				err = row.Scan(at, (*[16]byte)(&k.job), &k.measure, &k.step, &v)
				return k, v, err
			}, func(k *jobSpan) (string, *int64) {
				return fmt.Sprintf("%s %s step %d", k.job, k.measure, k.step), &k.at
			}),
	)
}

// compareSums holds a table against what was counted, which it uses up: buckets
// that begin at from or later and have ended by end. Index: the table's on the
// bucket.
func compareSums[K comparable, V any](ctx context.Context, c *checker, tx pgx.Tx, b buckets, columns string, from, end int64, counted map[K]V,
	same func(a, b V) bool, scan func(pgx.CollectableRow, *time.Time) (K, V, error), name func(*K) (string, *int64)) error {
	closed := func(at int64) bool { return at <= end-int64(b.width/time.Second) }
	drift := func(k K, log, table any) {
		text, at := name(&k)
		d := Drift{Table: b.table, Key: text + " " + time.Unix(*at, 0).UTC().Format(time.RFC3339), What: "differs"}
		d.Differences = []Difference{{Column: "all", Log: fmt.Sprintf("%+v", log), Table: fmt.Sprintf("%+v", table)}}
		c.report.add(d)
	}
	rows, err := tx.Query(ctx, "SELECT "+b.column+", "+columns+" FROM "+b.table+" WHERE "+b.column+" >= $1", time.Unix(from, 0))
	if err != nil {
		return fmt.Errorf("%s: %w", b.table, err)
	}
	defer rows.Close()
	for rows.Next() {
		var at time.Time
		k, have, err := scan(rows, &at)
		if err != nil {
			return fmt.Errorf("%s: %w", b.table, err)
		}
		_, start := name(&k)
		*start = at.Unix()
		want, found := counted[k]
		delete(counted, k)
		switch {
		case !closed(at.Unix()) || found && same(want, have):
		case found:
			drift(k, want, have)
		default:
			drift(k, "nothing", have)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", b.table, err)
	}
	for k, want := range counted {
		if _, at := name(&k); *at >= from && closed(*at) {
			drift(k, want, "nothing")
		}
	}
	return nil
}
