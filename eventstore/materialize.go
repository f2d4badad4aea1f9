package eventstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/crashpoint"
)

// Materialized is what one pass of the materializer did.
type Materialized struct {
	Jobs    int
	Runs    []domain.Run
	Skipped int       // instants covered by FiresSkipped
	Next    time.Time // the earliest instant of any job after the pass; zero if none
	Now     time.Time
	Full    bool // there may be more due now

	Waiting []string // queues of the runs that wait for a claim

	first uuid.UUID // of the jobs looked at: the one to blame when it is alone
}

// Index: jobs_next_fire. Locked jobs are another replica's.
//
// A key share, which requests for runs take, is no obstacle: no key changes.
const (
	lockDueJobs    = `SELECT ` + jobColumns + ` FROM jobs WHERE next_fire <= now() ORDER BY next_fire LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED`
	lockRecentJobs = `SELECT ` + jobColumns + ` FROM jobs WHERE next_fire <= now() ORDER BY next_fire DESC LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED`
)

// In the transaction's last batch: it sees what was decided. A job that is due
// still is locked by somebody else.
//
// Index: jobs_next_fire.
const soonestFire = `SELECT next_fire FROM jobs WHERE next_fire IS NOT NULL ORDER BY next_fire LIMIT 1`

// Order is which due jobs a pass looks at first. Passes should take turns: when
// many jobs make up for a long absence, those whose instant has just come must
// not wait for them.
type Order bool

// The orders.
const (
	LongestDueFirst Order = false
	LatestDueFirst  Order = true
)

// firesPerPass bounds a transaction, so that it commits while its runs' ready
// times are fresh.
const firesPerPass = 2000

// firesPerJob paces a job that makes up for a long absence: the others' instants
// are not kept waiting behind it.
const firesPerJob = 100

// Materialize decides the instants that are due of up to limit jobs: slot,
// RunScheduled and due row for those that run, one FiresSkipped for a gap, and
// the job's watermark, in one transaction. Any number of replicas may call it.
// What can be claimed directly is, in the same transaction; nil leaves all runs to
// claims.
func (s *Store) Materialize(ctx context.Context, limit int, order Order, claims *Direct) (Materialized, error) {
	var out Materialized
	err := s.withPartitions(ctx, func(span *span) error {
		return again(ctx, func() (err error) {
			out, err = s.materialize(ctx, limit, order, claims, span)
			return err
		})
	})
	switch {
	case err == nil || !blamesRow(err) && sqlState(err) != stateTooOld:
		return out, err
	case claims != nil: // a run that cannot be claimed is the claimer's to park
		return s.Materialize(ctx, limit, order, nil)
	case limit > 1:
		return s.Materialize(ctx, limit/2, order, nil)
	case out.first != uuid.Nil && blamesRow(err):
		return Materialized{}, s.putOffJob(ctx, out.first, err)
	}
	return Materialized{}, err
}

// Index: jobs_pkey. Less than the misfire grace: what is due now is only late.
const putOffDueJob = `UPDATE jobs SET next_fire = now() + interval '20 s' WHERE id = $1 AND next_fire <= now() RETURNING name`

// putOffJob gets a job that cannot be decided out of the way of the others. Its
// watermark stays: nothing is lost. It always returns an error.
func (s *Store) putOffJob(ctx context.Context, job uuid.UUID, cause error) error {
	var name string
	if err := s.loops.QueryRow(ctx, putOffDueJob, job).Scan(&name); err != nil {
		return errors.Join(cause, err)
	}
	return fmt.Errorf("job %q cannot be decided, tried again in 20 s: %w", name, cause)
}

func (s *Store) materialize(ctx context.Context, limit int, order Order, claims *Direct, span *span) (out Materialized, err error) {
	var jobs []jobRow
	lock := lockDueJobs
	if order == LatestDueFirst {
		lock = lockRecentJobs
	}
	tx, err := begin(ctx, s.loops, lock, []any{limit}, func(rows pgx.Rows) error {
		j, err := scanJob(rows)
		if len(jobs) == 0 {
			out.first = j.ID
		}
		jobs = append(jobs, j)
		return err
	})
	if err != nil {
		return out, err
	}
	defer tx.rollback(ctx)
	out.Jobs, out.Now, out.Full = len(jobs), tx.now, len(jobs) == limit
	next := func(rows pgx.Rows) error { return rows.Scan(&out.Next) }
	if len(jobs) == 0 {
		return out, tx.query(ctx, soonestFire, nil, next)
	}
	if err := crashpoint.Err(crashpoint.MaterializePostSelect); err != nil {
		return Materialized{}, err
	}
	var w jobWrites
	w.direct = claims.begin(tx.now)
	for i := range jobs {
		if len(w.fires) >= firesPerPass { // the others stay due
			out.Jobs, out.Full = i, true
			break
		}
		j := &jobs[i]
		if err := s.decideDue(&w, j, tx.now, firesPerJob); err != nil {
			return out, err
		}
		w.jobs = append(w.jobs, *j)
		out.Full = out.Full || j.NextFire != nil && !j.NextFire.After(tx.now)
	}
	w.last = func(b *pgx.Batch) {
		b.Queue(soonestFire).Query(func(rows pgx.Rows) error { return eachRow(rows, next) })
	}
	if err := s.writeJobs(ctx, tx, &w, span); err != nil {
		return out, err
	}
	out.Skipped = w.skipped
	crashpoint.At(crashpoint.MaterializePostCommit)
	if err := w.direct.done(); err != nil {
		return out, err
	}
	out.Waiting = w.waiting
	for _, f := range w.fires {
		out.Runs = append(out.Runs, f.run)
	}
	return out, nil
}

// decideDue decides the job's instants up to now and moves its watermark and
// next fire. A command's limit must not leave instants behind.
func (s *Store) decideDue(w *jobWrites, j *jobRow, now time.Time, limit int) error {
	if !j.Active() || j.NextFire == nil || j.NextFire.After(now) {
		return nil
	}
	set, err := j.Spec.Instants()
	if err != nil {
		return fmt.Errorf("job %s: %w", j.Spec.Name, err)
	}
	p := domain.PlanFires(j.Spec, set, j.Watermark, now, limit)
	if limit == maxFiresOfCommand && p.Through.Before(now) {
		return &BehindError{Job: j.Spec.Name, Through: p.Through}
	}
	if p.Skipped != nil {
		w.skipped += p.Skipped.Count
		if err := s.recordJobEvent(w, j, *p.Skipped, now); err != nil {
			return err
		}
	}
	for i, f := range p.Fires {
		following := p.Next
		if i+1 < len(p.Fires) {
			following = p.Fires[i+1].At
		}
		jitter := domain.JitterDelay(j.ID, j.Spec.Jitter.Std(), following.Sub(f.At)) // no next instant: a gap below zero, no bound
		e := domain.RunScheduled{
			JobID: j.ID, Job: j.Spec.Name, JobVersion: j.SpecVersion, Origin: domain.OriginSchedule,
			ScheduledAt: f.At, ReadyAt: readyAt(f.At.Add(jitter), now), Nominal: f.Nominal, CatchUp: f.CatchUp,
			Queue: j.Spec.Queue, Kind: j.Spec.Kind, Priority: j.Spec.Priority,
		}
		run, err := domain.EvolveRun(domain.Run{ID: domain.SlotID(j.ID, f.At)}, e, now)
		if err != nil {
			return err
		}
		w.fires = append(w.fires, fire{run: run, event: e, at: now, meta: s.meta(Meta{}), civil: domain.CivilKey(set, f.Fire)})
	}
	j.Watermark = p.Through
	j.NextFire = nil
	if !p.Next.IsZero() {
		j.NextFire = &p.Next
	}
	return nil
}

// BehindError refuses a command on a job whose due instants are too many to
// decide with it.
type BehindError struct {
	Job     string
	Through time.Time
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("job %q is still making up for instants after %s; try again in a moment", e.Job, e.Through.UTC().Format(time.RFC3339))
}

// Only a returned slot gets an event and a due row: the instant had no decision
// before. In the order of the key, so that two writers cannot wait for each
// other.
//
// Index: run_slots_pkey and run_slots_nominal.
const insertSlots = `
INSERT INTO run_slots (job_id, scheduled_at, run_id, nominal)
SELECT j, t, r, nullif(c, '') FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $4::text[]) AS u(j, t, r, c) ORDER BY j, t
ON CONFLICT DO NOTHING RETURNING run_id`

// Index: jobs_pkey.
const upsertJobs = `
INSERT INTO jobs (id, name, spec, version, spec_version, paused, pause_reason, archived, next_fire, materialized_through, created_at, changed_at)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::jsonb[], $4::int[], $5::int[], $6::bool[], $7::text[], $8::bool[],
                     $9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[])
ON CONFLICT (id) DO UPDATE SET spec = excluded.spec, version = excluded.version, spec_version = excluded.spec_version,
  paused = excluded.paused, pause_reason = excluded.pause_reason, archived = excluded.archived,
  next_fire = excluded.next_fire, materialized_through = excluded.materialized_through, changed_at = excluded.changed_at`

// Index: jobs_pkey. The rows are locked.
const advanceJobs = `
UPDATE jobs j SET version = u.v, next_fire = u.n, materialized_through = u.m, changed_at = u.c
  FROM unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[]) AS u(i, v, n, m, c) WHERE j.id = u.i`

// Index: limit_holders_run.
const dropHolders = `DELETE FROM limit_holders WHERE run_id = ANY($1)`

// writeJobs writes and commits.
func (s *Store) writeJobs(ctx context.Context, tx *txn, w *jobWrites, span *span) error {
	if err := s.insertSlots(ctx, tx, w); err != nil {
		return err
	}
	if err := w.direct.pick(ctx, s, tx, w.runs()); err != nil {
		return err
	}
	var due liveRows
	for _, f := range w.fires {
		span.add(f.run.ScheduledAt)
		if err := w.events.add(f.run.ID, f.run.Version, f.at, f.meta, f.event); err != nil {
			return err
		}
		if !w.archived[f.run.JobID] {
			if w.direct.waits(f.run.ID) {
				due.add(f.run)
			}
			continue
		}
		// It came due with the very command that archives its job.
		if err := w.events.add(f.run.ID, f.run.Version+1, f.at, f.meta, domain.RunCancelled{Op: domain.OpCancel, Reason: reasonArchived}); err != nil {
			return err
		}
	}
	b := &pgx.Batch{}
	if n := len(w.dropDue); n > 0 {
		b.Queue(deleteDue, w.dropDue, n)
		b.Queue(dropHolders, w.dropDue)
	}
	if n := len(w.unwait); n > 0 {
		b.Queue(deleteWaiting, w.unwait, n)
		b.Queue(dropHolders, w.unwait)
	}
	if err := w.queueJobs(b); err != nil {
		return err
	}
	due.queueDue(b)
	if err := w.direct.queue(ctx, s, tx, b, &w.events); err != nil {
		return err
	}
	w.waiting = append(due.queue.distinct, w.direct.held()...)
	w.events.queue(b)
	if w.last != nil {
		w.last(b)
	}
	crashpoint.At(crashpoint.MaterializePreCommit) // commands on jobs come by here too
	return conflict(tx.commit(ctx, b))
}

// insertSlots keeps the fires whose instants had no decision.
func (s *Store) insertSlots(ctx context.Context, tx *txn, w *jobWrites) error {
	if len(w.fires) == 0 {
		return nil
	}
	slices.SortFunc(w.fires, func(a, b fire) int {
		return cmp.Or(bytes.Compare(a.run.JobID[:], b.run.JobID[:]), a.run.ScheduledAt.Compare(b.run.ScheduledAt))
	})
	n := len(w.fires)
	jobs, ids, at, civil := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]time.Time, n), make([]string, n)
	for i, f := range w.fires {
		jobs[i], ids[i], at[i], civil[i] = f.run.JobID, f.run.ID, f.run.ScheduledAt, f.civil
		w.direct.lane(f.run.Queue, f.run.Kind, f.run.ReadyAt)
	}
	free := make(map[uuid.UUID]bool, n)
	err := tx.queries(ctx, w.direct.ask(query{insertSlots, []any{jobs, at, ids, civil}, func(rows pgx.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		free[id] = true
		return err
	}})...)
	if err != nil {
		return err
	}
	if len(free) == n {
		return nil
	}
	var lost []fire
	w.fires = slices.DeleteFunc(w.fires, func(f fire) bool {
		if !free[f.run.ID] {
			lost = append(lost, f)
		}
		return !free[f.run.ID]
	})
	return s.explainLost(ctx, tx, w, lost)
}

// Index: run_slots_pkey.
const selectSlots = `
SELECT s.run_id FROM unnest($1::uuid[], $2::timestamptz[]) AS u(j, t) JOIN run_slots s ON s.job_id = u.j AND s.scheduled_at = u.t`

// explainLost records a decision for instants that got no slot because their
// wall time has one at another instant. Those whose instant itself has a slot
// were decided before.
func (s *Store) explainLost(ctx context.Context, tx *txn, w *jobWrites, lost []fire) error {
	jobs, at := make([]uuid.UUID, len(lost)), make([]time.Time, len(lost))
	for i, f := range lost {
		jobs[i], at[i] = f.run.JobID, f.run.ScheduledAt
	}
	decided := map[uuid.UUID]bool{}
	err := tx.query(ctx, selectSlots, []any{jobs, at}, func(rows pgx.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		decided[id] = true
		return err
	})
	if err != nil {
		return err
	}
	for _, f := range lost {
		i := slices.IndexFunc(w.jobs, func(j jobRow) bool { return j.ID == f.run.JobID })
		if decided[f.run.ID] || i < 0 || !w.jobs[i].Active() {
			continue
		}
		e := domain.FiresSkipped{From: f.run.ScheduledAt, To: f.run.ScheduledAt, Count: 1, Reason: domain.SkipCivilTimeRan}
		if err := s.recordJobEvent(w, &w.jobs[i], e, tx.now); err != nil {
			return err
		}
		w.skipped++
	}
	return nil
}

// recordJobEvent applies an event to the job's row and adds it to the log.
func (s *Store) recordJobEvent(w *jobWrites, j *jobRow, e domain.JobEvent, now time.Time) error {
	return s.recordJobEventBy(w, j, e, now, Meta{})
}

func (s *Store) recordJobEventBy(w *jobWrites, j *jobRow, e domain.JobEvent, now time.Time, m Meta) error {
	at := domain.EventTime(j.ChangedAt, now)
	next, err := domain.EvolveJob(j.Job, e, at)
	if err != nil {
		return err
	}
	j.Job = next
	return w.events.add(j.ID, j.Version, at, s.meta(m), e)
}

func (w *jobWrites) queueJobs(b *pgx.Batch) error {
	n := len(w.jobs)
	ids, names, specs, reasons := make([]uuid.UUID, n), make([]string, n), make([]string, n), make([]string, n)
	version, specVersion := make([]int32, n), make([]int32, n)
	paused, archived := make([]bool, n), make([]bool, n)
	next, through, created, changed := make([]*time.Time, n), make([]time.Time, n), make([]time.Time, n), make([]time.Time, n)
	defined := false
	for i, j := range w.jobs {
		ids[i], names[i], version[i], specVersion[i] = j.ID, j.Spec.Name, int32(j.Version), int32(j.SpecVersion)
		paused[i], reasons[i], archived[i] = j.Paused, j.PauseReason, j.Archived
		next[i], through[i], created[i], changed[i] = j.NextFire, j.Watermark, j.CreatedAt, j.ChangedAt
		defined = defined || j.commanded
	}
	if !defined {
		b.Queue(advanceJobs, ids, version, next, through, changed)
		return nil
	}
	for i, j := range w.jobs {
		spec, err := json.Marshal(j.Spec)
		if err != nil {
			return fmt.Errorf("job %s: encode definition: %w", j.Spec.Name, err)
		}
		specs[i] = string(spec)
	}
	b.Queue(upsertJobs, ids, names, specs, version, specVersion, paused, reasons, archived, next, through, created, changed)
	return nil
}
