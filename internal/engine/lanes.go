package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/worker/protocol"
)

// laneKeeper sees to it that every lane a worker declares has its consumer. It
// does not hold up claims: a worker that cannot pull polls over HTTP.
type laneKeeper struct {
	store    *eventstore.Store
	js       jetstream.JetStream
	topology natsjs.Topology
	log      *slog.Logger

	mu      sync.Mutex
	ensured map[eventstore.WorkerLane]bool
}

const laneCheckEvery = 5 * time.Second

// Step makes the consumers that are missing.
func (k *laneKeeper) Step(ctx context.Context) (did bool, next time.Duration, err error) {
	workers, err := k.store.Workers(ctx)
	if err != nil {
		return false, 0, err
	}
	var errs []error
	for _, lane := range lanes(workers) {
		if k.has(lane) {
			continue
		}
		name, err := natsjs.EnsureConsumer(ctx, k.js, k.topology, protocol.Lane{Queue: lane.Queue, Kind: lane.Kind})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		did = true
		k.log.InfoContext(ctx, "lane is open", "queue", lane.Queue, "kind", lane.Kind, "consumer", name)
		k.note(lane)
	}
	return did, laneCheckEvery, errors.Join(errs...)
}

func (k *laneKeeper) has(lane eventstore.WorkerLane) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ensured[lane]
}

func (k *laneKeeper) note(lane eventstore.WorkerLane) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ensured == nil {
		k.ensured = map[eventstore.WorkerLane]bool{}
	}
	k.ensured[lane] = true
}

// forget makes the next step look at every lane again: the stream is another.
func (k *laneKeeper) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ensured = nil
}
