package projections

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// trafficSQL are the statements that add sums to the tables.
type trafficSQL struct{ depths, lanes, jobs, laneSpans, jobSpans string }

func newTrafficSQL(suffix string) trafficSQL {
	flowArrays := func(first int) string {
		arrays := make([]string, len(flowColumns))
		for i := range flowColumns {
			arrays[i] = fmt.Sprintf("$%d::bigint[]", first+i)
		}
		return strings.Join(arrays, ", ")
	}
	flows, sets := strings.Join(flowColumns, ", "), make([]string, len(flowColumns))
	for i, c := range flowColumns {
		sets[i] = c + " = s." + c + " + excluded." + c
	}
	sums := strings.Join(sets, ", ")
	return trafficSQL{
		// Index: queue_stats_pkey.
		depths: "INSERT INTO queue_stats" + suffix + " AS s (queue, kind, pending, claimed, running) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])" +
			" ON CONFLICT (queue, kind) DO UPDATE SET pending = s.pending + excluded.pending, claimed = s.claimed + excluded.claimed, running = s.running + excluded.running" +
			" WHERE (excluded.pending, excluded.claimed, excluded.running) <> (0, 0, 0)",
		// Index: lane_minutes_pkey.
		lanes: "INSERT INTO lane_minutes" + suffix + " AS s (minute, queue, kind, " + flows + ") SELECT * FROM unnest($1::timestamptz[], $2::text[], $3::text[], " + flowArrays(4) + ")" +
			" ON CONFLICT (minute, queue, kind) DO UPDATE SET " + sums,
		// Index: job_minutes_pkey.
		jobs: "INSERT INTO job_minutes" + suffix + " AS s (minute, job_id, " + flows + ") SELECT * FROM unnest($1::timestamptz[], $2::uuid[], " + flowArrays(3) + ")" +
			" ON CONFLICT (job_id, minute) DO UPDATE SET " + sums,
		// Index: lane_durations_pkey.
		laneSpans: "INSERT INTO lane_durations" + suffix + " AS s (hour, queue, kind, measure, step, n) SELECT * FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::bigint[])" +
			" ON CONFLICT (hour, queue, kind, measure, step) DO UPDATE SET n = s.n + excluded.n",
		// Index: job_durations_pkey.
		jobSpans: "INSERT INTO job_durations" + suffix + " AS s (day, job_id, measure, step, n) SELECT * FROM unnest($1::timestamptz[], $2::uuid[], $3::text[], $4::smallint[], $5::bigint[])" +
			" ON CONFLICT (job_id, day, measure, step) DO UPDATE SET n = s.n + excluded.n",
	}
}

// queue writes the sums, one statement a table.
func (t *traffic) queue(b *pgx.Batch, sql trafficSQL) {
	if len(t.depths) > 0 {
		var lanes laneColumns
		var pending, claimed, running []int64
		for l, d := range t.depths {
			lanes.add(l)
			pending, claimed, running = append(pending, d.pending), append(claimed, d.claimed), append(running, d.running)
		}
		b.Queue(sql.depths, lanes.queues, lanes.kinds, pending, claimed, running)
	}
	if len(t.lanes) > 0 {
		var at pgtype.FlatArray[pgtype.Timestamptz]
		var lanes laneColumns
		var flows flowArrays
		for k, f := range t.lanes {
			at = append(at, pgInstant(k.at))
			lanes.add(k.lane)
			flows.add(f)
		}
		b.Queue(sql.lanes, append([]any{at, lanes.queues, lanes.kinds}, flows.columns()...)...)
	}
	if len(t.jobs) > 0 {
		var at pgtype.FlatArray[pgtype.Timestamptz]
		var jobs pgtype.FlatArray[pgtype.UUID]
		var flows flowArrays
		for k, f := range t.jobs {
			at = append(at, pgInstant(k.at))
			jobs = append(jobs, pgID(&k.job))
			flows.add(f)
		}
		b.Queue(sql.jobs, append([]any{at, jobs}, flows.columns()...)...)
	}
	if len(t.laneSpans) > 0 {
		t.queueLaneSpans(b, sql.laneSpans)
	}
	if len(t.jobSpans) > 0 {
		t.queueJobSpans(b, sql.jobSpans)
	}
}

func (t *traffic) queueLaneSpans(b *pgx.Batch, sql string) {
	var at pgtype.FlatArray[pgtype.Timestamptz]
	var lanes laneColumns
	var measures []string
	var steps []int16
	var ns []int64
	for k, n := range t.laneSpans {
		at = append(at, pgInstant(k.at))
		lanes.add(k.lane)
		measures, steps, ns = append(measures, k.measure), append(steps, k.step), append(ns, n)
	}
	b.Queue(sql, at, lanes.queues, lanes.kinds, measures, steps, ns)
}

func (t *traffic) queueJobSpans(b *pgx.Batch, sql string) {
	var at pgtype.FlatArray[pgtype.Timestamptz]
	var jobs pgtype.FlatArray[pgtype.UUID]
	var measures []string
	var steps []int16
	var ns []int64
	for k, n := range t.jobSpans {
		at = append(at, pgInstant(k.at))
		jobs = append(jobs, pgID(&k.job))
		measures, steps, ns = append(measures, k.measure), append(steps, k.step), append(ns, n)
	}
	b.Queue(sql, at, jobs, measures, steps, ns)
}

func pgInstant(at int64) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: time.Unix(at, 0), Valid: true}
}

type laneColumns struct{ queues, kinds []string }

func (c *laneColumns) add(l lane) {
	c.queues, c.kinds = append(c.queues, l.queue), append(c.kinds, l.kind)
}

type flowArrays [9][]int64

func (a *flowArrays) add(f *Flow) {
	for i, n := range f.numbers() {
		a[i] = append(a[i], *n)
	}
}

func (a *flowArrays) columns() []any {
	out := make([]any, len(a))
	for i := range a {
		out[i] = a[i]
	}
	return out
}
