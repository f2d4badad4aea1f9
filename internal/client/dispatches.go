package client

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/projections/evidence"
)

// Broker tells which claims lie dispatched with it, and when its stream was made.
type Broker interface {
	Dispatched(ctx context.Context) (claims map[uuid.UUID]bool, stream time.Time, err error)
}

// dispatches implements [evidence.Dispatches].
type dispatches struct {
	*Database
}

func (d dispatches) Waiting(ctx context.Context) (map[uuid.UUID]bool, error) {
	return outbox.ReadClaims(ctx, d.store.Pool())
}

func (d dispatches) Sent(ctx context.Context) (map[uuid.UUID]bool, time.Time, error) {
	if d.broker == nil {
		return nil, time.Time{}, evidence.ErrNoBroker
	}
	return d.broker.Dispatched(ctx)
}

// brokerAt connects for each question: whoever asks does it once.
type brokerAt struct{ url, creds string }

const brokerTimeout = 5 * time.Second

// Dispatched implements [Broker].
func (b brokerAt) Dispatched(ctx context.Context) (map[uuid.UUID]bool, time.Time, error) {
	nc, err := natsjs.Connect(natsjs.ConnectOptions{
		URL: b.url, CredsFile: b.creds, Name: "daybook-audit", Logger: slog.New(slog.DiscardHandler),
		Extra: []nats.Option{nats.RetryOnFailedConnect(false), nats.NoReconnect(), nats.Timeout(brokerTimeout)},
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, time.Time{}, err
	}
	return natsjs.Dispatched(ctx, js)
}
