package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// Projection is a read model that a [Follower] keeps up with the log.
type Projection interface {
	// Name is the projection's checkpoint.
	Name() string

	// Apply writes what the events change, inside the transaction that moves the
	// checkpoint. The events of a stream come in order, those of different streams
	// in any, and each may come again: what was applied is ignored. Events that
	// cannot be applied are returned and leave no trace; what follows them in
	// their streams is not applied either. An error undoes the whole page.
	Apply(ctx context.Context, tx pgx.Tx, page []eventstore.Recorded) ([]Poison, error)
}

// Poison is an event that a projection cannot apply, and why.
type Poison struct {
	Event  eventstore.Recorded
	Reason error
}

// runEvent decodes an event of a run's stream.
func runEvent(rec eventstore.Recorded) (domain.RunEvent, error) {
	e, err := rec.Event()
	if err != nil {
		return nil, err
	}
	re, ok := e.(domain.RunEvent)
	if !ok {
		return nil, fmt.Errorf("%s is no event of a run", rec.Type)
	}
	return re, nil
}
