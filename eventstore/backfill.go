package eventstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// BackfillRequest asks for runs of past instants that have none.
type BackfillRequest struct {
	Job      string
	From, To time.Time // both included
	Limit    int       // instants to look at in this call
	Reason   string
	Meta     Meta
}

// Backfilled is what one call did.
type Backfilled struct {
	Seen    int       // instants looked at
	Created int       // of them without a run, which got one
	Through time.Time // every instant up to here is dealt with: go on after it
	Done    bool
	Queue   string
}

// BackfillError says why a range cannot be backfilled.
type BackfillError struct{ Job, Why string }

func (e *BackfillError) Error() string { return fmt.Sprintf("backfill of job %q: %s", e.Job, e.Why) }

// Backfill makes runs for instants of the job's present schedule that have no
// run, the oldest first, up to the limit. It can be interrupted and repeated: an
// instant gets one run, whoever asks and however often. A run made here
// supersedes a FiresSkipped that covers its instant. Instants that the
// materializer has still to decide are refused.
func (s *Store) Backfill(ctx context.Context, q BackfillRequest) (Backfilled, error) {
	var out Backfilled
	err := s.withPartitions(ctx, func(span *span) error {
		return again(ctx, func() (err error) {
			out, err = s.backfill(ctx, q, span)
			return err
		})
	})
	return out, err
}

func (s *Store) backfill(ctx context.Context, q BackfillRequest, span *span) (Backfilled, error) {
	var job *jobRow
	tx, err := begin(ctx, s.loops, shareJobs, []any{[]string{q.Job}}, func(rows pgx.Rows) error {
		j, err := scanJob(rows)
		job = &j
		return err
	})
	if err != nil {
		return Backfilled{}, err
	}
	defer tx.rollback(ctx)
	switch {
	case job == nil:
		return Backfilled{}, &domain.JobRefusal{Name: q.Job, Code: domain.JobUnknown}
	case job.Archived:
		return Backfilled{}, &domain.JobRefusal{Name: q.Job, Code: domain.JobIsGone}
	case len(job.Spec.Schedules) == 0:
		return Backfilled{}, &BackfillError{q.Job, "it has no schedule: it runs on request only"}
	case q.To.Before(q.From):
		return Backfilled{}, &BackfillError{q.Job, fmt.Sprintf("the range ends (%s) before it begins (%s)", rfc(q.To), rfc(q.From))}
	case q.To.After(job.Watermark):
		return Backfilled{}, &BackfillError{q.Job, fmt.Sprintf("instants after %s are still to be decided; end the range there or before", rfc(job.Watermark))}
	case q.From.Before(time.Unix(0, 0)):
		return Backfilled{}, &BackfillError{q.Job, "the range begins before 1970"}
	}
	set, err := job.Spec.Instants()
	if err != nil {
		return Backfilled{}, err
	}
	out := Backfilled{Through: q.To, Done: true, Queue: job.Spec.Queue}
	var w jobWrites
	w.jobs = []jobRow{*job}
	for at := q.From.Add(-time.Nanosecond); ; {
		f, ok := set.Next(at)
		if !ok || f.At.After(q.To) {
			break
		}
		if out.Seen == q.Limit {
			out.Through, out.Done = at, false
			break
		}
		at = f.At
		out.Seen++
		e := domain.RunScheduled{
			JobID: job.ID, Job: job.Spec.Name, JobVersion: job.SpecVersion, Origin: domain.OriginBackfill,
			ScheduledAt: f.At, ReadyAt: tx.now, Nominal: f.Nominal,
			Queue: job.Spec.Queue, Kind: job.Spec.Kind, Priority: job.Spec.Priority, Reason: q.Reason,
		}
		run, err := domain.EvolveRun(domain.Run{ID: domain.SlotID(job.ID, f.At)}, e, tx.now)
		if err != nil {
			return Backfilled{}, err
		}
		w.fires = append(w.fires, fire{run: run, event: e, at: tx.now, meta: s.meta(q.Meta), civil: domain.CivilKey(set, f)})
	}
	if err := s.insertSlots(ctx, tx, &w); err != nil {
		return Backfilled{}, err
	}
	out.Created = len(w.fires)
	if out.Created == 0 {
		return out, nil
	}
	// The job's row is only shared: nothing of it is written. An instant whose
	// wall time ran elsewhere keeps the decision it had.
	var due liveRows
	var events eventRows
	for _, f := range w.fires {
		span.add(f.run.ScheduledAt)
		due.add(f.run)
		if err := events.add(f.run.ID, f.run.Version, f.at, f.meta, f.event); err != nil {
			return Backfilled{}, err
		}
	}
	b := &pgx.Batch{}
	due.queueDue(b)
	events.queue(b)
	if err := tx.commit(ctx, b); err != nil {
		return Backfilled{}, conflict(err)
	}
	return out, nil
}

func rfc(t time.Time) string { return t.UTC().Format(time.RFC3339) }
