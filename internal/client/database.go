package client

import (
	"context"
	"log/slog"

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
	actor string
	wake  waker
}

var _ Client = (*Database)(nil)

// Open connects to the database and checks that it is one that commands can be
// given to.
func Open(ctx context.Context, o Options) (*Database, error) {
	store, err := eventstore.Open(ctx, eventstore.Config{DSN: o.DSN, OpsConns: 2, LoopConns: 4, Actor: o.Actor, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	return &Database{
		store: store, read: projections.NewReader(store), actor: o.Actor,
		wake: waker{url: o.NATS, creds: o.NATSCreds},
	}, nil
}

// Close implements [Client].
func (d *Database) Close() { d.store.Close() }

// Store is the store behind the client, for what diagnoses the database itself.
func (d *Database) Store() *eventstore.Store { return d.store }

func (d *Database) meta() eventstore.Meta { return eventstore.Meta{Actor: d.actor} }

func event(r eventstore.Recorded) Event {
	return Event{
		Position: r.Position, Era: r.Era, Category: r.Category, StreamID: r.StreamID, Version: r.Version, Type: r.Type,
		At: r.At, Actor: r.Actor, Correlation: r.Correlation, Causation: r.Causation, Data: r.Data,
	}
}

func events(category domain.Category, all []projections.HistoryEvent) []Event {
	out := make([]Event, len(all))
	for i, h := range all {
		out[i] = Event{
			Position: h.Position, Category: category, StreamID: h.StreamID, Version: h.Version, Type: h.Type,
			At: h.At, Actor: h.Actor, Correlation: h.Correlation, Causation: h.Causation, Data: h.Data,
		}
	}
	return out
}
