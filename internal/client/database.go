package client

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

// Options say how to reach a deployment through its database.
type Options struct {
	DSN   string // of the application's role
	Actor string // recorded with every command

	// NATS is where engines listen for hints that work came due; empty: they
	// find it by polling. Credentials may be empty.
	NATS, NATSCreds string

	Logger *slog.Logger // nil: discarded
}

// Database is a Client over the log's database.
type Database struct {
	store *eventstore.Store
	read  *projections.Reader
	meta  eventstore.Meta // recorded with every command
	wake  hints
	lent  bool // the store is somebody else's

	broker Broker // nil: there is none to ask
}

var _ Client = (*Database)(nil)

// Open connects to the database and checks that it is one that commands can be
// given to.
func Open(ctx context.Context, o Options) (*Database, error) {
	store, err := eventstore.Open(ctx, eventstore.Config{DSN: o.DSN, OpsConns: 2, LoopConns: 4, Actor: o.Actor, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	d := &Database{
		store: store, read: projections.NewReader(store), meta: eventstore.Meta{Actor: o.Actor},
		wake: waker{url: o.NATS, creds: o.NATSCreds},
	}
	if o.NATS != "" {
		d.broker = brokerAt{o.NATS, o.NATSCreds}
	}
	return d, nil
}

// Over is a client over a store that stays its owner's, for a request to an
// engine. Hints and broker may be nil.
func Over(store *eventstore.Store, meta eventstore.Meta, h Hints, b Broker) *Database {
	return &Database{store: store, read: projections.NewReader(store), meta: meta, wake: engineHints{h}, lent: true, broker: b}
}

// Hints spare an engine the asking.
type Hints interface {
	Due(queue string)            // runs of the queue may have come due
	JobsChanged()                // instants may have come due or moved
	Cancelled(runs ...uuid.UUID) // they were asked to end
}

// hints are Hints as commands give them.
type hints interface {
	queues(queues ...string)
	jobs(queues ...string)
	cancelled(run uuid.UUID)
}

type engineHints struct{ Hints }

func (h engineHints) queues(queues ...string) {
	for _, q := range queues {
		if h.Hints != nil {
			h.Due(q)
		}
	}
}

func (h engineHints) jobs(queues ...string) {
	if h.Hints != nil {
		h.JobsChanged()
	}
	h.queues(queues...)
}

func (h engineHints) cancelled(run uuid.UUID) {
	if h.Hints != nil {
		h.Cancelled(run)
	}
}

// Close implements [Client].
func (d *Database) Close() {
	if !d.lent {
		d.store.Close()
	}
}

// Store is the store behind the client, for what diagnoses the database itself.
func (d *Database) Store() *eventstore.Store { return d.store }

func events(category domain.Category, all []projections.HistoryEvent) []Event {
	out := make([]Event, len(all))
	for i, h := range all {
		out[i] = Event{
			Position: h.Position, Era: h.Era, Category: category, StreamID: h.StreamID, Version: h.Version, Type: h.Type,
			At: h.At, Actor: h.Actor, Correlation: h.Correlation, Causation: h.Causation, Data: h.Data,
		}
	}
	return out
}
