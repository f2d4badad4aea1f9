package natsjs

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Watch notices that the dispatch stream was lost: deleted, or its server's store wiped. Every message in it is
// gone then, and only whoever knows the unstarted claims can send them again.
type Watch struct {
	JS       jetstream.JetStream
	Topology Topology
	Known    time.Time // the incarnation the caller has dealt with; zero makes the first look a change

	// Changed deals with a new incarnation, most of all by dispatching the open claims again. After an error it is
	// called again at the next look; after nil the incarnation is Known. It may be called twice for one.
	Changed func(ctx context.Context, created time.Time) error

	Every  time.Duration // between looks; 0 means 1 s
	Logger *slog.Logger

	failing bool
}

// Step looks once. A stream that is absent is created, with the whole topology.
func (w *Watch) Step(ctx context.Context) (changed bool, err error) {
	created, err := DispatchCreated(ctx, w.JS)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		var info Info
		info, err = Ensure(ctx, w.JS, w.Topology)
		created = info.DispatchCreated
	}
	if err != nil || created.Equal(w.Known) {
		return false, err
	}
	if err := w.Changed(ctx, created); err != nil {
		return false, err
	}
	w.Known = created
	return true, nil
}

// Run looks until ctx ends and then returns nil. Failures are logged when they begin and end.
func (w *Watch) Run(ctx context.Context) error {
	log := cmp.Or(w.Logger, slog.Default())
	tick := time.NewTicker(cmp.Or(w.Every, time.Second))
	defer tick.Stop()
	for {
		changed, err := w.Step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !w.failing:
			log.Warn("cannot look after the dispatch stream", "error", err)
		case err == nil && w.failing:
			log.Info("looking after the dispatch stream again")
		}
		if changed {
			log.Info("dispatch stream is a new one", "created", w.Known)
		}
		w.failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
