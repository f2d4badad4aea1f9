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

// trafficCheck is where the follower was when a check began.
type trafficCheck struct {
	at     checkpoint
	floors floors
}

func (c *checker) place(ctx context.Context) (at checkpoint, err error) {
	err = c.store.Pool().QueryRow(ctx, "SELECT cursor FROM checkpoints WHERE name = $1", c.report.Projection).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return at, nil
	}
	return at, err
}

func (c *checker) beginTraffic(ctx context.Context) (began trafficCheck, err error) {
	if began.at, err = c.place(ctx); err != nil {
		return began, err
	}
	if began.floors, err = scanFloors(c.store.Pool().QueryRow(ctx, statsBegin)); err != nil {
		return began, err
	}
	const meanwhile = 3600 // old buckets may go while this is compared
	for _, f := range []*int64{&began.floors.laneMinutes, &began.floors.jobMinutes, &began.floors.laneHours, &began.floors.jobDays} {
		*f += meanwhile
	}
	c.traffic.floors = began.floors
	return began, nil
}

func (c *checker) compareTraffic(ctx context.Context, began trafficCheck) error {
	const longestTransaction = 2 * time.Minute
	now, err := c.place(ctx)
	if err != nil {
		return err
	}
	end := int64(math.MaxInt64)
	switch {
	case began.at.Scan != nil || now.Scan != nil:
		return nil // tables are being filled, in another order than that of time
	case began.at.Applied != now.Applied:
		end = began.at.Through.Add(-longestTransaction).Unix()
	}
	t, f, flows := c.traffic, began.floors, strings.Join(flowColumns, ", ")
	sameFlow := func(a, b *Flow) bool { return *a == *b }
	sameCount := func(a, b int64) bool { return a == b }
	return errors.Join(
		compareSums(ctx, c, laneMinutes, "queue, kind, "+flows, f.laneMinutes, end, t.lanes, sameFlow,
			func(row pgx.CollectableRow, at *time.Time) (k laneBucket, v *Flow, err error) {
				v = &Flow{}
				return k, v, row.Scan(append([]any{at, &k.queue, &k.kind}, v.pointers()...)...)
			}, func(k *laneBucket) (string, *int64) { return k.queue + "/" + k.kind, &k.at }),
		compareSums(ctx, c, jobMinutes, "job_id, "+flows, f.jobMinutes, end, t.jobs, sameFlow,
			func(row pgx.CollectableRow, at *time.Time) (k jobBucket, v *Flow, err error) {
				v = &Flow{}
				return k, v, row.Scan(append([]any{at, (*[16]byte)(&k.job)}, v.pointers()...)...)
			}, func(k *jobBucket) (string, *int64) { return k.job.String(), &k.at }),
		compareSums(ctx, c, laneHours, "queue, kind, measure, step, n", f.laneHours, end, t.laneSpans, sameCount,
			func(row pgx.CollectableRow, at *time.Time) (k laneSpan, v int64, err error) {
				err = row.Scan(at, &k.queue, &k.kind, &k.measure, &k.step, &v)
				return k, v, err
			}, func(k *laneSpan) (string, *int64) {
				return fmt.Sprintf("%s/%s %s step %d", k.queue, k.kind, k.measure, k.step), &k.at
			}),
		compareSums(ctx, c, jobDays, "job_id, measure, step, n", f.jobDays, end, t.jobSpans, sameCount,
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
func compareSums[K comparable, V any](ctx context.Context, c *checker, b buckets, columns string, from, end int64, counted map[K]V,
	same func(a, b V) bool, scan func(pgx.CollectableRow, *time.Time) (K, V, error), name func(*K) (string, *int64)) error {
	closed := func(at int64) bool { return at <= end-int64(b.width/time.Second) }
	drift := func(k K, log, table any) {
		text, at := name(&k)
		d := Drift{Table: b.table, Key: text + " " + time.Unix(*at, 0).UTC().Format(time.RFC3339), What: "differs"}
		d.Differences = []Difference{{Column: "all", Log: fmt.Sprintf("%+v", log), Table: fmt.Sprintf("%+v", table)}}
		c.report.add(d)
	}
	err := inTx(ctx, c.store.Pool(), pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, "SELECT "+b.column+", "+columns+" FROM "+b.table+" WHERE "+b.column+" >= $1", time.Unix(from, 0))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var at time.Time
			k, have, err := scan(rows, &at)
			if err != nil {
				return err
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
		return rows.Err()
	})
	if err != nil {
		return fmt.Errorf("%s: %w", b.table, err)
	}
	for k, want := range counted {
		if _, at := name(&k); closed(*at) {
			drift(k, want, "nothing")
		}
	}
	return nil
}
