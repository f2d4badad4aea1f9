package client

import (
	"context"
	"time"

	"github.com/google/uuid"

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
	// Verify folds the whole log and holds everything else against it, the broker's
	// messages included where there is one to ask.
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
	// Projections tells how far each read model is.
	Projections(ctx context.Context) ([]ProjectionState, error)
	// CheckProjection compares a read model with the log: all of it, or about as
	// many runs as the sample says.
	CheckProjection(ctx context.Context, name string, sample int) (projections.CheckReport, error)
	// RebuildProjection makes a read model anew beside the old one and swaps.
	RebuildProjection(ctx context.Context, name string, progress func(projections.Progress)) error
}

// ProjectionState is one read model.
type ProjectionState struct {
	Name string          `json:"name"`
	Lag  projections.Lag `json:"lag"`
}

func (d *Database) audit() *evidence.Auditor { return evidence.New(d.store) }

// Explain implements [Evidence].
func (d *Database) Explain(ctx context.Context, job string, at time.Time) (evidence.Explanation, error) {
	x, err := d.audit().Explain(ctx, job, at)
	if x.Chain == nil {
		x.Chain = []string{}
	}
	return x, err
}

// Coverage implements [Evidence].
func (d *Database) Coverage(ctx context.Context, job string, from, to time.Time) (evidence.Coverage, error) {
	return d.audit().Coverage(ctx, job, from, to)
}

// Verify implements [Evidence].
func (d *Database) Verify(ctx context.Context, progress func(int)) (evidence.Report, error) {
	return d.audit().Asking(dispatches{d}).Verify(ctx, progress)
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
