package evidence

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// Coverage compares what a job's recorded schedules implied with what is on
// record. All is well when Missing is 0.
type Coverage struct {
	Job  string    `json:"job"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`

	Expected   int `json:"expected"`          // instants implied by the definitions in force
	Ran        int `json:"ran"`               // of them with a run
	Explained  int `json:"explained"`         // of them covered by a recorded skip
	Missing    int `json:"missing"`           // of them without any decision
	Undecided  int `json:"undecided"`         // of the range, still to be decided: not counted as expected
	Backfilled int `json:"backfilled"`        // runs at instants of another definition than the one then in force
	Unexpected int `json:"unexpected"`        // scheduled runs at instants that no definition implied
	Retired    int `json:"retired,omitempty"` // of the decisions, those whose run's events the log has let go of

	MissingInstants    []time.Time `json:"missing_instants,omitempty"` // the first of them
	UnexpectedInstants []time.Time `json:"unexpected_instants,omitempty"`
}

// maxInstants bounds the instants that a report lists.
const maxInstants = 1000

// Proven reports whether every instant is accounted for.
func (c Coverage) Proven() bool { return c.Missing == 0 && c.Unexpected == 0 }

// Coverage proves, instant by instant, that the schedule was carried out between
// the two times, both included. A run supersedes a skip of its instant. The
// range may be long: instants and runs are walked side by side.
func (a *Auditor) Coverage(ctx context.Context, job string, from, to time.Time) (Coverage, error) {
	c := Coverage{Job: job, From: from.UTC(), To: to.UTC()}
	if to.Before(from) {
		return c, fmt.Errorf("the range ends (%s) before it begins (%s)", to.UTC().Format(time.RFC3339), from.UTC().Format(time.RFC3339))
	}
	t, err := a.timelineOf(ctx, job)
	if err != nil {
		return c, err
	}
	runs := &slotWalk{a: a, job: t.Job.ID, t: &t, after: from.Add(-time.Microsecond), to: to}
	for _, p := range t.Periods {
		if p.set == nil || !p.active() {
			continue
		}
		begin, end := later(p.From, from.Add(-time.Nanosecond)), earlier(p.To, to)
		for at := begin; ; {
			f, ok := p.set.Next(at)
			if !ok || f.At.After(end) {
				break
			}
			at = f.At
			if at.After(t.Through) {
				c.Undecided += p.set.Count(at.Add(-time.Nanosecond), end)
				break
			}
			if err := ctx.Err(); err != nil {
				return c, err
			}
			c.Expected++
			if err := c.settle(ctx, runs, &t, at); err != nil {
				return c, err
			}
		}
	}
	return c, c.rest(ctx, runs, forever)
}

// settle finds the decision of one expected instant.
func (c *Coverage) settle(ctx context.Context, runs *slotWalk, t *timeline, at time.Time) error {
	if err := c.rest(ctx, runs, at); err != nil {
		return err
	}
	s, ok, err := runs.peek(ctx)
	switch {
	case err != nil:
		return err
	case ok && s.at.Equal(at) && s.origin != "":
		if s.retired {
			c.Retired++
		}
		c.Ran++
		runs.next()
		return nil
	case ok && s.at.Equal(at): // a slot whose run has no history is no decision
		runs.next()
	}
	if _, explained := t.skip(at); explained {
		c.Explained++
		return nil
	}
	c.Missing++
	if len(c.MissingInstants) < maxInstants {
		c.MissingInstants = append(c.MissingInstants, at)
	}
	return nil
}

// rest takes the runs before the given instant, none of which was expected.
func (c *Coverage) rest(ctx context.Context, runs *slotWalk, before time.Time) error {
	for {
		s, ok, err := runs.peek(ctx)
		if err != nil || !ok || !s.at.Before(before) {
			return err
		}
		runs.next()
		if s.origin == domain.OriginBackfill {
			c.Backfilled++
			continue
		}
		c.Unexpected++
		if len(c.UnexpectedInstants) < maxInstants {
			c.UnexpectedInstants = append(c.UnexpectedInstants, s.at)
		}
	}
}

// slot is an instant of the ledger and why its run exists; no origin if the log
// has no such run and has not let go of it.
type slot struct {
	at      time.Time
	origin  domain.Origin
	retired bool
}

// slotWalk reads a job's slots in the order of their instants, a page at a time.
type slotWalk struct {
	a         *Auditor
	job       uuid.UUID
	t         *timeline
	after, to time.Time
	page      []slot
	done      bool
}

const slotPage = 5000

// Index: run_slots_pkey in its order; the primary keys of the partitions.
const selectSlotPage = `
SELECT s.scheduled_at, coalesce(e.data->>'origin', '')
  FROM run_slots s LEFT JOIN events e ON e.category = 'run' AND e.stream_id = s.run_id AND e.version = 1
 WHERE s.job_id = $1 AND s.scheduled_at > $2 AND s.scheduled_at <= $3
 ORDER BY s.scheduled_at LIMIT $4`

func (w *slotWalk) peek(ctx context.Context) (slot, bool, error) {
	if len(w.page) == 0 && !w.done {
		rows, err := w.a.store.Pool().Query(ctx, selectSlotPage, w.job, w.after, w.to, slotPage)
		if err != nil {
			return slot{}, false, fmt.Errorf("read slots: %w", err)
		}
		w.page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (slot, error) {
			var s slot
			err := row.Scan(&s.at, &s.origin)
			s.at = s.at.UTC()
			if s.origin == "" && w.t.retired(s.at) != nil {
				s.retired, s.origin = true, domain.OriginSchedule
				if _, backfilled := w.t.retiredAs(s.at); backfilled {
					s.origin = domain.OriginBackfill
				}
			}
			return s, err
		})
		if err != nil {
			return slot{}, false, fmt.Errorf("read slots: %w", err)
		}
		w.done = len(w.page) < slotPage
		if len(w.page) > 0 {
			w.after = w.page[len(w.page)-1].at
		}
	}
	if len(w.page) == 0 {
		return slot{}, false, nil
	}
	return w.page[0], true, nil
}

func (w *slotWalk) next() { w.page = w.page[1:] }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
