package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/projections"
	"github.com/daybookhq/daybook/projections/retention"
)

// Deployment names this installation in the source of the events that leave it.
const Deployment = "default"

func (e *Engine) newParts() (err error) {
	e.relay, err = outbox.NewRelay(outbox.Config{
		DB: e.c.Store.Pool(), Publisher: e.publisher, Dead: e.publisher, Releaser: releaser{e.c.Store, e.metrics}, Owner: e.c.ID,
		Logger: e.c.Logger, PublishTimeout: e.budget.Publish,
	})
	if err != nil {
		return err
	}
	e.gauges = newGauges(e.c.Registry, e.c.Store, e.relay, e.c.Logger)
	e.feed = projections.NewFeed(e.c.Store, projections.FeedConfig{
		Publisher: e.publisher, Failures: feedFailures{}, Deployment: Deployment, Owner: e.c.ID, Wave: e.budget.Publish, Logger: e.c.Logger,
	})
	e.projector = projections.New(e.c.Store, projections.Config{Owner: e.c.ID, Logger: e.c.Logger})
	e.keeper, err = retention.New(e.c.Store, retention.Config{Directory: e.c.RetentionDir, Host: e.c.Host, Actor: "retention:" + e.c.ID, Logger: e.c.Logger})
	return err
}

// relayWriter hands packs to this process's relay if it runs one, and otherwise
// leaves them to be found.
func (e *Engine) relayWriter() eventstore.Outbox {
	if e.c.Roles.Relay {
		return e.relay.Writer()
	}
	return outbox.NewWriter(e.c.ID)
}

// releaser gives runs back whose message the broker will never take.
type releaser struct {
	store   *eventstore.Store
	metrics *metrics
}

func (r releaser) Release(ctx context.Context, hints []eventstore.Hint, reason string) error {
	commands := make([]eventstore.Command, len(hints))
	for i, h := range hints {
		commands[i] = eventstore.Command{RunID: h.RunID, Do: domain.ReleaseRun{ClaimID: h.ClaimID, Reason: reason, Undeliverable: true},
			Meta: eventstore.Meta{Actor: "relay"}}
	}
	answers, err := r.store.Execute(ctx, commands)
	if err != nil {
		return fmt.Errorf("release undeliverable runs: %w", err)
	}
	for _, a := range answers {
		if a.Err == nil {
			r.metrics.parked.Inc() // a refusal: the claim is closed already, or a worker that polls has started it
		}
	}
	return nil
}

// feedFailures takes the JetStream publisher's error apart.
type feedFailures struct{}

func (feedFailures) Failed(err error, messages int) map[int]error {
	if partial, ok := errors.AsType[*natsjs.PartialError](err); ok {
		return partial.Failed
	}
	all := make(map[int]error, messages)
	for i := range messages {
		all[i] = err
	}
	return all
}

func (feedFailures) Permanent(err error) bool { return natsjs.Permanent(err) }
