package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/domain/schedule"
	"github.com/daybookhq/daybook/eventstore"
)

// period is a stretch of a job's history in which nothing about its instants
// changed: those after From, up to and with To.
type period struct {
	From, To time.Time
	Spec     domain.JobSpec
	Version  int
	State    string // active, paused or archived
	Actor    string // who brought the state about
	Reason   string
	Since    time.Time // of the state
	set      *schedule.Set
}

func (p period) active() bool { return p.State == "active" }

// skipped is a FiresSkipped, with what it says.
type skipped struct {
	domain.FiresSkipped
	At time.Time
}

// timeline is a job's history as its instants see it.
type timeline struct {
	Job     domain.Job
	Created time.Time
	Periods []period // in order, without gaps; the last is open
	Skips   []skipped
	Retired []domain.RunsRetired // of months that the log has let go of
	Through time.Time            // every instant up to here has its decision

	months []eventstore.RetiredMonth // that the log has let go of
}

// end of the last period: no instant lies after it.
var forever = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// timelineOf reads a job's stream. eventstore.ErrNotFound if there is none.
func (a *Auditor) timelineOf(ctx context.Context, name string) (timeline, error) {
	id := domain.JobID(name)
	recs, err := a.store.ReadStream(ctx, domain.CategoryJob, id)
	if errors.Is(err, eventstore.ErrNotFound) {
		return timeline{}, fmt.Errorf("job %q: %w", name, eventstore.ErrNotFound)
	}
	if err != nil {
		return timeline{}, err
	}
	t := timeline{Job: domain.Job{ID: id}, Created: recs[0].At}
	months, err := a.store.RetiredMonths(ctx)
	if err != nil {
		return timeline{}, err
	}
	for _, m := range months {
		if m.DroppedAt != nil {
			t.months = append(t.months, m)
		}
	}
	for _, rec := range recs {
		if err := t.apply(rec); err != nil {
			return timeline{}, err
		}
	}
	row, err := a.store.Job(ctx, name)
	if err != nil {
		return timeline{}, err
	}
	t.Through = row.MaterializedThrough
	return t, nil
}

func (t *timeline) apply(rec eventstore.Recorded) error {
	e, err := rec.Event()
	if err != nil {
		return fmt.Errorf("job %s version %d: %w", rec.StreamID, rec.Version, err)
	}
	je, ok := e.(domain.JobEvent)
	if !ok {
		return fmt.Errorf("job %s version %d: %s is no event of a job", rec.StreamID, rec.Version, rec.Type)
	}
	before := t.Job
	if t.Job, err = domain.EvolveJob(t.Job, je, rec.At); err != nil {
		return err
	}
	next := period{From: rec.At, To: forever, Actor: rec.Actor, Since: rec.At}
	switch e := je.(type) {
	case domain.FiresSkipped:
		t.Skips = append(t.Skips, skipped{e, rec.At})
		return nil
	case domain.ZoneRulesChanged:
		return nil
	case domain.RunsRetired:
		if slices.ContainsFunc(t.months, func(m eventstore.RetiredMonth) bool { return m.SHA256 == e.SHA256 && m.Name() == e.Month }) {
			t.Retired = append(t.Retired, e)
		}
		return nil
	case domain.JobCreated:
		next.State, next.Reason = "active", e.Reason
	case domain.JobPaused:
		next.State, next.Reason = "paused", e.Reason
	case domain.JobResumed:
		next.State, next.Reason = "active", e.Reason
	case domain.JobArchived:
		next.State, next.Reason = "archived", e.Reason
	case domain.JobUpdated:
		next.State, next.Reason = "active", e.Reason
		if before.Paused { // an edit does not end a pause
			last := t.Periods[len(t.Periods)-1]
			next.State, next.Actor, next.Reason, next.Since = last.State, last.Actor, last.Reason, last.Since
		}
	}
	next.Spec, next.Version = t.Job.Spec, t.Job.SpecVersion
	if next.set, err = next.Spec.Instants(); err != nil {
		return fmt.Errorf("job %s version %d: %w", rec.StreamID, rec.Version, err)
	}
	if n := len(t.Periods); n > 0 {
		t.Periods[n-1].To = rec.At
	}
	t.Periods = append(t.Periods, next)
	return nil
}

// at is the period that an instant belongs to; false before the job's creation.
func (t *timeline) at(instant time.Time) (period, bool) {
	for _, p := range t.Periods {
		if instant.After(p.From) && !instant.After(p.To) {
			return p, true
		}
	}
	return period{}, false
}

// skip is the FiresSkipped that covers an instant.
func (t *timeline) skip(instant time.Time) (skipped, bool) {
	for _, s := range t.Skips {
		if !instant.Before(s.From) && !instant.After(s.To) {
			return s, true
		}
	}
	return skipped{}, false
}

// retired tells where the history of an instant's run is that the log has let go
// of: nil if it has not.
func (t *timeline) retired(instant time.Time) *eventstore.RetiredMonth {
	for i := len(t.months) - 1; i >= 0; i-- {
		if m := &t.months[i]; !instant.Before(m.Month) && instant.Before(m.Month.AddDate(0, 1, 0)) {
			return m
		}
	}
	return nil
}

// retiredAs tells what the job's stream keeps of a slot whose run is gone.
func (t *timeline) retiredAs(instant time.Time) (skip string, backfilled bool) {
	within := func(ranges []domain.RetiredRange) (string, bool) {
		for _, r := range ranges {
			if !instant.Before(r.From) && !instant.After(r.To) {
				return r.Reason, true
			}
		}
		return "", false
	}
	for _, r := range t.Retired {
		if reason, ok := within(r.Skips); ok {
			skip = reason
		}
		_, b := within(r.Backfills)
		backfilled = backfilled || b
	}
	return skip, backfilled
}
