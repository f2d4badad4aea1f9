package projections

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/eventstore"
)

// Reader answers questions about runs, jobs and queues. It is safe for
// concurrent use and needs no follower in its process.
type Reader struct {
	store *eventstore.Store
}

// NewReader returns a reader of the store's database.
func NewReader(store *eventstore.Store) *Reader { return &Reader{store: store} }

// Lag tells how far the lists of this reader are behind the log.
func (r *Reader) Lag(ctx context.Context) (Lag, error) {
	l, err := lags(ctx, r.store, []string{RunSummariesName})
	if err != nil {
		return Lag{}, err
	}
	return l[0], nil
}

// Lags tells the same of readers of the log by name: RunSummariesName, FeedName.
func (r *Reader) Lags(ctx context.Context, names ...string) ([]Lag, error) {
	return lags(ctx, r.store, names)
}

// FilterError says what is wrong with a question.
type FilterError struct{ Field, Why string }

func (e *FilterError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Why) }
