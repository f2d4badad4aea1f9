package client

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/projections"
)

// Outbox is what waits to be published.
type Outbox struct {
	Pending Backlog `json:"pending"` // for the first time
	Failed  Backlog `json:"failed"`  // again
	Parked  Backlog `json:"parked"`  // for somebody to look at it
	Packs   []Pack  `json:"packs"`   // parked ones first, then failed ones, each oldest first
}

// Backlog sums up the packs of one state.
type Backlog struct {
	Packs    int             `json:"packs"`
	Messages int             `json:"messages"`
	Oldest   domain.Duration `json:"oldest"` // age; 0 if there are none
}

// Pack is the messages of one claim.
type Pack struct {
	ID        uuid.UUID       `json:"id"`
	State     string          `json:"state"`
	Messages  int             `json:"messages"`
	Attempts  int             `json:"attempts"`
	Age       domain.Duration `json:"age"`
	CreatedAt time.Time       `json:"created_at"`
	Until     time.Time       `json:"until"` // its owner's; after a failure, when it is tried again
	Owner     string          `json:"owner"`
	LastError string          `json:"last_error,omitempty"`
	ParkedAt  *time.Time      `json:"parked_at,omitempty"`
}

// Packs selects packs. Conditions that are set must all hold.
type Packs struct {
	All   bool        `json:"all,omitempty" doc:"Every failed and parked pack"`
	IDs   []uuid.UUID `json:"ids,omitempty" doc:"These packs"`
	Since time.Time   `json:"since,omitzero" doc:"Made at or after"`
	Until time.Time   `json:"until,omitzero" doc:"Made before"`
}

// OutboxStatus implements [Operations].
func (d *Database) OutboxStatus(ctx context.Context, limit int) (Outbox, error) {
	s, err := outbox.ReadStatus(ctx, d.store.Pool(), limit)
	if err != nil {
		return Outbox{}, err
	}
	out := Outbox{Pending: backlog(s.Pending), Failed: backlog(s.Failed), Parked: backlog(s.Parked), Packs: make([]Pack, len(s.Packs))}
	for i, p := range s.Packs {
		out.Packs[i] = Pack{
			ID: p.ID, State: string(p.State), Messages: p.Messages, Attempts: p.Attempts, Age: domain.Duration(p.Age),
			CreatedAt: p.CreatedAt, Until: p.Until, Owner: p.Owner, LastError: p.LastError,
		}
		if !p.ParkedAt.IsZero() {
			out.Packs[i].ParkedAt = &p.ParkedAt
		}
	}
	return out, nil
}

func backlog(b outbox.Backlog) Backlog {
	return Backlog{Packs: b.Packs, Messages: b.Messages, Oldest: domain.Duration(b.Oldest)}
}

// ReplayOutbox implements [Operations].
func (d *Database) ReplayOutbox(ctx context.Context, s Packs) (int, error) {
	return outbox.Replay(ctx, d.store.Pool(), outbox.Selection{All: s.All, IDs: s.IDs, From: s.Since, To: s.Until})
}

// Rates implements [Operations].
func (d *Database) Rates(ctx context.Context, f projections.StatsFilter) (projections.Rates, error) {
	return d.read.Rates(ctx, f)
}

// Durations implements [Operations].
func (d *Database) Durations(ctx context.Context, f projections.StatsFilter) (projections.Durations, error) {
	return d.read.Durations(ctx, f)
}

// Queues implements [Operations].
func (d *Database) Queues(ctx context.Context) ([]projections.QueueStats, error) {
	return d.read.Queues(ctx)
}

// Workers implements [Operations].
func (d *Database) Workers(ctx context.Context) ([]Worker, error) {
	found, err := d.store.Workers(ctx)
	if err != nil {
		return nil, err
	}
	loads, err := d.store.Loads(ctx)
	if err != nil {
		return nil, err
	}
	running := map[string]int{}
	for _, l := range loads {
		if l.Worker != "" {
			running[l.Worker] += l.Claims
		}
	}
	out := make([]Worker, len(found))
	for i, w := range found {
		out[i] = Worker{ID: w.ID, Host: w.Host, Version: w.Version, Slots: w.Slots, Running: running[w.ID], FirstSeen: w.FirstSeen, SeenAt: w.SeenAt,
			Lanes: make([]Lane, len(w.Lanes))}
		for k, l := range w.Lanes {
			out[i].Lanes[k] = Lane(l)
		}
	}
	return out, nil
}

// Engines implements [Operations].
func (d *Database) Engines(ctx context.Context) ([]Engine, error) {
	found, err := d.store.Engines(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Engine, len(found))
	for i, e := range found {
		out[i] = Engine{ID: e.ID, Roles: e.Roles, Version: e.Version, Host: e.Host, SeenAt: e.SeenAt}
	}
	return out, nil
}

// Parked implements [Operations].
func (d *Database) Parked(ctx context.Context, limit int, runs ...uuid.UUID) ([]Parked, error) {
	found, err := d.store.ListParked(ctx, limit, runs...)
	if err != nil {
		return nil, err
	}
	out := make([]Parked, len(found))
	for i, p := range found {
		out[i] = Parked(p)
	}
	return out, nil
}

// Unpark implements [Operations].
func (d *Database) Unpark(ctx context.Context, run uuid.UUID) (Unparked, error) {
	got, err := d.store.Unpark(ctx, run, d.meta)
	if err != nil {
		return Unparked{}, err
	}
	if got.Outcome == eventstore.UnparkedDue {
		d.wake.queues(got.Run.Queue)
	}
	return Unparked{RunID: run, Outcome: got.Outcome}, nil
}

// Status is what a deployment is and what time it has.
type Status struct {
	Now     time.Time `json:"now"`               // by the database, whose clock decides
	Version string    `json:"version,omitempty"` // of the engine that answers; empty: nobody was asked but the database
	Schema  int64     `json:"schema"`            // version of the database's schema
	Era     int       `json:"era"`               // the present history
}

// Status implements [Operations].
func (d *Database) Status(ctx context.Context) (Status, error) {
	s, err := d.store.Status(ctx)
	return Status{Now: s.Now, Schema: s.Schema, Era: s.Era}, err
}

// Era is a history of the database without forks.
type Era struct {
	Era              int       `json:"era"`
	RaisedAt         time.Time `json:"raised_at"`
	Reason           string    `json:"reason"`
	SystemIdentifier string    `json:"system_identifier"` // of the PostgreSQL cluster
	Timeline         int64     `json:"timeline"`          // of the cluster
}

// Eras implements [Operations].
func (d *Database) Eras(ctx context.Context) ([]Era, error) {
	found, err := d.store.Eras(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]Era, len(found))
	for i, e := range found {
		out[i] = Era{Era: e.Number, RaisedAt: e.RaisedAt, Reason: e.Reason, SystemIdentifier: e.SystemIdentifier, Timeline: e.Timeline}
	}
	return out, nil
}
