package judge

import (
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

func (h History) jobsByID() map[uuid.UUID]Job {
	jobs := make(map[uuid.UUID]Job, len(h.Jobs))
	for _, j := range h.Jobs {
		jobs[j.ID] = j
	}
	return jobs
}

// run checks how one run went: it is over, and whatever went wrong on its way
// has a fault that explains it.
func (h History) run(l *log, j Job, r *run, cancelled map[uuid.UUID]bool, v *Violations) {
	if !r.State.Terminal() {
		v.add("stuck", "run %s of job %s at %s is %s", r.ID, r.Job, r.ScheduledAt, r.State)
	}
	var claimed, started time.Time
	for _, e := range r.events {
		switch ev := e.Event.(type) {
		case domain.RunClaimed:
			claimed = e.at
		case domain.RunStarted:
			started = e.at
			if j.MaxAttempts > 0 && ev.Attempt > j.MaxAttempts {
				v.add("too many attempts", "run %s of job %s: attempt %d of %d", r.ID, r.Job, ev.Attempt, j.MaxAttempts)
			}
		case domain.RunReleased:
			// Until a worker that was killed counts as gone, runs are claimed for it.
			h.excuse(r, "released", ev.Reason, claimed, e.at, eventstore.Silence, v)
		case domain.RunInterrupted:
			h.excuse(r, "interrupted", ev.Reason, started, e.at, 0, v)
		case domain.RunRetryScheduled:
			h.excuse(r, "attempt lost", ev.Error.Message, started, e.at, 0, v)
		case domain.RunFailed:
			h.excuse(r, "attempt lost", ev.Error.Message, started, e.at, 0, v)
			if ev.Attempt < j.MaxAttempts {
				v.add("gave up early", "run %s of job %s failed at attempt %d of %d", r.ID, r.Job, ev.Attempt, j.MaxAttempts)
			}
		case domain.RunSkipped:
			l.skipped(j, r, ev, e.position, v)
		case domain.RunCancelled, domain.RunCancelRequested:
			if !cancelled[r.ID] {
				v.add("cancelled", "run %s of job %s, and nobody asked for that", r.ID, r.Job)
			}
		case domain.RunScheduled, domain.RunSucceeded, domain.RunSnoozed:
		}
	}
}

// excuse looks for a fault between the two times. Its effects may last for a
// while after the system is whole again.
func (h History) excuse(r *run, kind, why string, from, until time.Time, lasting time.Duration, v *Violations) {
	if h.explains(from, until, lasting) == "" {
		v.add(kind+" without a fault", "run %s of job %s between %s and %s: %s", r.ID, r.Job, from, until, why)
	}
}

// explains names a fault between the two times.
func (h History) explains(from, until time.Time, lasting time.Duration) string {
	for _, f := range h.Faults {
		w := f.Window
		w.Until = w.Until.Add(lasting)
		if w.meets(from, until, h.Settings.slack()) {
			return f.Kind
		}
	}
	return ""
}

// explanations are the faults, by the claims that they ended, that make up for up
// to n executions beyond the run's first. Of several that may have done it the
// likeliest is named: a lease that ran out was last renewed before the fault came.
func (h History) explanations(r *run, n int) (kinds []string) {
	var started time.Time
	for _, e := range r.events {
		switch by, _ := letter(e.Event); by {
		case 'B':
			started = e.at
		case 'T', 'I', 'F', 'X':
			silent := e.at
			if by != 'I' {
				silent = e.at.Add(-h.Settings.ExecutionLease)
			}
			if kind := h.likeliest(started, e.at, silent); kind != "" && len(kinds) < n {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

// likeliest is the fault between the two times that began nearest to the third.
func (h History) likeliest(from, until, about time.Time) (kind string) {
	nearest := time.Duration(1<<63 - 1)
	for _, f := range h.Faults {
		if d := f.From.Sub(about).Abs(); f.meets(from, until, h.Settings.slack()) && d < nearest {
			kind, nearest = f.Kind, d
		}
	}
	return kind
}

// skipped checks that a run was decided against because another one of its job
// was under way.
func (l *log) skipped(j Job, r *run, e domain.RunSkipped, position int64, v *Violations) {
	if j.Overlap != domain.OverlapSkip && j.Overlap != domain.OverlapQueue {
		v.add("skipped", "run %s of job %s: %s, although the job allows overlap", r.ID, r.Job, e.Reason)
		return
	}
	if e.BlockedBy == nil || l.runs[*e.BlockedBy] == nil || l.runs[*e.BlockedBy].JobID != r.JobID {
		v.add("skipped", "run %s of job %s: blocked by no run of the job", r.ID, r.Job)
		return
	}
	if first, end := l.runs[*e.BlockedBy].tenure(); position < first || position > end {
		v.add("skipped", "run %s of job %s at position %d: run %s, which blocked it, had its place from %d to %d",
			r.ID, r.Job, position, *e.BlockedBy, first, end)
	}
}
