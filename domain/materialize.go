package domain

import (
	"time"

	"github.com/daybookhq/daybook/domain/schedule"
)

// MisfireGrace is how late an instant may be and still count as merely late: it
// runs under every misfire policy.
const MisfireGrace = time.Minute

// Instants is what a job's schedules name. *schedule.Set has it.
type Instants interface {
	Next(after time.Time) (schedule.Fire, bool)
	Prev(before time.Time) (schedule.Fire, bool)
	Count(after, until time.Time) int
}

// Plan is what one pass of the materializer does for one job: every instant up
// to Through has its decision.
type Plan struct {
	Fires   []PlannedFire
	Skipped *FiresSkipped
	Through time.Time // the job's new watermark
	Next    time.Time // the first instant after Through; zero if there is none
}

// PlannedFire is an instant that gets a run.
type PlannedFire struct {
	schedule.Fire
	CatchUp bool
}

// PlanFires decides the instants of a job after its watermark, up to now, at
// most limit of them with a run; what is over the limit is left to the next
// pass. An instant less than MisfireGrace late always runs. Older ones are
// missed:
//
//	latest  the newest runs, and only if nothing younger does
//	skip    none runs
//	all     each runs, oldest first, as far as catchup_window and max_catchup go;
//	        beyond max_catchup the newest are kept
//
// Missed instants without a run lie together, before those with one, and are
// covered by a single FiresSkipped. A watermark never moves back: at or after
// now, nothing is decided.
func PlanFires(spec JobSpec, s Instants, watermark, now time.Time, limit int) Plan {
	if now.Before(watermark) {
		now = watermark
	}
	young := now.Add(-MisfireGrace)
	if young.Before(watermark) {
		young = watermark
	}
	var p Plan
	from := young // instants after it run
	if missed := s.Count(watermark, young); missed > 0 {
		keep, reason := 0, SkipMisfire
		switch spec.Misfire {
		case MisfireLatest:
			if s.Count(young, now) == 0 {
				from, keep = back(s, watermark, young, 1), 1
			}
		case MisfireAll:
			from, keep, reason = watermark, missed, SkipMaxCatchup
			if n := spec.MaxCatchup; n > 0 && n < missed {
				from, keep = back(s, watermark, young, n), n
			}
		case MisfireSkip:
		}
		if w := spec.CatchupWindow.Std(); w > 0 && keep > 0 {
			edge := now.Add(-w - time.Nanosecond)
			if edge.After(young) {
				edge = young
			}
			if edge.After(from) {
				if within := s.Count(edge, young); within < keep {
					from, keep, reason = edge, within, SkipCatchupWindow
				}
			}
		}
		if skipped := missed - keep; skipped > 0 {
			first, _ := s.Next(watermark)
			last, _ := s.Prev(from.Add(time.Nanosecond))
			p.Skipped = &FiresSkipped{From: first.At, To: last.At, Count: skipped, Reason: reason}
		}
	}
	p.Through = now
	for at := from; ; {
		f, ok := s.Next(at)
		if !ok {
			break
		}
		if f.At.After(now) {
			p.Next = f.At
			break
		}
		if len(p.Fires) == limit {
			p.Through, p.Next = at, f.At
			break
		}
		p.Fires = append(p.Fires, PlannedFire{Fire: f, CatchUp: !f.At.After(young)})
		at = f.At
	}
	return p
}

// back is the time right before the n-th last instant of (watermark, until].
func back(s Instants, watermark, until time.Time, n int) time.Time {
	at := until.Add(time.Nanosecond)
	for range n {
		f, ok := s.Prev(at)
		if !ok || !f.At.After(watermark) {
			return watermark
		}
		at = f.At
	}
	return at.Add(-time.Nanosecond)
}
