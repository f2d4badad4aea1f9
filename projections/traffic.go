package projections

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/daybookhq/daybook/domain"
)

// Flow is how many events of each sort there were.
type Flow struct {
	Scheduled int64 `json:"scheduled"`
	Claimed   int64 `json:"claimed"`
	Started   int64 `json:"started"`
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"` // for good
	Cancelled int64 `json:"cancelled"`
	Skipped   int64 `json:"skipped"`
	Retried   int64 `json:"retried"`  // attempts that failed and are followed by another
	PutBack   int64 `json:"put_back"` // claims that were released, snoozed or interrupted
}

// flowColumns are the columns of a Flow, in the order of its numbers.
var flowColumns = []string{"scheduled", "claimed", "started", "succeeded", "failed", "cancelled", "skipped", "retried", "put_back"}

func (f *Flow) numbers() [9]*int64 {
	return [9]*int64{&f.Scheduled, &f.Claimed, &f.Started, &f.Succeeded, &f.Failed, &f.Cancelled, &f.Skipped, &f.Retried, &f.PutBack}
}

func (f *Flow) pointers() []any {
	out := make([]any, len(flowColumns))
	for i, n := range f.numbers() {
		out[i] = n
	}
	return out
}

func (f *Flow) count(e domain.RunEvent) {
	switch e.(type) {
	case domain.RunScheduled:
		f.Scheduled++
	case domain.RunClaimed:
		f.Claimed++
	case domain.RunStarted:
		f.Started++
	case domain.RunSucceeded:
		f.Succeeded++
	case domain.RunFailed:
		f.Failed++
	case domain.RunCancelled:
		f.Cancelled++
	case domain.RunSkipped:
		f.Skipped++
	case domain.RunRetryScheduled:
		f.Retried++
	case domain.RunReleased, domain.RunSnoozed, domain.RunInterrupted:
		f.PutBack++
	case domain.RunCancelRequested:
	}
}

// The durations that are measured of an attempt.
const (
	measureWait = "wait" // from when it was ready to its start
	measureRun  = "run"  // from its start to its end
)

// lastStep is that of everything above 2^40 ms, 34 years.
const lastStep = 41

// step is which range of durations one is in: 0 up to 1 ms, n up to 2^n ms.
func step(d time.Duration) int16 {
	if d <= time.Millisecond {
		return 0
	}
	ms := uint64((d + time.Millisecond - 1) / time.Millisecond)
	return int16(min(bits.Len64(ms-1), lastStep))
}

// traffic is what events add to the depths, rates and durations. Everything in it
// is a sum.
type traffic struct {
	depths    map[lane]*depth
	lanes     map[laneBucket]*Flow
	jobs      map[jobBucket]*Flow
	laneSpans map[laneSpan]int64
	jobSpans  map[jobSpan]int64
	floors    floors // what is older is not counted
}

type lane struct{ queue, kind string }

type depth struct{ pending, claimed, running int64 }

type laneBucket struct {
	lane
	at int64 // its beginning, in seconds
}

type jobBucket struct {
	job uuid.UUID
	at  int64
}

type laneSpan struct {
	laneBucket
	measure string
	step    int16
}

type jobSpan struct {
	jobBucket
	measure string
	step    int16
}

func newTraffic() *traffic {
	return &traffic{depths: map[lane]*depth{}, lanes: map[laneBucket]*Flow{}, jobs: map[jobBucket]*Flow{}, laneSpans: map[laneSpan]int64{}, jobSpans: map[jobSpan]int64{}}
}

// The widths of buckets, and how long they are kept.
const (
	oneDay = 24 * time.Hour

	// LaneMinutesKept is how far back the rates of queues go.
	LaneMinutesKept = 14 * oneDay
	// JobMinutesKept is how far back the rates of a job go.
	JobMinutesKept = 2 * oneDay
	// LaneHoursKept is how far back the durations of queues go, hour by hour.
	LaneHoursKept = 90 * oneDay
	// JobDaysKept is how far back the durations of a job go, day by day.
	JobDaysKept = 400 * oneDay
)

func bucket(at time.Time, width time.Duration) int64 { return at.Truncate(width).Unix() }

// event counts an event that was applied to a run; before is the run before it.
func (t *traffic) event(before attemptState, e domain.RunEvent, at time.Time, s *RunSummary) {
	l := lane{s.Queue, s.Kind}
	minute := bucket(at, time.Minute)
	if minute >= t.floors.laneMinutes {
		flowOf(t.lanes, laneBucket{l, minute}).count(e)
	}
	if minute >= t.floors.jobMinutes {
		flowOf(t.jobs, jobBucket{s.JobID, minute}).count(e)
	}
	switch e.(type) {
	case domain.RunStarted:
		t.span(l, s.JobID, measureWait, at, at.Sub(s.ReadyAt))
	case domain.RunCancelRequested:
	default:
		if before.state == domain.Running {
			t.span(l, s.JobID, measureRun, at, at.Sub(before.startedAt))
		}
	}
}

func (t *traffic) span(l lane, job uuid.UUID, measure string, at time.Time, d time.Duration) {
	n := step(d)
	if hour := bucket(at, time.Hour); hour >= t.floors.laneHours {
		t.laneSpans[laneSpan{laneBucket{l, hour}, measure, n}]++
	}
	if day := bucket(at, oneDay); day >= t.floors.jobDays {
		t.jobSpans[jobSpan{jobBucket{job, day}, measure, n}]++
	}
}

func flowOf[K comparable](m map[K]*Flow, k K) *Flow {
	f := m[k]
	if f == nil {
		f = &Flow{}
		m[k] = f
	}
	return f
}

// attemptState is what of a run tells whether an event ends an attempt.
type attemptState struct {
	state     domain.State
	startedAt time.Time
}

func (s *RunSummary) attemptState() attemptState {
	a := attemptState{state: s.State}
	if s.StartedAt != nil {
		a.startedAt = *s.StartedAt
	}
	return a
}

// moved counts a run that is in another state than before; "" is none.
func (t *traffic) moved(l lane, from, to domain.State) {
	d := t.depths[l]
	if d == nil {
		d = &depth{}
		t.depths[l] = d
	}
	d.add(from, -1)
	d.add(to, 1)
}

func (d *depth) add(s domain.State, n int64) {
	switch s {
	case domain.Pending:
		d.pending += n
	case domain.Claimed:
		d.claimed += n
	case domain.Running:
		d.running += n
	case domain.Succeeded, domain.Failed, domain.Cancelled, domain.Skipped:
	}
}

// buckets is a table of sums a span of time.
type buckets struct {
	table, column string
	width, keep   time.Duration
}

var (
	laneMinutes = buckets{"lane_minutes", "minute", time.Minute, LaneMinutesKept}
	jobMinutes  = buckets{"job_minutes", "minute", time.Minute, JobMinutesKept}
	laneHours   = buckets{"lane_durations", "hour", time.Hour, LaneHoursKept}
	jobDays     = buckets{"job_durations", "day", oneDay, JobDaysKept}
)

// statsBegin tells from when on tables of buckets are complete: as long as they
// are kept, and nothing that the log has let go of, since that cannot be counted
// again. Index: none; retired_months has a row a month.
const statsBegin = `SELECT now(), (SELECT coalesce(max(newest_at), '-infinity') FROM retired_months WHERE dropped_at IS NOT NULL)`

// kept is what statsBegin tells.
type kept struct{ now, low time.Time }

func scanKept(row pgx.Row) (k kept, err error) {
	var low pgtype.Timestamptz
	if err := row.Scan(&k.now, &low); err != nil {
		return k, fmt.Errorf("read from when on statistics are kept: %w", err)
	}
	if low.InfinityModifier == pgtype.Finite {
		k.low = low.Time
	}
	return k, nil
}

// since is later than what the table does not keep, in whole seconds.
func (k kept) since(b buckets) time.Time {
	at := k.now.Add(-b.keep)
	if k.low.After(at) {
		at = k.low
	}
	return at.Truncate(time.Second).Add(time.Second)
}

// floors are the first buckets that are kept, in seconds.
type floors struct{ laneMinutes, jobMinutes, laneHours, jobDays int64 }

func scanFloors(row pgx.Row) (floors, error) {
	k, err := scanKept(row)
	return floors{k.since(laneMinutes).Unix(), k.since(jobMinutes).Unix(), k.since(laneHours).Unix(), k.since(jobDays).Unix()}, err
}
