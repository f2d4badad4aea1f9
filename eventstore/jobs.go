package eventstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// jobRow is a job as its row has it.
type jobRow struct {
	domain.Job
	NextFire  *time.Time
	Watermark time.Time // every instant up to here has its decision
	CreatedAt time.Time

	commanded bool // the whole row is written, not only how far it is
}

const jobColumns = `id, name, spec, version, spec_version, paused, pause_reason, archived, next_fire, materialized_through, created_at, changed_at`

// scanJob reads jobColumns, and behind them whatever else was selected.
func scanJob(rows pgx.Rows, more ...any) (jobRow, error) {
	j, name, spec, err := scanUndecoded(rows, more...)
	if err != nil {
		return j, err
	}
	if err := json.Unmarshal(spec, &j.Spec); err != nil {
		return j, fmt.Errorf("job %s: %w: decode definition: %w", name, domain.ErrUndecodable, err)
	}
	return j, nil
}

// scanUndecoded leaves the definition as it is stored.
func scanUndecoded(rows pgx.Rows, more ...any) (j jobRow, name string, spec []byte, err error) {
	err = rows.Scan(append([]any{&j.ID, &name, &spec, &j.Version, &j.SpecVersion, &j.Paused, &j.PauseReason, &j.Archived,
		&j.NextFire, &j.Watermark, &j.CreatedAt, &j.ChangedAt}, more...)...)
	j.Watermark, j.CreatedAt, j.ChangedAt = j.Watermark.UTC(), j.CreatedAt.UTC(), j.ChangedAt.UTC()
	return j, name, spec, err
}

// JobCommand is something asked of one job.
type JobCommand struct {
	Name   string
	Do     domain.JobCommand
	Expect int // version the job must have; 0: any
	Meta   Meta
}

// JobAnswer is what became of a job command.
type JobAnswer struct {
	Name   string
	Job    domain.Job        // after
	Events []domain.JobEvent // none: the job was as asked for
	Fired  int               // instants that were due under the definition before
	Lanes  []WorkerLane      // lanes with runs that came due by it
}

// Index: jobs_name_key.
const lockJobs = `SELECT ` + jobColumns + ` FROM jobs WHERE name = ANY($1) ORDER BY id FOR UPDATE`

// CommandJobs decides the commands, of which there is one a job at most, in one
// transaction: all or none. Whatever was due by then is decided first, under the
// definition that was in force: no edit and no pause loses an instant. Commands
// that bear the cause of events that are there are answered with those, whatever
// version they expect, and change nothing.
func (s *Store) CommandJobs(ctx context.Context, commands []JobCommand) ([]JobAnswer, error) {
	var out []JobAnswer
	err := s.withPartitions(ctx, func(span *span) error {
		return again(ctx, func() (err error) {
			out, err = s.commandJobs(ctx, commands, span)
			return err
		})
	})
	return out, err
}

func (s *Store) commandJobs(ctx context.Context, commands []JobCommand, span *span) ([]JobAnswer, error) {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Name
	}
	slices.Sort(names)
	if dup := len(names) - len(slices.Compact(slices.Clone(names))); dup > 0 {
		return nil, errors.New("a job is named more than once")
	}
	jobs := map[string]*jobRow{}
	tx, err := begin(ctx, s.loops, lockJobs, []any{names}, func(rows pgx.Rows) error {
		j, err := scanJob(rows)
		jobs[j.Spec.Name] = &j
		return err
	})
	if err != nil {
		return nil, err
	}
	defer tx.rollback(ctx)
	before, err := repeatedCommands(ctx, tx, commands)
	if err != nil {
		return nil, err
	}
	var w jobWrites
	out := make([]JobAnswer, len(commands))
	for i, c := range commands {
		j := jobs[c.Name]
		if j == nil {
			j = &jobRow{Job: domain.Job{ID: domain.JobID(c.Name)}, CreatedAt: tx.now, Watermark: tx.now}
			j.Spec.Name = c.Name
		}
		a := &out[i]
		a.Name = c.Name
		if before.of(c) {
			a.Job, a.Events = j.Job, before.events[j.ID]
			continue
		}
		if c.Expect != 0 && c.Expect != j.Version {
			return nil, &domain.JobRefusal{Name: c.Name, Code: domain.JobConflict}
		}
		events, err := domain.DecideJob(j.Job, c.Do)
		if err != nil {
			return nil, err
		}
		if len(events) > 0 {
			already := len(w.fires)
			if err := s.decideDue(&w, j, tx.now, maxFiresOfCommand); err != nil {
				return nil, err
			}
			for _, f := range w.fires[already:] {
				a.Lanes = append(a.Lanes, WorkerLane{f.run.Queue, f.run.Kind})
			}
			a.Fired = len(w.fires) - already
			if err := s.record(ctx, tx, &w, j, events, c.Meta); err != nil {
				return nil, err
			}
		}
		a.Job, a.Events = j.Job, events
	}
	if len(w.jobs) == 0 {
		return out, nil
	}
	if err := s.writeJobs(ctx, tx, &w, span); err != nil {
		return nil, err
	}
	return out, nil
}

// maxFiresOfCommand bounds what one command decides for one job. Beyond it the
// command is refused until the materializer has caught up.
const maxFiresOfCommand = 5000

// record applies the job's new events and moves its watermark to now, from where
// the new definition counts. That is never before the watermark: a command waits
// for the job's row, and whoever had it may have decided instants after this
// transaction began.
func (s *Store) record(ctx context.Context, tx *txn, w *jobWrites, j *jobRow, events []domain.JobEvent, m Meta) error {
	now := domain.EventTime(j.Watermark, tx.now)
	for _, e := range events {
		at := domain.EventTime(j.ChangedAt, now)
		next, err := domain.EvolveJob(j.Job, e, at)
		if err != nil {
			return err
		}
		j.Job = next
		if err := w.events.add(j.ID, j.Version, at, s.meta(m), e); err != nil {
			return err
		}
		if _, ok := e.(domain.JobArchived); ok {
			if err := s.cancelPending(ctx, tx, w, j.Job, m); err != nil {
				return err
			}
		}
	}
	j.Watermark, j.commanded = now, true
	set, err := j.Spec.Instants()
	if err != nil {
		return fmt.Errorf("job %s: %w", j.Spec.Name, err)
	}
	j.NextFire = nil
	if at, ok := j.Job.NextFire(set, j.Watermark); ok {
		j.NextFire = &at
	}
	w.jobs = append(w.jobs, *j)
	return nil
}

// Index: due_runs_job.
const lockDueOfJob = `SELECT ` + dueColumns + ` FROM due_runs WHERE job_id = $1 ORDER BY run_id FOR UPDATE`

// Index: waiting_runs_job.
const lockWaitingOfJob = `SELECT ` + dueColumns + ` FROM waiting_runs WHERE job_id = $1 ORDER BY run_id FOR UPDATE`

// Index: limit_holders_run, due_runs_job, waiting_runs_job, limit_keys_pkey.
const lockKeysOfJob = `
SELECT key FROM limit_keys
 WHERE key IN (SELECT h.key FROM due_runs d JOIN limit_holders h ON h.run_id = d.run_id WHERE d.job_id = $1
               UNION SELECT h.key FROM waiting_runs w JOIN limit_holders h ON h.run_id = w.run_id WHERE w.job_id = $1) ORDER BY key FOR UPDATE`

// cancelPending cancels the runs of an archived job that are not in hand. Places
// that such runs hold are of the job's own, so nobody else waits for them.
func (s *Store) cancelPending(ctx context.Context, tx *txn, w *jobWrites, j domain.Job, m Meta) error {
	var keys []string
	if err := tx.query(ctx, lockKeysOfJob, []any{j.ID}, appendText(&keys)); err != nil {
		return err
	}
	if w.archived == nil {
		w.archived = map[uuid.UUID]bool{}
	}
	w.archived[j.ID] = true
	// A run may move from one table to the other between the two statements, but
	// not once it is locked: look until nothing new is found.
	seen := map[uuid.UUID]bool{}
	for before := -1; before < len(seen); {
		before = len(seen)
		if err := s.cancelRows(ctx, tx, w, lockDueOfJob, &w.dropDue, seen, j, m); err != nil {
			return err
		}
		if err := s.cancelRows(ctx, tx, w, lockWaitingOfJob, &w.unwait, seen, j, m); err != nil {
			return err
		}
	}
	return nil
}

// reasonArchived is why an archived job's runs are cancelled.
const reasonArchived = "job archived"

func (s *Store) cancelRows(ctx context.Context, tx *txn, w *jobWrites, sql string, drop *[]uuid.UUID, seen map[uuid.UUID]bool, j domain.Job, m Meta) error {
	var read runReader
	return tx.query(ctx, sql, []any{j.ID}, func(rows pgx.Rows) error {
		r, err := read.due(rows)
		if err != nil || seen[r.ID] {
			return err
		}
		seen[r.ID] = true
		d, err := domain.DecideRun(r, domain.CancelRun{Reason: reasonArchived}, tx.now)
		if err != nil {
			return err
		}
		*drop = append(*drop, r.ID)
		return w.events.add(r.ID, r.Version+1, domain.EventTime(r.ChangedAt, tx.now), s.meta(m), d.Event)
	})
}

// JobDetail is a job as it stands.
type JobDetail struct {
	domain.Job
	NextFire            *time.Time
	MaterializedThrough time.Time
	CreatedAt           time.Time
}

// Index: jobs_name_key.
const selectJob = `SELECT ` + jobColumns + ` FROM jobs WHERE name = $1`

// Job reads one job; ErrNotFound if there is none of that name.
func (s *Store) Job(ctx context.Context, name string) (JobDetail, error) {
	jobs, err := s.selectJobs(ctx, selectJob, name)
	if err != nil {
		return JobDetail{}, err
	}
	if len(jobs) == 0 {
		return JobDetail{}, fmt.Errorf("job %q: %w", name, ErrNotFound)
	}
	return jobs[0], nil
}

// Index: jobs_name_key, in its order.
const selectJobPage = `SELECT ` + jobColumns + ` FROM jobs WHERE name > $1 AND ($2 OR NOT archived) ORDER BY name LIMIT $3`

// Jobs lists jobs by name, those after the given one.
func (s *Store) Jobs(ctx context.Context, after string, archived bool, limit int) ([]JobDetail, error) {
	return s.selectJobs(ctx, selectJobPage, after, archived, limit)
}

// Index: none; the statement is for people, and jobs are few beside runs.
const selectJobsOf = `SELECT ` + jobColumns + ` FROM jobs WHERE spec->>'source' = $1 AND NOT archived ORDER BY name`

// JobsOf lists the jobs that a file owns.
func (s *Store) JobsOf(ctx context.Context, source string) ([]JobDetail, error) {
	return s.selectJobs(ctx, selectJobsOf, source)
}

func (s *Store) selectJobs(ctx context.Context, sql string, args ...any) ([]JobDetail, error) {
	rows, err := s.loops.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	var out []JobDetail
	err = eachRow(rows, func(rows pgx.Rows) error {
		j, name, spec, err := scanUndecoded(rows)
		if err == nil {
			if j.Spec, err = s.shown.decode(j.ID, spec); err != nil {
				err = fmt.Errorf("job %s: %w: decode definition: %w", name, domain.ErrUndecodable, err)
			}
		}
		out = append(out, JobDetail{Job: j.Job, NextFire: j.NextFire, MaterializedThrough: j.Watermark, CreatedAt: j.CreatedAt})
		return err
	})
	return out, err
}

// jobWrites is what a transaction over jobs changes.
type jobWrites struct {
	jobs     []jobRow
	events   eventRows
	last     func(*pgx.Batch) // queues a question before the commit
	fires    []fire
	dropDue  []uuid.UUID
	unwait   []uuid.UUID
	archived map[uuid.UUID]bool // jobs that the transaction archives
	skipped  int                // instants covered by FiresSkipped
	direct   *direct            // nil: runs wait for a claim
	waiting  []string           // queues of those that do
}

func (w *jobWrites) runs() []domain.Run {
	if w.direct == nil {
		return nil
	}
	runs := make([]domain.Run, 0, len(w.fires))
	for _, f := range w.fires {
		if !w.archived[f.run.JobID] {
			runs = append(runs, f.run)
		}
	}
	return runs
}

// fire is an instant that is to get a run.
type fire struct {
	run   domain.Run
	event domain.RunScheduled
	at    time.Time // dates the event
	meta  Meta
	civil string
}
