package judge

import (
	"cmp"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// Whoever gives a place back and whoever takes it hold the lock of its key while
// they append, so that of two such events the positions tell which was first.
// Times do not: a transaction is dated when it begins.

// tenure is from where to where in the log the run has the overlap place of its
// job: from its first claim to its end. It is empty for a run never claimed.
func (r *run) tenure() (first, end int64) {
	first, end = math.MaxInt64, -1
	for _, e := range r.events {
		if _, ok := e.Event.(domain.RunClaimed); ok && first == math.MaxInt64 {
			first, end = e.position, math.MaxInt64
		}
	}
	if r.State.Terminal() && end > 0 {
		end = r.events[len(r.events)-1].position
	}
	return first, end
}

// span is a stretch of the log in which a run has a place.
type span struct {
	run         uuid.UUID
	first, last int64
}

// inHand are the run's claims, each from its beginning to its end.
func (r *run) inHand() []span {
	var all []span
	open := span{first: -1}
	for _, e := range r.events {
		switch e.Event.(type) {
		case domain.RunClaimed:
			open = span{r.ID, e.position, math.MaxInt64}
		case domain.RunReleased, domain.RunRetryScheduled, domain.RunInterrupted, domain.RunSnoozed, domain.RunSucceeded, domain.RunFailed, domain.RunCancelled:
			if open.first >= 0 {
				open.last = e.position
				all = append(all, open)
			}
			open.first = -1
		}
	}
	if open.first >= 0 {
		all = append(all, open)
	}
	return all
}

// places checks that no more runs of a job had a place at once than there are.
func (h History) places(l *log, v *Violations) {
	tenures, claims := map[uuid.UUID][]span{}, map[uuid.UUID][]span{}
	for _, r := range l.runs {
		if first, end := r.tenure(); end > 0 {
			tenures[r.JobID] = append(tenures[r.JobID], span{r.ID, first, end})
		}
		claims[r.JobID] = append(claims[r.JobID], r.inHand()...)
	}
	for _, j := range h.Jobs {
		if j.Overlap != "" && j.Overlap != domain.OverlapAllow {
			crowd(tenures[j.ID], 1, "overlap", j, v)
		}
		if j.Limit > 0 {
			crowd(claims[j.ID], j.Limit, "limit", j, v)
		}
	}
}

func crowd(spans []span, limit int, kind string, j Job, v *Violations) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	var open []span
	for _, s := range spans {
		open = slices.DeleteFunc(open, func(o span) bool { return o.last < s.first })
		open = append(open, s)
		if len(open) > limit {
			v.add(kind, "job %s: %d runs at position %d, at most %d have a place; run %s and run %s", j.Name, len(open), s.first, limit, open[0].run, s.run)
		}
	}
}
