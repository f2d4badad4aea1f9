package retention

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// month is what a pass over the events of a month, in the order of their
// streams, learns of it.
type month struct {
	events, runs int64
	newest       time.Time
	position     int64
	era          int
	xid          uint64 // the highest in that era

	run  domain.Run // the stream under way
	jobs map[uuid.UUID]*jobMonth
}

// jobMonth is a job's part of it. Ranges are kept small: there can be as many as
// runs.
type jobMonth struct {
	name                                         string
	runs, slots                                  int
	succeeded, failed, cancelled, skipped        int
	lastSuccessAt, lastFailureAt, lastFinishedAt time.Time
	lastSuccessRun, lastRun                      uuid.UUID
	skips, backfills                             ranges
}

// stays says why a month must.
func stays(format string, args ...any) error {
	return &eventstore.NotRetiredError{Why: fmt.Sprintf(format, args...)}
}

func (m *month) add(rec eventstore.Stored) error {
	if rec.StreamID != m.run.ID {
		if err := m.end(); err != nil {
			return err
		}
		m.run = domain.Run{ID: rec.StreamID}
	}
	e, err := rec.Event()
	if err != nil {
		return stays("run %s version %d cannot be read: %v", rec.StreamID, rec.Version, err)
	}
	re, ok := e.(domain.RunEvent)
	if !ok {
		return stays("run %s version %d: %s is no event of a run", rec.StreamID, rec.Version, rec.Type)
	}
	if m.run, err = domain.EvolveRun(m.run, re, rec.At); err != nil {
		return stays("run %s is damaged: %v", rec.StreamID, err)
	}
	m.events++
	m.position = max(m.position, rec.Position)
	if rec.At.After(m.newest) {
		m.newest = rec.At
	}
	if c := cmp.Compare(rec.Era, m.era); c > 0 || c == 0 && rec.XID > m.xid {
		m.era, m.xid = rec.Era, rec.XID
	}
	return nil
}

func (m *month) job(id uuid.UUID) *jobMonth {
	j := m.jobs[id]
	if j == nil {
		j = &jobMonth{}
		m.jobs[id] = j
	}
	return j
}

// end closes the stream under way.
func (m *month) end() error {
	r := m.run
	if r.ID == uuid.Nil {
		return nil
	}
	if !r.State.Terminal() {
		return stays("run %s is %s", r.ID, r.State)
	}
	m.runs++
	if m.jobs != nil {
		m.job(r.JobID).add(r)
	}
	return nil
}

func (j *jobMonth) add(r domain.Run) {
	at := r.ChangedAt // of the last event
	j.name = r.Job
	j.runs++
	skipped := ""
	switch r.State {
	case domain.Succeeded:
		j.succeeded++
		j.lastSuccessAt = latest(j.lastSuccessAt, at)
		j.lastSuccessRun = r.ID // ids come in their order
	case domain.Failed:
		j.failed++
		j.lastFailureAt = latest(j.lastFailureAt, at)
	case domain.Cancelled:
		j.cancelled++
	case domain.Skipped:
		j.skipped++
		skipped = string(domain.Skipped)
		if e, ok := r.Final.(domain.RunSkipped); ok {
			skipped = cmp.Or(e.Reason, skipped)
		}
	case domain.Pending, domain.Claimed, domain.Running:
	}
	if !at.Before(j.lastFinishedAt) {
		j.lastFinishedAt, j.lastRun = at, r.ID
	}
	if r.Origin != domain.OriginSchedule && r.Origin != domain.OriginBackfill {
		return
	}
	j.slots++
	j.skips.add(r.ScheduledAt, skipped)
	backfilled := ""
	if r.Origin == domain.OriginBackfill {
		backfilled = string(r.Origin)
	}
	j.backfills.add(r.ScheduledAt, backfilled)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// ranges are runs of slots, one after the other, that have the same mark. An
// empty mark is none.
type ranges struct {
	all  []markedRange
	mark string // of the last slot
}

type markedRange struct {
	from, to time.Time
	count    int
	mark     string
}

func (r *ranges) add(at time.Time, mark string) {
	before := r.mark
	r.mark = mark
	switch {
	case mark == "":
	case mark == before:
		last := &r.all[len(r.all)-1]
		last.count++
		last.to = latest(last.to, at)
	default:
		r.all = append(r.all, markedRange{at, at, 1, mark})
	}
}

func (r *ranges) take(n int, reason bool) (out []domain.RetiredRange) {
	for _, x := range r.all[:min(n, len(r.all))] {
		one := domain.RetiredRange{From: x.from, To: x.to, Count: x.count}
		if reason {
			one.Reason = x.mark
		}
		out = append(out, one)
	}
	r.all = r.all[len(out):]
	return out
}

// rangesAnEvent bounds an event of many ranges.
const rangesAnEvent = 500

// retired makes the events of the job. It uses the ranges up.
func (j *jobMonth) retired(x eventstore.RetiredMonth) []domain.RunsRetired {
	head := domain.RunsRetired{Month: x.Name(), File: x.File, SHA256: x.SHA256}
	var out []domain.RunsRetired
	for {
		e := head
		e.Skips = j.skips.take(rangesAnEvent, true)
		e.Backfills = j.backfills.take(rangesAnEvent-len(e.Skips), false)
		if len(j.skips.all)+len(j.backfills.all) == 0 {
			e.Last, e.Job, e.Runs, e.Slots = true, j.name, j.runs, j.slots
			e.Succeeded, e.Failed, e.Cancelled, e.Skipped = j.succeeded, j.failed, j.cancelled, j.skipped
			e.LastSuccessAt, e.LastFailureAt, e.LastFinishedAt = at(j.lastSuccessAt), at(j.lastFailureAt), at(j.lastFinishedAt)
			if j.succeeded > 0 {
				e.LastSuccessRun = &j.lastSuccessRun
			}
			e.LastRun = &j.lastRun
			return append(out, e)
		}
		out = append(out, e)
	}
}

func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// sorted are the month's jobs in an order that is always the same.
func (m *month) sorted() []uuid.UUID {
	return slices.SortedFunc(maps.Keys(m.jobs), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
}
