package projections

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/crashpoint"
)

// Config says how to follow the log. The zero Config is complete.
type Config struct {
	// Projections to keep; nil means [NewRunSummaries] alone.
	Projections []Projection

	Limit int           // events a page; 0 means 12,000
	Tick  time.Duration // between pages at the end of the log; 0 means 500 ms
	Lease time.Duration // how long a crashed follower holds the others up; 0 means 15 s

	// Owner names this process in checkpoints, for people.
	Owner string

	Logger *slog.Logger
}

// Follower keeps projections up with the log. Its Run may be going in any number
// of processes: for each projection one of them works, the others stand by.
type Follower struct {
	store       *eventstore.Store
	members     []*member
	limit       int
	tick, lease time.Duration
	log         *slog.Logger
	wake        chan struct{}
	farBehind   func(behind, total int64, limit int) bool
}

// member is a projection and this follower's hold on it.
type member struct {
	Projection
	lease  lease
	held   bool
	at     checkpoint // in memory; ahead of the stored one by empty reads only
	saved  time.Time  // when the lease was renewed last, by this process's monotonic clock
	now    time.Time  // the database's clock then
	swept  time.Time  // when parked streams were tried last
	tidied time.Time  // when nothing was left to tidy
	far    bool       // the distance to the end of the log is to be looked at
	limit  int        // events of the next page
	count  int64      // events read so far
}

// New returns a follower of the store's log.
func New(store *eventstore.Store, c Config) *Follower {
	f := &Follower{
		store: store, limit: cmp.Or(c.Limit, 12_000), tick: cmp.Or(c.Tick, 500*time.Millisecond), lease: cmp.Or(c.Lease, 15*time.Second),
		log: c.Logger, wake: make(chan struct{}, 1), farBehind: farBehind,
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if c.Projections == nil {
		c.Projections = []Projection{NewRunSummaries()}
	}
	owner := cmp.Or(c.Owner, "follower") + "/" + uuid.NewString()
	for _, p := range c.Projections {
		f.members = append(f.members, &member{Projection: p, limit: f.limit, lease: lease{name: p.Name(), owner: owner, term: f.lease}})
	}
	return f
}

// Wake makes a waiting Run look at the log now. It never blocks.
func (f *Follower) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Run follows until the context ends, and then returns nil. It outlasts any
// outage of the database.
func (f *Follower) Run(ctx context.Context) error {
	defer f.release(ctx)
	const restBetween = 50 * time.Millisecond // however often Wake is called
	pause := f.tick
	for ctx.Err() == nil {
		_, next, err := f.Step(ctx)
		if err != nil && ctx.Err() == nil {
			f.log.ErrorContext(ctx, "projections fall behind", "error", err, "again_in", pause)
			next, pause = pause, min(2*pause, 30*time.Second)
		} else {
			pause = f.tick
		}
		rest := min(next, restBetween)
		if !sleep(ctx, rest, nil) || !sleep(ctx, next-rest, f.wake) {
			break
		}
	}
	return nil
}

// sleep waits for the time to pass or for a wake; false when the context ended.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// standby is how many ticks a follower without the lease waits to ask again.
const standby = 4

// Step moves every projection that this follower holds, or can take, by a page.
// It reports whether any moved, and how long there is nothing to do.
func (f *Follower) Step(ctx context.Context) (did bool, next time.Duration, err error) {
	next = standby * f.tick
	var errs []error
	for _, m := range f.members {
		moved, wait, err := f.step(ctx, m)
		if errors.Is(err, errReplaced) {
			f.log.InfoContext(ctx, "projection is followed elsewhere now", "projection", m.Name())
			err = nil
		}
		if err != nil {
			m.held = false // what was committed is read from the checkpoint again
			errs = append(errs, err)
		}
		did, next = did || moved, min(next, wait)
	}
	return did, next, errors.Join(errs...)
}

func (f *Follower) step(ctx context.Context, m *member) (did bool, next time.Duration, err error) {
	if !m.held {
		held, err := f.acquire(ctx, m)
		if err != nil {
			return false, f.tick, err
		}
		if !m.held {
			return false, min(held, standby*f.tick), nil
		}
	}
	if err := f.retryParked(ctx, m); err != nil {
		return false, f.tick, err
	}
	if err := f.tidy(ctx, m); err != nil {
		return false, f.tick, err
	}
	page, after, atEnd, err := f.read(ctx, m)
	if err != nil {
		return false, f.tick, err
	}
	if err := crashpoint.Err(crashpoint.ProjectorPostRead); err != nil {
		return false, f.tick, err
	}
	scanning := m.at.Scan != nil || after.Scan != nil
	if atEnd && len(page) == 0 && time.Since(m.saved) < f.lease/3 {
		m.at = after // a save is a transaction, and an idle log needs none
		return false, f.tick, nil
	}
	if atEnd {
		after.Through = m.now // the read came after that save
	}
	for _, rec := range page {
		after.Applied = max(after.Applied, rec.Position)
	}
	if err := f.write(ctx, m, page, after); err != nil {
		m.held = false
		return false, f.tick, err
	}
	few := len(page) < m.limit/10
	m.far = !atEnd && !scanning
	m.fit(page, f.limit)
	switch {
	case !atEnd:
		return true, 0, nil
	case few && len(page) > 0: // costs little, and someone may be looking
		return true, f.tick / 2, nil
	}
	return len(page) > 0, f.tick, nil
}

func (f *Follower) acquire(ctx context.Context, m *member) (held time.Duration, err error) {
	began := time.Now()
	c, now, held, err := m.lease.acquire(ctx, f.store.Pool())
	if err != nil || held > 0 {
		return held, err
	}
	m.held, m.at, m.now, m.saved, m.far = true, c, now, began, true
	f.log.DebugContext(ctx, "projection is followed here", "projection", m.Name(), "epoch", m.lease.epoch)
	return 0, nil
}

// write applies the page and moves the checkpoint, both or neither.
func (f *Follower) write(ctx context.Context, m *member, page []eventstore.Recorded, after checkpoint) error {
	began := time.Now()
	apply := m.Apply
	if len(page) == 0 {
		apply = func(context.Context, pgx.Tx, []eventstore.Recorded) ([]Poison, error) { return nil, nil }
	}
	now, err := f.writePage(ctx, m, page, after, apply)
	if blamesRow(err) {
		f.log.WarnContext(ctx, "page is applied in parts: the database refuses some row of it", "projection", m.Name(), "error", err)
		now, err = f.writePage(ctx, m, page, after, m.applyInParts)
	}
	if err != nil {
		return err
	}
	m.at, m.now, m.saved = after, now, began
	m.count += int64(len(page))
	return nil
}

type applyFunc func(context.Context, pgx.Tx, []eventstore.Recorded) ([]Poison, error)

func (f *Follower) writePage(ctx context.Context, m *member, page []eventstore.Recorded, after checkpoint, apply applyFunc) (now time.Time, err error) {
	err = inTx(ctx, f.store.Pool(), pgx.TxOptions{}, func(tx pgx.Tx) (err error) {
		if now, err = m.lease.save(ctx, tx, after); err != nil {
			return err
		}
		poison, err := apply(ctx, tx, page)
		if err != nil {
			return err
		}
		if err := f.park(ctx, tx, m, poison); err != nil {
			return err
		}
		return crashpoint.Err(crashpoint.ProjectorPreCommit)
	})
	if err == nil {
		err = crashpoint.Err(crashpoint.ProjectorPostCommit)
	}
	return now, err
}

// release lets another follower go on at once. After an error the hold is not
// known, but the epoch tells whether the lease is still this follower's.
func (f *Follower) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for _, m := range f.members {
		if m.lease.epoch == 0 {
			continue
		}
		var at *checkpoint
		if m.held {
			at = &m.at
		}
		m.held = false
		if err := m.lease.release(ctx, f.store.Pool(), at); err != nil {
			f.log.WarnContext(ctx, "lease is left to lapse", "error", err)
		}
	}
}
