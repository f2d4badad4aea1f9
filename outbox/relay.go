package outbox

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// Releaser gives back the runs of messages that can never be published, with the reason. Runs it cannot give back are
// left to the end of their lease.
type Releaser interface {
	Release(ctx context.Context, hints []eventstore.Hint, reason string) error
}

// Config says what a relay works with. DB, Publisher and Owner are needed.
type Config struct {
	DB        *pgxpool.Pool     // of the application's role, as eventstore.Store.Pool
	Publisher message.Publisher // publishes all messages of a call before it returns; see PartialError
	Releaser  Releaser          // nil: parked runs wait for the end of their lease
	Dead      message.Publisher // is told of parked dispatches; nil: nobody is
	Owner     string            // names this process among all that share the database
	Logger    *slog.Logger

	InFlight       int           // packs being published at once; 0 means 4
	HandOver       int           // packs waiting in memory at most; 0 means 128
	PublishTimeout time.Duration // for one pack; 0 means 5 s
	KeepParked     time.Duration // until a parked pack is deleted; 0 means 7 days
}

// Relay publishes packs. Any number of them share a table.
type Relay struct {
	Config
	desk  *desk
	gate  gate
	count counters

	pruned  atomic.Int64 // when parked packs were last deleted, Unix nanoseconds
	failing atomic.Bool  // the database did, last time
}

const (
	pollEvery  = time.Second
	pruneEvery = time.Hour

	// settleTimeout bounds what is recorded about a pack, also while stopping.
	settleTimeout = 5 * time.Second
)

// NewRelay makes a relay that holds nothing yet.
func NewRelay(c Config) (*Relay, error) {
	if c.DB == nil || c.Publisher == nil || c.Owner == "" {
		return nil, errors.New("outbox relay: DB, Publisher and Owner are needed")
	}
	c.InFlight = cmp.Or(c.InFlight, 4)
	c.HandOver = cmp.Or(c.HandOver, 128)
	c.PublishTimeout = cmp.Or(c.PublishTimeout, domain.DefaultPublish)
	c.KeepParked = cmp.Or(c.KeepParked, 7*24*time.Hour)
	if c.InFlight < 1 || c.HandOver < 1 || c.PublishTimeout < 0 || c.KeepParked < 0 {
		return nil, errors.New("outbox relay: limits must be positive")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Relay{Config: c, desk: newDesk(c.HandOver, c.InFlight)}, nil
}

// leaseFor is for how long a pack from the table is leased: it is published, recorded, and there is time to spare.
func (r *Relay) leaseFor() time.Duration { return 2*r.PublishTimeout + settleTimeout }

// Writer returns a writer that hands its packs over to this relay.
func (r *Relay) Writer() *Writer { return &Writer{owner: r.Owner, desk: r.desk} }

// Run publishes until ctx ends, and then what is in memory as far as the broker takes it at once. It survives outages
// of the broker and of the database, and returns nil.
func (r *Relay) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	for range r.InFlight {
		workers.Go(func() { r.work(ctx) })
	}
	workers.Wait()
	r.finish(context.WithoutCancel(ctx))
	return nil
}

// finish publishes what is in memory while the broker takes it, for as long as one pack may take, and leaves no
// published pack in the table.
func (r *Relay) finish(ctx context.Context) {
	for end := time.Now().Add(r.PublishTimeout); time.Now().Before(end); {
		p := r.desk.take()
		if p == nil {
			break
		}
		o, err := r.deliver(ctx, p)
		r.leave(o)
		if o == refused || err != nil {
			break
		}
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	_ = r.flush(ctx, true) // logged; what stays is published again under the same ids
}

func (r *Relay) work(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		did, next, _ := r.Step(ctx) // logs its errors
		if did {
			continue
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-r.desk.wake:
		}
	}
}

// database logs when the table gets out of reach and when it is back, and returns the error.
func (r *Relay) database(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err // says nothing about the database
	}
	switch was := r.failing.Swap(err != nil); {
	case err != nil && !was:
		r.Logger.Warn("outbox relay cannot work with its table", "error", err)
	case err == nil && was:
		r.Logger.Info("outbox relay works with its table again")
	}
	return err
}

// Step publishes one pack, and does what is due besides: deletes published packs that no claim has taken along, and
// looks for packs left in the table. It tells whether there was a pack, and otherwise how long to wait unless one is
// handed over. Errors are the database's. Several calls may run at the same time.
//
// A pack that was begun is brought to its end although ctx ends.
func (r *Relay) Step(ctx context.Context) (did bool, next time.Duration, err error) {
	err = r.flush(ctx, false)
	wait, ok := r.gate.enter()
	if !ok {
		return false, min(wait, max(r.desk.rest(), minPollPause)), err
	}
	here, due := r.desk.startPoll(pollEvery)
	if due {
		err = errors.Join(err, r.database(ctx, r.poll(ctx, here)))
	}
	p := r.desk.take()
	if p == nil {
		r.leave(nothing)
		return false, r.desk.rest(), err
	}
	o, failure := r.deliver(ctx, p)
	r.leave(o)
	return true, 0, errors.Join(err, failure)
}

func (r *Relay) leave(o outcome) {
	if !r.gate.leave(o) {
		return
	}
	if r.gate.shut() {
		r.Logger.Warn("broker takes no dispatches, outbox relay holds back")
		return
	}
	r.Logger.Info("broker takes dispatches again")
	r.desk.pokeAll()
}
