package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// claimer takes due runs in hand for the lanes that workers declare.
type claimer struct {
	store   *eventstore.Store
	outbox  eventstore.Outbox
	lease   time.Duration
	batch   int
	engines func() int // live replicas, this one included
	lanes   map[eventstore.WorkerLane]*eventstore.Lane
	lengths *lengths
	closed  *tally
	recount *atomic.Bool // a worker said something new
	starved *atomic.Bool // a slot that becomes free is news: the last step had too few, or is under way

	mu      sync.Mutex    // held by who spends credit: a step, or a direct claim
	book    *ledger       // nil: count first
	asked   time.Time     // when it was made, by this process's clock
	counted time.Time     // and by the database's
	every   time.Duration // how long to go on with it
	fresh   bool          // it was made in this step
	rest    time.Time     // until then slots may gather
	short   bool          // some lane had no slots in this step

	turn    int // rotates which lane goes first
	log     *slog.Logger
	metrics *metrics

	cancelled func(runs ...uuid.UUID) // they were asked to end
}

const (
	claimBatch = 2000
	// claimPoll is the longest a claimer sleeps: what no wake-up told it about,
	// runs that another process made, is found after this.
	claimPoll = 250 * time.Millisecond
	// After a claim the next is not made at once: what comes due and which slots
	// become free meanwhile gather, since each costs a commit.
	claimGap  = 2 * time.Millisecond
	heldPause = 5 * time.Millisecond
)

// Step claims what the workers have room for, lane after lane, and tells when
// the next run comes due.
func (c *claimer) Step(ctx context.Context) (did bool, next time.Duration, err error) {
	sleep(ctx, time.Until(c.rest))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starved.Store(true) // before the slots are counted
	c.short = false
	book, err := c.ledger(ctx)
	if err != nil {
		return false, 0, err
	}
	all := lanes(book.workers)
	if len(all) == 0 {
		c.lanes, c.book = map[eventstore.WorkerLane]*eventstore.Lane{}, nil
		return false, claimPoll, nil
	}
	engines := c.engines()
	c.turn++
	next = claimPoll
	var errs []error
	worked := false
	for i := range all {
		lane := all[(c.turn+i)%len(all)]
		took, wait, err := c.claimLane(ctx, lane, book, engines)
		if err != nil {
			errs = append(errs, fmt.Errorf("lane %s/%s: %w", lane.Queue, lane.Kind, err))
		} else {
			worked = true
		}
		did = did || took
		next = min(next, wait)
	}
	if len(errs) == 0 { // what became free meanwhile has woken the next step
		c.starved.Store(c.short)
	}
	if worked && len(errs) > 0 && !errors.Is(ctx.Err(), context.Canceled) { // one lane's trouble must not slow down the others
		c.log.ErrorContext(ctx, "runs of a lane cannot be claimed", "error", errors.Join(errs...))
		return did, max(next, claimPoll), nil
	}
	return did, next, errors.Join(errs...)
}

// ledger is the present credit.
func (c *claimer) ledger(ctx context.Context) (*ledger, error) {
	if c.book != nil && !c.recount.Swap(false) && time.Since(c.asked) < c.every {
		for _, e := range c.closed.take(c.counted) {
			c.book.end(e.lane, e.n)
		}
		c.fresh = false
		return c.book, nil
	}
	asked := time.Now()
	got, err := c.store.Capacity(ctx)
	if err != nil {
		return nil, err
	}
	c.book, c.asked, c.counted, c.fresh = newLedger(got.Workers, got.Loads), asked, got.At, true
	c.every = countEvery
	if c.engines() == 1 { // every claim is closed here, and told
		c.every = min(max(countEvery, countRest*time.Since(asked)), maxCountEvery)
	}
	return c.book, nil
}

func (c *claimer) claimLane(ctx context.Context, lane eventstore.WorkerLane, book *ledger, engines int) (took bool, wait time.Duration, err error) {
	n := min(book.share(lane, engines), c.batch)
	if n == 0 {
		c.short = true
		if !c.fresh { // what ended while it was counted is not in it
			return false, max(c.every-time.Since(c.asked), time.Millisecond), nil
		}
		return false, claimPoll, nil // a finished run wakes the claimer
	}
	began := time.Now()
	got, err := c.store.Claim(ctx, c.request(lane, n), c.outbox)
	if parked, ok := errors.AsType[*eventstore.ParkedError](err); ok {
		c.metrics.parked.Inc()
		c.log.ErrorContext(ctx, "run cannot be claimed and is parked", "run_id", parked.Run, "error", parked.Reason)
		return true, 0, nil
	}
	if err != nil {
		c.book = nil // it may have happened all the same
		return false, 0, err
	}
	c.metrics.claimed(lane, got, time.Since(began))
	book.take(lane, len(got.Runs))
	if len(got.Runs) > 0 {
		c.rest = time.Now().Add(claimGap)
	}
	if err := c.replace(ctx, got.Replaced); err != nil {
		return true, 0, err
	}
	did := len(got.Runs)+got.Waiting+got.Skipped > 0
	switch {
	case got.Full || did && !got.Looked:
		return true, 0, nil // there may be more, and credit for it
	case !got.Looked:
		return false, time.Millisecond, nil // the next batch looks
	case got.Until < 0:
		return did, claimPoll, nil
	case got.Until == 0: // due and not taken: another transaction holds the row
		return did, heldPause, nil
	}
	return did, max(got.Until-time.Since(began), time.Millisecond), nil
}

// request is a claim of up to n runs of the lane.
func (c *claimer) request(lane eventstore.WorkerLane, n int) eventstore.ClaimRequest {
	l := c.lanes[lane]
	if l == nil {
		l = eventstore.NewLane(lane.Queue, lane.Kind)
		c.lanes[lane] = l
	}
	q := eventstore.ClaimRequest{Lane: l, Limit: n, Lease: c.lease}
	if c.lengths.short(lane, time.Now()) {
		workers, slots := c.book.servers(lane)
		q.Parcel = func(runs int) int { return parcel(runs, workers, slots) }
	}
	return q
}

// replace asks runs to stop whose place a later instant waits for. If this
// process dies before it has asked, whoever looks after the waiting runs makes
// the question come up again.
func (c *claimer) replace(ctx context.Context, runs []uuid.UUID) error {
	if len(runs) == 0 {
		return nil
	}
	commands := make([]eventstore.Command, len(runs))
	for i, id := range runs {
		commands[i] = eventstore.Command{RunID: id, Do: domain.CancelRun{Reason: "replaced by a later instant of the job"}}
	}
	_, err := c.store.Execute(ctx, commands)
	if err == nil {
		c.cancelled(runs...)
	}
	return err
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
