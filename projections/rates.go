package projections

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// StatsFilter says of what and of when. Either a job, or a queue, a kind, both or
// neither: all of them together.
type StatsFilter struct {
	Job, Queue, Kind string

	From, To time.Time     // zero: the last hour up to now, or before To
	Step     time.Duration // of rates: whole minutes; 0 means one
}

// MaxPoints is how many steps rates may be asked for at once.
const MaxPoints = 1500

// Rates are what happened in each step of a time, as events are dated.
type Rates struct {
	Job   string          `json:"job,omitempty"`
	Queue string          `json:"queue,omitempty"`
	Kind  string          `json:"kind,omitempty"`
	From  time.Time       `json:"from"` // not before what is kept
	To    time.Time       `json:"to"`   // excluded; whole steps
	Step  domain.Duration `json:"step"`
	Total Flow            `json:"total"`
	Rates []Rate          `json:"rates"` // those in which something happened
}

// Rate is a step, named by its beginning.
type Rate struct {
	At time.Time `json:"at"`
	Flow
}

// Durations are how long attempts waited and ran.
type Durations struct {
	Job   string       `json:"job,omitempty"`
	Queue string       `json:"queue,omitempty"`
	Kind  string       `json:"kind,omitempty"`
	From  time.Time    `json:"from"` // whole hours, of a job whole days in UTC; not before what is kept
	To    time.Time    `json:"to"`   // excluded
	Wait  Distribution `json:"wait"` // from ready to start, of attempts that started in that time
	Run   Distribution `json:"run"`  // from start to end, of attempts that ended in that time
}

// Distribution counts durations in ranges whose ends are 1 ms, 2 ms, 4 ms and so
// on. A percentile is only known to lie in one of them.
type Distribution struct {
	Count        int64  `json:"count"`
	P50Estimate  *Range `json:"p50_estimate,omitempty"`
	P90Estimate  *Range `json:"p90_estimate,omitempty"`
	P99Estimate  *Range `json:"p99_estimate,omitempty"`
	Distribution []Bin  `json:"distribution"`
}

// Range is where a duration lies.
type Range struct {
	Above  domain.Duration  `json:"above"`
	AtMost *domain.Duration `json:"at_most,omitempty"` // absent: there is no bound
}

// Bin is a range and how many attempts are in it.
type Bin struct {
	Range
	Attempts int64 `json:"attempts"`
}

func rangeOf(step int16) (r Range) {
	if step > 0 {
		r.Above = domain.Duration(time.Millisecond << (step - 1))
	}
	if step < lastStep {
		r.AtMost = new(domain.Duration(time.Millisecond << step))
	}
	return r
}

func (d *Distribution) percentile(p float64) *Range {
	rank, seen := int64(math.Ceil(p*float64(d.Count))), int64(0)
	for _, b := range d.Distribution {
		if seen += b.Attempts; seen >= rank {
			return new(b.Range)
		}
	}
	return nil
}

// scope is where a question is answered: the table, and a condition whose
// parameters follow two for the time.
func (f StatsFilter) scope(lanes, jobs buckets) (b buckets, where string, args []any, err error) {
	if f.Job == "" {
		return lanes, "($3 = '' OR queue = $3) AND ($4 = '' OR kind = $4)", []any{f.Queue, f.Kind}, nil
	}
	if f.Queue != "" || f.Kind != "" {
		return b, "", nil, &FilterError{"job", "cannot be combined with a queue or kind: the numbers are kept by job or by queue and kind"}
	}
	return jobs, "job_id = $3", []any{jobID(f.Job)}, nil
}

// window is the time in whole steps, from what is kept on.
func (r *Reader) window(ctx context.Context, f StatsFilter, b buckets, step time.Duration) (from, to time.Time, err error) {
	kept, err := scanKept(r.store.Pool().QueryRow(ctx, statsBegin))
	if err != nil {
		return from, to, err
	}
	from, to = f.From, f.To
	if to.IsZero() {
		to = kept.now
	}
	if from.IsZero() {
		from = to.Add(-time.Hour)
	}
	if !from.Before(to) {
		return from, to, &FilterError{"to", fmt.Sprintf("%s is not after from, %s", to.UTC().Format(time.RFC3339Nano), from.UTC().Format(time.RFC3339Nano))}
	}
	wider := func(t time.Time) time.Time { return t.UTC().Add(b.width - 1).Truncate(b.width) }
	// The bucket that what is kept begins in is not whole.
	from = maxTime(from.UTC().Truncate(b.width), wider(kept.since(b)))
	to = wider(to)
	if rest := to.Sub(from) % step; rest > 0 {
		to = to.Add(step - rest)
	}
	return from, maxTime(from, to), nil
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Rates tells what happened minute by minute, or in longer steps. The error is a
// *FilterError if the question makes no sense.
func (r *Reader) Rates(ctx context.Context, f StatsFilter) (out Rates, err error) {
	b, where, args, err := f.scope(laneMinutes, jobMinutes)
	if err != nil {
		return out, err
	}
	step := f.Step
	if step == 0 {
		step = b.width
	}
	if step < b.width || step%b.width != 0 {
		return out, &FilterError{"step", fmt.Sprintf("%s is not in whole minutes", step)}
	}
	out = Rates{Job: f.Job, Queue: f.Queue, Kind: f.Kind, Step: domain.Duration(step), Rates: []Rate{}}
	if out.From, out.To, err = r.window(ctx, f, b, step); err != nil {
		return out, err
	}
	if n := out.To.Sub(out.From) / step; n > MaxPoints {
		return out, &FilterError{"step", fmt.Sprintf("%s from %s to %s are %d steps, want at most %d: choose longer ones", step, out.From.Format(time.RFC3339), out.To.Format(time.RFC3339), n, MaxPoints)}
	}
	// Index: lane_minutes_pkey or job_minutes_pkey, the minutes asked for.
	sql := "SELECT date_bin(make_interval(secs => $" + fmt.Sprint(len(args)+3) + "), minute, $1)"
	for _, c := range flowColumns {
		sql += ", sum(" + c + ")::bigint"
	}
	sql += " FROM " + b.table + " WHERE minute >= $1 AND minute < $2 AND " + where + " GROUP BY 1 ORDER BY 1"
	rows, err := r.store.Pool().Query(ctx, sql, append(append([]any{out.From, out.To}, args...), step.Seconds())...)
	if err != nil {
		return out, fmt.Errorf("read rates: %w", err)
	}
	out.Rates, err = pgx.AppendRows(out.Rates, rows, func(row pgx.CollectableRow) (p Rate, err error) {
		err = row.Scan(append([]any{&p.At}, p.pointers()...)...)
		p.At = p.At.UTC()
		return p, err
	})
	if err != nil {
		return out, fmt.Errorf("read rates: %w", err)
	}
	total := out.Total.numbers()
	for i := range out.Rates {
		for j, n := range out.Rates[i].numbers() {
			*total[j] += *n
		}
	}
	return out, nil
}

// Durations tells how long attempts waited and ran. The error is a *FilterError
// if the question makes no sense.
func (r *Reader) Durations(ctx context.Context, f StatsFilter) (out Durations, err error) {
	b, where, args, err := f.scope(laneHours, jobDays)
	if err != nil {
		return out, err
	}
	out = Durations{Job: f.Job, Queue: f.Queue, Kind: f.Kind, Wait: Distribution{Distribution: []Bin{}}, Run: Distribution{Distribution: []Bin{}}}
	if out.From, out.To, err = r.window(ctx, f, b, b.width); err != nil {
		return out, err
	}
	// Index: lane_durations_pkey or job_durations_pkey, the hours or days asked for.
	sql := fmt.Sprintf("SELECT measure, step, sum(n)::bigint FROM %s WHERE %[2]s >= $1 AND %[2]s < $2 AND %s GROUP BY 1, 2 ORDER BY 1, 2", b.table, b.column, where)
	rows, err := r.store.Pool().Query(ctx, sql, append([]any{out.From, out.To}, args...)...)
	if err != nil {
		return out, fmt.Errorf("read durations: %w", err)
	}
	var measure string
	var n int16
	var attempts int64
	_, err = pgx.ForEachRow(rows, []any{&measure, &n, &attempts}, func() error {
		d := &out.Run
		if measure == measureWait {
			d = &out.Wait
		}
		d.Count += attempts
		d.Distribution = append(d.Distribution, Bin{rangeOf(n), attempts})
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("read durations: %w", err)
	}
	for _, d := range []*Distribution{&out.Wait, &out.Run} {
		d.P50Estimate, d.P90Estimate, d.P99Estimate = d.percentile(0.5), d.percentile(0.9), d.percentile(0.99)
	}
	return out, nil
}

// Depth is how many runs of a lane are in each state, as the read models have it.
type Depth struct {
	Queue         string     `json:"queue"`
	Kind          string     `json:"kind"`
	Pending       int64      `json:"pending"` // due, not due, or set aside for a place
	Claimed       int64      `json:"claimed"`
	Running       int64      `json:"running"`
	OldestReadyAt *time.Time `json:"oldest_ready_at,omitempty"` // of the pending ones; in the future if none is due
	NoWorkers     bool       `json:"no_workers"`                // none that declares the lane was heard of lately, and something is pending
}

// Index: queue_stats_pkey, a row a lane; run_summaries_pending, one row a lane,
// written as a row of its columns for the reasons given in list.go; the workers
// are few.
const selectDepths = `
SELECT q.queue, q.kind, q.pending, q.claimed, q.running, CASE WHEN q.pending > 0 THEN (
         SELECT CASE WHEN (r.queue, r.kind) = (q.queue, q.kind) THEN r.ready_at END FROM run_summaries r
          WHERE r.state = 'pending' AND (r.queue, r.kind, r.ready_at) >= (q.queue, q.kind, '-infinity') ORDER BY r.queue, r.kind, r.ready_at LIMIT 1) END,
       q.pending > 0 AND NOT EXISTS (SELECT FROM workers w, jsonb_to_recordset(w.lanes) AS l(queue text, kind text)
          WHERE w.seen_at > now() - $1::interval AND l.queue = q.queue AND l.kind = q.kind)
  FROM queue_stats q WHERE (q.pending, q.claimed, q.running) <> (0, 0, 0) ORDER BY q.queue, q.kind`

// Depths gives the lanes in which something is pending or in hand. It costs the
// same however much that is, and is as old as [Reader.Lag] tells.
func (r *Reader) Depths(ctx context.Context) ([]Depth, error) {
	rows, err := r.store.Pool().Query(ctx, selectDepths, eventstore.Silence)
	if err != nil {
		return nil, fmt.Errorf("read depths: %w", err)
	}
	out, err := pgx.AppendRows([]Depth{}, rows, func(row pgx.CollectableRow) (Depth, error) {
		d, err := pgx.RowToStructByPos[Depth](row)
		d.OldestReadyAt = inUTC(d.OldestReadyAt)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("read depths: %w", err)
	}
	return out, nil
}
