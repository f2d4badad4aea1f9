package natsjs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Watch notices that streams were lost: deleted, or their server's store wiped. It creates them again and tells of
// a new dispatch stream. Every message of the old one is gone then, and only whoever knows the unstarted claims
// can send them again.
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

// Step looks once. Streams that are absent are created; on the first look those that are there are compared.
func (w *Watch) Step(ctx context.Context) (changed bool, err error) {
	if complete, err := w.complete(ctx); err != nil {
		return false, err
	} else if !complete || w.Known.IsZero() { // at first, to see whether they are as they should be
		if _, err := Ensure(ctx, w.JS, w.Topology); err != nil {
			return false, err
		}
	}
	created, err := DispatchCreated(ctx, w.JS)
	if err != nil || created.Equal(w.Known) {
		return false, err
	}
	if err := w.Changed(ctx, created); err != nil {
		return false, err
	}
	w.Known = created
	return true, nil
}

// complete reports whether all our streams are there.
func (w *Watch) complete(ctx context.Context) (bool, error) {
	names, err := ask(ctx, func(ctx context.Context) ([]string, error) {
		list := w.JS.StreamNames(ctx, jetstream.WithStreamListSubject(allSubjects))
		return drain(list.Name(), list.Err)
	})
	if err != nil {
		return false, fmt.Errorf("list streams: %w", err)
	}
	for _, s := range w.Topology.streams() {
		if !slices.Contains(names, s.Name) {
			return false, nil
		}
	}
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
