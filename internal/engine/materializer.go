package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/daybookhq/daybook/eventstore"
)

// materializer turns due instants into runs.
type materializer struct {
	store   *eventstore.Store
	claims  *claimer
	batch   int
	poll    time.Duration
	due     func(queue string) // runs of the queue came due
	log     *slog.Logger
	metrics *metrics
	passes  int
}

const (
	materializeBatch = 500
	// After a pass the instants of the next few milliseconds gather: each pass, and
	// the claim, starts and outcomes that follow it, costs commits.
	passGap = 2 * time.Millisecond
	// materializePoll is the longest it sleeps: a job that was applied without a
	// wake-up, or with one that was lost, is found after this.
	materializePoll = time.Second
)

// Step decides what is due and tells when the next instant comes.
func (m *materializer) Step(ctx context.Context) (did bool, next time.Duration, err error) {
	m.passes++
	began := time.Now()
	claims := m.claims.direct(ctx)
	got, err := m.store.Materialize(ctx, m.batch, eventstore.Order(m.passes%2 == 0), claims)
	replaceErr := m.claims.spent(ctx, claims, time.Since(began), err)
	if err != nil {
		return false, 0, err
	}
	m.metrics.materialized(got)
	for _, queue := range got.Waiting {
		m.due(queue)
	}
	if replaceErr != nil {
		return true, 0, replaceErr
	}
	if got.Full {
		return true, 0, nil
	}
	next = m.poll
	if !got.Next.IsZero() {
		next = min(next, got.Next.Sub(got.Now)-time.Since(began))
	}
	if got.Jobs > 0 {
		return true, max(next, passGap), nil
	}
	return false, max(next, time.Millisecond), nil
}
