package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// What stood at an instant is what the events dated up to then say, the instant
// included. An event's date is the database's time at the beginning of its
// transaction, which commits within seconds: an answer about an instant that is
// some seconds past does not change any more.

// JobAsOf is the job as it stood at an instant. Its next fire is the first
// instant after it under the definition then in force; how far its instants were
// decided is not on record and left out. eventstore.ErrNotFound if it did not
// exist yet.
func (r *Reader) JobAsOf(ctx context.Context, name string, at time.Time) (eventstore.JobDetail, error) {
	j := eventstore.JobDetail{Job: domain.Job{ID: jobID(name)}}
	recs, err := r.store.ReadStream(ctx, domain.CategoryJob, j.ID)
	if err != nil && !errors.Is(err, eventstore.ErrNotFound) {
		return j, err
	}
	for _, rec := range recs {
		if rec.At.After(at) {
			break
		}
		e, err := rec.Event()
		if err != nil {
			return j, fmt.Errorf("job %q version %d: %w", name, rec.Version, err)
		}
		je, ok := e.(domain.JobEvent)
		if !ok {
			return j, fmt.Errorf("job %q version %d: %s is no event of a job", name, rec.Version, rec.Type)
		}
		if j.Job, err = domain.EvolveJob(j.Job, je, rec.At); err != nil {
			return j, err
		}
		if j.Version == 1 {
			j.CreatedAt = rec.At
		}
	}
	if j.Version == 0 {
		return j, fmt.Errorf("job %q at %s: %w", name, at.UTC().Format(time.RFC3339Nano), eventstore.ErrNotFound)
	}
	set, err := j.Spec.Instants()
	if err != nil {
		return j, fmt.Errorf("job %q: %w", name, err)
	}
	if next, ok := j.Job.NextFire(set, at); ok {
		j.NextFire = &next
	}
	return j, nil
}

// The runs that may not have ended by then, as the projection has it, and those
// that it does not have yet. A run of a schedule is not made before its instant;
// the sum keeps those that were asked for from run_summaries_finished, the limit
// the planner from looking through all events. Index:
// run_summaries_state; run_summaries_finished; run_summaries_asked; the primary
// keys of the partitions.
const selectUnfinished = `
SELECT c.run_id FROM (
  SELECT run_id FROM run_summaries WHERE state IN ('pending', 'claimed', 'running')
  UNION SELECT run_id FROM run_summaries WHERE finished_at > $1 AND scheduled_at <= $1
  UNION SELECT run_id FROM run_summaries WHERE scheduled_at > $1 AND origin <> 'schedule' AND finished_at + interval '0' > $1
  UNION SELECT unnest($2::uuid[])) c
, LATERAL (SELECT FROM events e WHERE e.category = 'run' AND e.stream_id = c.run_id AND e.version = 1 AND e.at <= $1 LIMIT 1) made
 ORDER BY c.run_id`

// BehindError says that the read models are too far behind the log to tell.
type BehindError struct{ Lag Lag }

func (e *BehindError) Error() string {
	return fmt.Sprintf("the read models are %s behind the log (%d events): try again when they have caught up", e.Lag.Behind, e.Lag.Events)
}

// unread is how many events that the projection lacks are looked through.
const unread = 5000

// QueuesAsOf gives the depth of every lane at an instant, from the log: the
// projection only tells which runs to look at. Workers are not on record. A run
// that had been set aside for a place counts as due, since that is no event. The
// error is a *eventstore.RetiredError if the log has let go of runs that may have
// been there.
func (r *Reader) QueuesAsOf(ctx context.Context, at time.Time) ([]QueueStats, error) {
	low, err := r.store.LowMark(ctx)
	if err != nil {
		return nil, err
	}
	if !at.After(low.At) {
		return nil, &eventstore.RetiredError{Low: low}
	}
	ids, err := r.unfinished(ctx, at)
	if err != nil {
		return nil, err
	}
	lanes := map[eventstore.WorkerLane]*QueueStats{}
	for chunk := range slices.Chunk(ids, 1000) {
		recs, err := r.store.ReadStreams(ctx, domain.CategoryRun, chunk, at)
		if err != nil {
			return nil, err
		}
		for len(recs) > 0 {
			n := 1
			for n < len(recs) && recs[n].StreamID == recs[0].StreamID {
				n++
			}
			count(lanes, foldDetail(recs[0].StreamID, recs[:n]).RunSummary, at)
			recs = recs[n:]
		}
	}
	out := make([]QueueStats, 0, len(lanes))
	for _, l := range lanes {
		if l.OldestReadyAt != nil {
			l.OldestWait = domain.Duration(at.Sub(*l.OldestReadyAt))
		}
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b QueueStats) int {
		if c := strings.Compare(a.Queue, b.Queue); c != 0 {
			return c
		}
		return strings.Compare(a.Kind, b.Kind)
	})
	return out, nil
}

func count(lanes map[eventstore.WorkerLane]*QueueStats, s RunSummary, at time.Time) {
	if s.State.Terminal() {
		return
	}
	key := eventstore.WorkerLane{Queue: s.Queue, Kind: s.Kind}
	l := lanes[key]
	if l == nil {
		l = &QueueStats{Queue: s.Queue, Kind: s.Kind}
		lanes[key] = l
	}
	switch {
	case s.State == domain.Claimed:
		l.Claimed++
	case s.State == domain.Running:
		l.Running++
	case s.ReadyAt.After(at):
		l.NotDue++
	default:
		l.Due++
		if l.OldestReadyAt == nil || s.ReadyAt.Before(*l.OldestReadyAt) {
			l.OldestReadyAt = new(s.ReadyAt)
		}
	}
}

// unfinished lists the runs that existed at an instant and may not have ended.
func (r *Reader) unfinished(ctx context.Context, at time.Time) ([]uuid.UUID, error) {
	var done checkpoint // before the rows are read: what is applied meanwhile is in both
	err := r.store.Pool().QueryRow(ctx, "SELECT cursor FROM checkpoints WHERE name = $1", RunSummariesName).Scan(&done)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	var fresh []eventstore.Recorded
	if done.Scan == nil {
		if fresh, _, err = r.store.Read(ctx, done.Cursor, unread); err != nil {
			return nil, err
		}
	}
	if done.Scan != nil || len(fresh) == unread {
		lag, err := r.Lag(ctx)
		if err != nil {
			return nil, err
		}
		return nil, &BehindError{Lag: lag}
	}
	more := make([]uuid.UUID, 0, len(fresh))
	for _, rec := range fresh {
		if rec.Category == domain.CategoryRun {
			more = append(more, rec.StreamID)
		}
	}
	rows, err := r.store.Pool().Query(ctx, selectUnfinished, at, pgIDs(more))
	if err != nil {
		return nil, fmt.Errorf("look for runs that had not ended: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("look for runs that had not ended: %w", err)
	}
	return ids, nil
}
