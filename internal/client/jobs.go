package client

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

// ListJobs implements [Jobs]. The cursor is the last name.
func (d *Database) ListJobs(ctx context.Context, f JobFilter) (JobPage, error) {
	found, err := d.store.Jobs(ctx, f.Cursor, f.Archived, MaxJobs)
	if err != nil {
		return JobPage{}, err
	}
	p := JobPage{}
	if len(found) == MaxJobs {
		p.Next = found[MaxJobs-1].Spec.Name
	}
	p.Jobs, err = d.withStats(ctx, found)
	return p, err
}

// Job implements [Jobs].
func (d *Database) Job(ctx context.Context, name string) (Job, error) {
	found, err := d.store.Job(ctx, name)
	if err != nil {
		return Job{}, err
	}
	jobs, err := d.withStats(ctx, []eventstore.JobDetail{found})
	if err != nil {
		return Job{}, err
	}
	return jobs[0], nil
}

func (d *Database) withStats(ctx context.Context, found []eventstore.JobDetail) ([]Job, error) {
	names := make([]string, len(found))
	for i, j := range found {
		names[i] = j.Spec.Name
	}
	stats, err := d.read.JobStats(ctx, names...)
	if err != nil {
		return nil, err
	}
	out := make([]Job, len(found))
	for i, j := range found {
		out[i] = jobOf(j.Job)
		out[i].MaterializedThrough, out[i].CreatedAt = j.MaterializedThrough, j.CreatedAt
		if j.NextFire != nil {
			out[i].NextFire = new(j.NextFire.UTC())
		}
		if s, ok := stats[j.Spec.Name]; ok {
			out[i].Stats = &s
		}
	}
	return out, nil
}

func jobOf(j domain.Job) Job {
	state := Active
	switch {
	case j.Archived:
		state = Archived
	case j.Paused:
		state = Paused
	}
	return Job{
		Name: j.Spec.Name, ID: j.ID, State: state, Version: j.Version, SpecVersion: j.SpecVersion,
		PauseReason: j.PauseReason, ChangedAt: j.ChangedAt, Spec: j.Spec,
	}
}

// CommandJob implements [Jobs].
func (d *Database) CommandJob(ctx context.Context, name string, do JobAction, reason string) (Job, bool, error) {
	var command domain.JobCommand
	switch do {
	case Pause:
		command = domain.PauseJob{Reason: reason}
	case Resume:
		command = domain.ResumeJob{Reason: reason}
	case Archive:
		command = domain.ArchiveJob{Reason: reason}
	default:
		return Job{}, false, fmt.Errorf("job %q: unknown action %q", name, do)
	}
	answers, err := d.store.CommandJobs(ctx, []eventstore.JobCommand{{Name: name, Do: command, Meta: d.meta}})
	if err != nil {
		return Job{}, false, err
	}
	d.wakeFor(answers)
	job, err := d.Job(ctx, name)
	return job, len(answers[0].Events) > 0, err
}

func (d *Database) wakeFor(answers []eventstore.JobAnswer) {
	var queues []string
	changed := false
	for _, a := range answers {
		changed = changed || len(a.Events) > 0
		for _, lane := range a.Lanes {
			queues = append(queues, lane.Queue)
		}
	}
	if changed {
		d.wake.jobs(queues...)
	}
}

// JobHistory implements [Jobs].
func (d *Database) JobHistory(ctx context.Context, name string, before, limit int) ([]Event, error) {
	found, err := d.read.JobHistory(ctx, name, before, min(limit, projections.MaxPage))
	if err != nil {
		return nil, err
	}
	return events(domain.CategoryJob, found), nil
}

// Backfill implements [Jobs].
func (d *Database) Backfill(ctx context.Context, b Backfill) (Backfilled, error) {
	got, err := d.store.Backfill(ctx, eventstore.BackfillRequest{Job: b.Job, From: b.From, To: b.To, Limit: b.Limit, Reason: b.Reason, Meta: d.meta})
	if err != nil {
		return Backfilled{}, err
	}
	if got.Created > 0 {
		d.wake.queues(got.Queue)
	}
	return Backfilled{Seen: got.Seen, Created: got.Created, Through: got.Through.UTC(), Done: got.Done}, nil
}
