package evidence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

// Lineage is where a run comes from and what came of it.
type Lineage struct {
	Job        string              `json:"job"`
	Definition *FollowedDefinition `json:"definition"`       // that the run followed
	Before     []Ancestor          `json:"before,omitempty"` // the runs that it is a retry of, the first one first
	Run        Ancestor            `json:"run"`
	Attempts   []projections.Claim `json:"attempts"`
	After      []Ancestor          `json:"after,omitempty"` // runs that are retries of it
}

// FollowedDefinition is a version of a job's definition and who made it.
type FollowedDefinition struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor"`
	Reason  string    `json:"reason,omitempty"`
	Changed []string  `json:"changed,omitempty"` // fields that differ from the version before
}

// Ancestor is a run of a lineage: why it exists, who asked for it and how it
// ended.
type Ancestor struct {
	RunID       uuid.UUID     `json:"run_id"`
	Origin      domain.Origin `json:"origin,omitempty"`
	MadeAt      *time.Time    `json:"made_at,omitempty"`
	MadeBy      string        `json:"made_by,omitempty"`
	Reason      string        `json:"reason,omitempty"`
	Key         string        `json:"key,omitempty"`
	ScheduledAt *time.Time    `json:"scheduled_at,omitempty"`
	State       domain.State  `json:"state,omitempty"`
	Gone        string        `json:"gone,omitempty"` // where its events are, if the log has let go of them
}

// generations bounds how far a lineage goes back.
const generations = 100

// Index: run_summaries_retry_of.
const selectRetries = `SELECT run_id FROM run_summaries WHERE retry_of = $1 ORDER BY run_id LIMIT 100`

// Lineage tells where a run comes from and what came of it, from the log.
// eventstore.ErrNotFound if there is no such run.
func (a *Auditor) Lineage(ctx context.Context, run uuid.UUID) (Lineage, error) {
	d, first, err := a.ancestor(ctx, run)
	if err != nil {
		return Lineage{}, err
	}
	l := Lineage{Job: d.Job, Run: first, Attempts: d.ClaimHistory}
	if l.Definition, err = a.definition(ctx, d.JobID, d.JobVersion); err != nil {
		return l, err
	}
	for at := d.RetryOf; at != nil && len(l.Before) < generations; {
		d, before, err := a.relative(ctx, *at)
		if err != nil {
			return l, fmt.Errorf("run %s, of which run %s is a retry: %w", *at, run, err)
		}
		l.Before = append(l.Before, before)
		at = d.RetryOf
	}
	slices.Reverse(l.Before)
	rows, err := a.store.Pool().Query(ctx, selectRetries, run)
	if err != nil {
		return l, fmt.Errorf("look for retries: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return l, fmt.Errorf("look for retries: %w", err)
	}
	for _, id := range ids {
		_, after, err := a.relative(ctx, id)
		if err != nil {
			return l, fmt.Errorf("run %s, a retry of run %s: %w", id, run, err)
		}
		l.After = append(l.After, after)
	}
	return l, nil
}

// relative is a run before or after the one that is asked about: the log may
// have let go of either.
func (a *Auditor) relative(ctx context.Context, id uuid.UUID) (projections.RunDetail, Ancestor, error) {
	d, r, err := a.ancestor(ctx, id)
	if gone, ok := errors.AsType[*eventstore.RetiredError](err); ok {
		return projections.RunDetail{}, Ancestor{RunID: id, Gone: gone.Error()}, nil
	}
	return d, r, err
}

func (a *Auditor) ancestor(ctx context.Context, id uuid.UUID) (projections.RunDetail, Ancestor, error) {
	events, err := a.reader.RunEvents(ctx, id)
	if err != nil {
		return projections.RunDetail{}, Ancestor{}, err
	}
	d, err := a.reader.GetRun(ctx, id)
	if err != nil {
		return d, Ancestor{}, err
	}
	return d, Ancestor{RunID: id, Origin: d.Origin, MadeAt: &events[0].At, MadeBy: events[0].Actor, Reason: d.RequestReason, Key: d.Key,
		ScheduledAt: &d.ScheduledAt, State: d.State}, nil
}

// definition finds a version in the job's stream; nil if it is not there.
func (a *Auditor) definition(ctx context.Context, job uuid.UUID, version int) (*FollowedDefinition, error) {
	recs, err := a.store.ReadStream(ctx, domain.CategoryJob, job)
	if err != nil && !errors.Is(err, eventstore.ErrNotFound) {
		return nil, err
	}
	for _, rec := range recs {
		if rec.Version != version {
			continue
		}
		e, err := rec.Event()
		if err != nil {
			return nil, fmt.Errorf("job %s version %d: %w", job, version, err)
		}
		d := &FollowedDefinition{Version: version, At: rec.At, Actor: rec.Actor}
		switch e := e.(type) {
		case domain.JobCreated:
			d.Reason = e.Reason
		case domain.JobUpdated:
			d.Reason, d.Changed = e.Reason, e.Changed
		}
		return d, nil
	}
	return nil, nil
}
