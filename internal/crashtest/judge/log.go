package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// log is the log by streams.
type log struct {
	runs map[uuid.UUID]*run
	jobs map[uuid.UUID]*job

	byJob map[uuid.UUID][]*run
}

// run is a stream with what the fold does not keep.
type run struct {
	domain.Run
	events   []event
	starts   int
	first    time.Time // of the starts
	crashes  int       // started claims that neither their worker's outcome nor its release ended
	refunds  int
	releases int
}

type job struct {
	domain.Job
	events []event
}

type event struct {
	domain.Event
	at       time.Time
	position int64
	version  int
}

// readLog folds the streams: legal paths, versions without gaps, nothing after
// the end. EvolveRun and EvolveJob are the product's own, and they are what is
// relied on for what a legal path is.
//
// The clock is how far the database's may have gone back: an event is then dated
// like the one before it, and not when it happened.
func readLog(events []eventstore.Recorded, clock time.Duration, v *Violations) *log {
	l := &log{runs: map[uuid.UUID]*run{}, jobs: map[uuid.UUID]*job{}, byJob: map[uuid.UUID][]*run{}}
	claims := map[uuid.UUID]uuid.UUID{}
	positions := map[int64]bool{}
	for _, rec := range events {
		e, err := rec.Event()
		if err != nil {
			v.add("undecodable", "stream %s version %d: %v", rec.StreamID, rec.Version, err)
			continue
		}
		if positions[rec.Position] {
			v.add("position twice", "position %d", rec.Position)
		}
		positions[rec.Position] = true
		ev := event{e, rec.At, rec.Position, rec.Version}
		switch e := e.(type) {
		case domain.RunEvent:
			if l.runs[rec.StreamID] == nil {
				l.runs[rec.StreamID] = &run{Run: domain.Run{ID: rec.StreamID}}
			}
			l.runs[rec.StreamID].append(e, ev, rec.Version, clock, v)
			if c, ok := e.(domain.RunClaimed); ok {
				if other, twice := claims[c.ClaimID]; twice {
					v.add("claim id twice", "claim %s of runs %s and %s", c.ClaimID, other, rec.StreamID)
				}
				claims[c.ClaimID] = rec.StreamID
			}
		case domain.JobEvent:
			j := l.jobs[rec.StreamID]
			if j == nil {
				j = &job{Job: domain.Job{ID: rec.StreamID}}
				l.jobs[rec.StreamID] = j
			}
			order(rec.StreamID, j.Version, rec.Version, j.events, ev, v)
			next, err := domain.EvolveJob(j.Job, e, rec.At)
			if err != nil {
				v.add("illegal path", "%v", err)
			}
			j.Job, j.events = next, append(j.events, ev)
		}
	}
	for _, r := range l.runs {
		l.byJob[r.JobID] = append(l.byJob[r.JobID], r)
	}
	return l
}

func order(stream uuid.UUID, have, version int, before []event, e event, v *Violations) {
	if version != have+1 {
		v.add("version gap", "stream %s: version %d after %d", stream, version, have)
	}
	if len(before) == 0 {
		return
	}
	last := before[len(before)-1]
	if e.position <= last.position {
		v.add("order", "stream %s version %d: position %d after %d", stream, version, e.position, last.position)
	}
	if e.at.Before(last.at) {
		v.add("time back", "stream %s version %d: %s after %s", stream, version, e.at, last.at)
	}
}

func (r *run) append(e domain.RunEvent, ev event, version int, clock time.Duration, v *Violations) {
	order(r.ID, r.Version, version, r.events, ev, v)
	before := r.Run
	next, err := domain.EvolveRun(r.Run, e, ev.at)
	if err != nil {
		v.add("illegal path", "%v", err)
	}
	r.Run, r.events = next, append(r.events, ev)
	switch e := e.(type) {
	case domain.RunStarted:
		if r.starts++; r.starts == 1 {
			r.first = ev.at
		}
		if !before.LeaseUntil.Add(clock).After(ev.at) {
			v.add("late start", "run %s version %d: started at %s, its lease ended at %s", r.ID, version, ev.at, before.LeaseUntil)
		}
	case domain.RunReleased:
		r.releases++
		r.expiry(e.Op, before, ev, v)
	case domain.RunInterrupted:
		r.refunds++
	case domain.RunRetryScheduled:
		r.crashes++
		r.expiry(e.Op, before, ev, v)
	case domain.RunFailed:
		r.crashes++
		r.expiry(e.Op, before, ev, v)
	case domain.RunClaimed:
		if ev.at.Before(before.ReadyAt) {
			v.add("early claim", "run %s version %d: claimed at %s, ready at %s", r.ID, version, ev.at, before.ReadyAt)
		}
	case domain.RunScheduled, domain.RunSnoozed, domain.RunCancelRequested, domain.RunSucceeded, domain.RunCancelled, domain.RunSkipped:
	}
}

// expiry checks that no lease was cut short. The log has the lease as it was
// granted; renewals, which are no events, only make it longer.
func (r *run) expiry(op domain.Op, before domain.Run, ev event, v *Violations) {
	if op == domain.OpExpire && ev.at.Before(before.LeaseUntil) {
		v.add("early expiry", "run %s: claim %s closed at %s, its lease ended at %s or later", r.ID, before.ClaimID, ev.at, before.LeaseUntil)
	}
}

// sorted gives the runs in the order of their first events.
func (l *log) sorted() []*run {
	all := make([]*run, 0, len(l.runs))
	for _, r := range l.runs {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *run) int { return cmp.Compare(a.events[0].position, b.events[0].position) })
	return all
}
