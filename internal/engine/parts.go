package engine

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/projections"
)

func (e *Engine) newParts() (err error) {
	e.relay, err = outbox.NewRelay(outbox.Config{
		DB: e.c.Store.Pool(), Publisher: e.publisher, Releaser: releaser{e.c.Store, e.metrics}, Owner: e.c.ID,
		Logger: e.c.Logger, PublishTimeout: e.budget.Publish,
	})
	if err != nil {
		return err
	}
	e.projector = projections.New(e.c.Store, projections.Config{Owner: e.c.ID, Logger: e.c.Logger})
	return nil
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
			r.metrics.parked.Inc() // a refusal means that the claim is closed already
		}
	}
	return nil
}
