package judge

import (
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// Settings are what the system was told, and what is expected of it.
type Settings struct {
	Name           string        `json:"name"`
	Seed           int           `json:"seed"`
	DispatchLease  time.Duration `json:"dispatch_lease"`
	ExecutionLease time.Duration `json:"execution_lease"`
	MaxDeliver     int           `json:"max_deliver"`
	// Once all works again, each run ends within the longer lease, a pass of the
	// reaper and the margin, in which it is retried and executed.
	Reap   time.Duration `json:"reap"`
	Margin time.Duration `json:"margin"`
	// While nothing is wrong a run starts within Late of its time.
	Late time.Duration `json:"late"`
	// How far the database's clock may be from that of the witnesses.
	Clock time.Duration `json:"clock"`
	// When all faults were over; zero: they have not been told apart from the rest.
	Healed time.Time `json:"healed,omitzero"`
	// Answers to a COMMIT that the database gave and nobody got.
	CommitsLost int `json:"commits_lost,omitempty"`
}

// slack is how far apart the clocks of witnesses on one machine may be, the time
// between an act and its note included.
const slack = time.Second

func (s Settings) slack() time.Duration { return max(slack, s.Clock) }

// Bound is how long after everything works again the last run ends.
func (s Settings) Bound() time.Duration {
	return max(s.DispatchLease, s.ExecutionLease) + s.Reap + s.Margin
}

// times checks that runs start and end in time.
func (h History) times(l *log, v *Violations) {
	jobs := h.jobsByID()
	s := h.Settings
	for _, r := range l.runs {
		ready := r.events[0].at
		if due := r.ScheduledAt; due.After(ready) {
			ready = due
		}
		j := jobs[r.JobID]
		free := j.Overlap == domain.OverlapAllow && j.Limit == 0
		if s.Late > 0 && free && !r.first.IsZero() && r.first.Sub(r.ScheduledAt) > s.Late && !h.troubled(r.ScheduledAt, r.first) {
			v.add("late", "run %s of job %s, due at %s, started at %s", r.ID, r.Job, r.ScheduledAt, r.first)
		}
		if s.Healed.IsZero() || !r.State.Terminal() {
			continue
		}
		from := s.Healed
		if ready.After(from) {
			from = ready
		}
		if end := r.events[len(r.events)-1].at; end.Sub(from) > s.Bound()+max(0, s.Clock) {
			v.add("slow recovery", "run %s of job %s ended at %s, %s after all worked again; at most %s are allowed", r.ID, r.Job, end, end.Sub(from).Round(time.Millisecond), s.Bound())
		}
	}
}

// troubled reports whether a fault, or what is left of one, lies in the time.
func (h History) troubled(from, until time.Time) bool {
	for _, f := range h.Faults {
		w := f.Window
		w.Until = w.Until.Add(h.Settings.Bound())
		if w.meets(from, until, slack) {
			return true
		}
	}
	return false
}

// tail checks what a reader got who followed the log all the while: every event
// one time, those of a stream in their order.
func (h History) tail(l *log, v *Violations) {
	if h.Tail == nil {
		return
	}
	last := map[uuid.UUID]int{}
	n := 0
	for _, p := range h.Tail {
		if p.Version != last[p.Stream]+1 {
			v.add("tail", "stream %s: version %d was read after version %d", p.Stream, p.Version, last[p.Stream])
		}
		last[p.Stream] = p.Version
		n++
	}
	if n != len(h.Events) {
		v.add("tail", "%d events were read, the log has %d", n, len(h.Events))
	}
}
