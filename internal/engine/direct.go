package engine

import (
	"context"
	"time"

	"github.com/daybookhq/daybook/eventstore"
)

// direct lets a transaction claim the runs that it makes, with the credit that is
// there now. It is nil while the claimer spends the credit itself: whoever makes
// runs does not wait for it, and leaves them to it. If it is not nil, spent must be
// called.
func (c *claimer) direct(ctx context.Context) *eventstore.Direct {
	if !c.mu.TryLock() {
		return nil
	}
	return &eventstore.Direct{Outbox: c.outbox, Room: func(queue, kind string) (eventstore.ClaimRequest, bool) {
		book, err := c.ledger(ctx) // asked only when runs were made
		if err != nil {
			c.log.DebugContext(ctx, "credit not known, runs wait for a claim", "error", err)
			return eventstore.ClaimRequest{}, false
		}
		lane := eventstore.WorkerLane{Queue: queue, Kind: kind}
		n := min(book.share(lane, c.engines()), c.batch)
		if n == 0 {
			return eventstore.ClaimRequest{}, false
		}
		q := c.request(lane, n)
		return q, !q.Lane.Pressed()
	}}
}

// spent takes what was claimed directly from the credit, and asks the runs to stop
// that were replaced. With an error nobody knows what happened, and the claims are
// counted.
func (c *claimer) spent(ctx context.Context, d *eventstore.Direct, took time.Duration, err error) error {
	if d == nil {
		return nil
	}
	if err != nil {
		c.book = nil
	}
	for _, l := range d.Claimed {
		lane := eventstore.WorkerLane{Queue: l.Lane.Queue, Kind: l.Lane.Kind}
		c.metrics.claimed(lane, l.Claimed, took)
		if c.book != nil {
			c.book.take(lane, len(l.Runs))
		}
	}
	c.mu.Unlock()
	return c.replace(ctx, d.Replaced)
}

// requestRuns makes the runs that programs ask for, and claims them directly if they
// are few: who asks for many is not kept waiting for their claims.
func (c *claimer) requestRuns(ctx context.Context, requests []eventstore.RunRequest) ([]eventstore.Requested, error) {
	if len(requests) > directRequests {
		return c.store.Request(ctx, requests)
	}
	began := time.Now()
	d := c.direct(ctx)
	got, err := c.store.RequestAndClaim(ctx, requests, d)
	if replaceErr := c.spent(ctx, d, time.Since(began), err); replaceErr != nil {
		c.log.WarnContext(ctx, "replaced runs were not asked to stop yet", "error", replaceErr)
	}
	return got, err
}

const directRequests = 64
