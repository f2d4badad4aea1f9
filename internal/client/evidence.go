package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
	"github.com/daybookhq/daybook/projections/evidence"
	"github.com/daybookhq/daybook/projections/retention"
)

// Evidence is what the log proves.
type Evidence interface {
	// Explain tells what became of one instant of a job, and why.
	Explain(ctx context.Context, job string, at time.Time) (evidence.Explanation, error)
	// Coverage compares what the recorded schedules implied with what is on
	// record, both ends included.
	Coverage(ctx context.Context, job string, from, to time.Time) (evidence.Coverage, error)
	// Verify folds the whole log and holds everything else against it.
	Verify(ctx context.Context, progress func(events int)) (evidence.Report, error)
	// Lineage tells where a run comes from and what came of it.
	Lineage(ctx context.Context, run uuid.UUID) (evidence.Lineage, error)
	// JobAsOf, RunAsOf and QueuesAsOf tell what stood at an instant.
	JobAsOf(ctx context.Context, name string, at time.Time) (Job, error)
	RunAsOf(ctx context.Context, id uuid.UUID, at time.Time) (projections.RunDetail, error)
	QueuesAsOf(ctx context.Context, at time.Time) ([]projections.QueueStats, error)
	// Retention tells what is kept and for how long, what is due to go and what is
	// gone.
	Retention(ctx context.Context) (retention.Plan, error)
	// Export writes events, a line of JSON each, in commit-safe order.
	Export(ctx context.Context, w io.Writer, e Export) (Exported, error)
	// Projections tells how far each read model is.
	Projections(ctx context.Context) ([]ProjectionState, error)
	// CheckProjection compares a read model with the log: all of it, or about as
	// many runs as the sample says.
	CheckProjection(ctx context.Context, name string, sample int) (projections.CheckReport, error)
	// RebuildProjection makes a read model anew beside the old one and swaps.
	RebuildProjection(ctx context.Context, name string, progress func(projections.Progress)) error
}

// Export says which events to write.
type Export struct {
	Job      string    // empty: all jobs
	From, To time.Time // zero: from the beginning, to now
	After    string    // the place that an earlier export ended at

	// Page is called after each page of the log with the place to go on from; what
	// came before has been written. Nil: nobody wants to know.
	Page func(next string) error
}

// Exported tells what was written and where to go on.
type Exported struct {
	Events int    `json:"events"`
	Next   string `json:"next"`
}

// ProjectionState is one read model.
type ProjectionState struct {
	Name string          `json:"name"`
	Lag  projections.Lag `json:"lag"`
}

func (d *Database) audit() *evidence.Auditor { return evidence.New(d.store) }

// Explain implements [Evidence].
func (d *Database) Explain(ctx context.Context, job string, at time.Time) (evidence.Explanation, error) {
	return d.audit().Explain(ctx, job, at)
}

// Coverage implements [Evidence].
func (d *Database) Coverage(ctx context.Context, job string, from, to time.Time) (evidence.Coverage, error) {
	return d.audit().Coverage(ctx, job, from, to)
}

// Verify implements [Evidence].
func (d *Database) Verify(ctx context.Context, progress func(int)) (evidence.Report, error) {
	return d.audit().Verify(ctx, progress)
}

// Lineage implements [Evidence].
func (d *Database) Lineage(ctx context.Context, run uuid.UUID) (evidence.Lineage, error) {
	return d.audit().Lineage(ctx, run)
}

// JobAsOf implements [Evidence].
func (d *Database) JobAsOf(ctx context.Context, name string, at time.Time) (Job, error) {
	found, err := d.read.JobAsOf(ctx, name, at)
	if err != nil {
		return Job{}, err
	}
	j := jobOf(found.Job)
	j.CreatedAt, j.NextFire = found.CreatedAt, found.NextFire
	return j, nil
}

// RunAsOf implements [Evidence].
func (d *Database) RunAsOf(ctx context.Context, id uuid.UUID, at time.Time) (projections.RunDetail, error) {
	return d.read.RunAsOf(ctx, id, at)
}

// QueuesAsOf implements [Evidence].
func (d *Database) QueuesAsOf(ctx context.Context, at time.Time) ([]projections.QueueStats, error) {
	return d.read.QueuesAsOf(ctx, at)
}

// Retention implements [Evidence].
func (d *Database) Retention(ctx context.Context) (retention.Plan, error) {
	return retention.PlanOf(ctx, d.store)
}

// Projections implements [Evidence].
func (d *Database) Projections(ctx context.Context) ([]ProjectionState, error) {
	lag, err := d.read.Lag(ctx)
	if err != nil {
		return nil, err
	}
	return []ProjectionState{{Name: projections.RunSummariesName, Lag: lag}}, nil
}

// CheckProjection implements [Evidence].
func (d *Database) CheckProjection(ctx context.Context, name string, sample int) (projections.CheckReport, error) {
	return projections.Check(ctx, d.store, name, sample)
}

// RebuildProjection implements [Evidence].
func (d *Database) RebuildProjection(ctx context.Context, name string, progress func(projections.Progress)) error {
	return projections.Rebuild(ctx, d.store, name, nil, progress)
}

const exportPage = 5000

// Index: the primary keys of the partitions.
const runsOfJob = `
SELECT e.stream_id FROM unnest($1::uuid[]) AS u(s) JOIN events e ON e.category = 'run' AND e.stream_id = u.s AND e.version = 1
 WHERE e.data->>'job_id' = $2`

// Export implements [Evidence]. What commits while it runs is written too, as
// far as it lies before To; an export without To ends where the log ended when
// it got there.
func (d *Database) Export(ctx context.Context, w io.Writer, e Export) (Exported, error) {
	var cursor eventstore.Cursor
	if e.After != "" {
		if err := json.Unmarshal([]byte(e.After), &cursor); err != nil {
			return Exported{}, fmt.Errorf("place %q: want what an earlier export printed", e.After)
		}
	}
	out := json.NewEncoder(w)
	var done Exported
	for {
		page, next, err := d.store.Read(ctx, cursor, exportPage)
		if err != nil {
			return done, err
		}
		of, err := d.streamsOf(ctx, e.Job, page)
		if err != nil {
			return done, err
		}
		for _, r := range page {
			if !e.From.IsZero() && r.At.Before(e.From) || !e.To.IsZero() && r.At.After(e.To) || e.Job != "" && !of[r.StreamID] {
				continue
			}
			if err := out.Encode(event(r)); err != nil {
				return done, err
			}
			done.Events++
		}
		cursor = next
		place, err := json.Marshal(cursor)
		if err != nil {
			return done, err
		}
		done.Next = string(place)
		if e.Page != nil {
			if err := e.Page(done.Next); err != nil {
				return done, err
			}
		}
		if len(page) < exportPage {
			return done, nil
		}
	}
}

// streamsOf tells which streams of the page are the job's: its own and those of
// its runs.
func (d *Database) streamsOf(ctx context.Context, job string, page []eventstore.Recorded) (map[uuid.UUID]bool, error) {
	if job == "" {
		return nil, nil
	}
	id := domain.JobID(job)
	of := map[uuid.UUID]bool{id: true}
	var runs []uuid.UUID
	for _, r := range page {
		if r.Category == domain.CategoryRun {
			runs = append(runs, r.StreamID)
		}
	}
	slices.SortFunc(runs, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	rows, err := d.store.Pool().Query(ctx, runsOfJob, slices.Compact(runs), id.String())
	if err != nil {
		return nil, fmt.Errorf("find the job's runs: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	for _, run := range found {
		of[run] = true
	}
	return of, err
}
