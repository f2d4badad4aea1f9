// Package engine runs the loops that make and dispatch runs, and answers the
// workers. Any number of replicas run the same loops over one database; none
// leads, and which of them does a piece of work is decided by row locks.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/projections"
	"github.com/daybookhq/daybook/projections/retention"
	"github.com/daybookhq/daybook/worker/protocol"
)

// Roles are the parts of an engine that a process may leave to others.
type Roles struct {
	Engine      bool // materializer, claimer, reaper
	Relay       bool // publishes what claims wrote
	Projections bool // read models
	Feed        bool // publishes the events of the log
	API         bool // answers workers and programs
}

// AllRoles is a complete engine.
var AllRoles = Roles{Engine: true, Relay: true, Projections: true, Feed: true, API: true}

// Config is what an engine is made of. Store and NATS stay the caller's to close.
type Config struct {
	ID       string // unique among all engines, past ones too
	Host     string
	Version  string
	Roles    Roles
	Store    *eventstore.Store
	NATS     *nats.Conn
	Topology natsjs.Topology
	Registry prometheus.Registerer
	Logger   *slog.Logger

	// RetentionDir is where months of runs are exported before the log lets go of
	// them; empty: it lets go of none.
	RetentionDir string
}

// Engine is one replica.
type Engine struct {
	c         Config
	js        jetstream.JetStream
	budget    domain.LeaseBudget
	seen      *watchdog
	metrics   *metrics
	service   *Service
	relay     *outbox.Relay
	projector *projections.Follower
	feed      *projections.Feed
	keeper    *retention.Keeper
	gauges    *gauges
	waker     *natsjs.Waker
	publisher *natsjs.Publisher
	lanes     *laneKeeper
	claimer   *claimer

	wakeClaims, wakeFires, wakeLanes, wakeViews chan struct{}

	firePoll time.Duration // the longest that the materializer sleeps

	live       atomic.Int64 // engines, this one included
	recount    atomic.Bool  // workers changed
	starved    atomic.Bool  // runs wait for slots
	topologyOK atomic.Bool
}

// New puts an engine together. It refuses a lease budget that does not hold.
func New(c Config) (*Engine, error) {
	if err := c.Topology.Check(); err != nil {
		return nil, err
	}
	js, err := jetstream.New(c.NATS)
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	e := &Engine{
		c: c, js: js, budget: c.Topology.Lease, seen: newWatchdog(), firePoll: materializePoll, waker: natsjs.NewWaker(c.NATS),
		wakeClaims: make(chan struct{}, 1), wakeFires: make(chan struct{}, 1), wakeLanes: make(chan struct{}, 1), wakeViews: make(chan struct{}, 1),
	}
	e.live.Store(1)
	e.metrics = newMetrics(c.Registry, e.seen)
	e.service = newService(c.Store, e.budget.ExecutionTerms(), e.metrics, c.Logger)
	e.starved.Store(true)
	e.service.freed = func() {
		if e.starved.Load() {
			poke(e.wakeClaims)
		}
	}
	e.service.due = e.Due
	e.service.declared = func() { e.recount.Store(true); poke(e.wakeLanes); poke(e.wakeClaims) }
	e.lanes = &laneKeeper{store: c.Store, js: js, topology: c.Topology, log: c.Logger}
	if e.publisher, err = natsjs.NewPublisher(c.NATS, e.budget.Publish); err != nil {
		return nil, err
	}
	if err := e.newParts(); err != nil {
		return nil, err
	}
	e.claimer = e.newClaimer()
	if c.Roles.Engine {
		e.service.requests.do = e.claimer.requestRuns
	}
	return e, nil
}

// Service answers the workers' calls.
func (e *Engine) Service() *Service { return e.service }

// Due tells this engine and the others that runs of the queue came due.
func (e *Engine) Due(queue string) {
	poke(e.wakeClaims)
	e.waker.Wake(queue)
}

// Dispatched tells which claims lie dispatched with the broker, and when its
// stream was made.
func (e *Engine) Dispatched(ctx context.Context) (map[uuid.UUID]bool, time.Time, error) {
	return natsjs.Dispatched(ctx, e.js)
}

// Cancelled tells the workers that runs were asked to end.
func (e *Engine) Cancelled(runs ...uuid.UUID) { e.waker.Cancelled(runs...) }

// JobsChanged tells this engine and the others that instants may have come due
// or moved.
func (e *Engine) JobsChanged() {
	poke(e.wakeFires)
	e.waker.WakeJobs()
}

// Prepare creates or verifies what the engine needs of the broker. It fails on
// what waiting does not help: a configuration that differs, a broker that cannot
// do what is needed. Everything else is left to Run, which keeps trying.
func (e *Engine) Prepare(ctx context.Context) error {
	err := e.prepare(ctx)
	var differs *natsjs.MismatchError
	if errors.As(err, &differs) || errors.Is(err, natsjs.ErrUnsupported) {
		return err
	}
	if err != nil {
		e.c.Logger.WarnContext(ctx, "NATS is not ready yet; runs wait in the outbox", "error", err)
	}
	return nil
}

func (e *Engine) prepare(ctx context.Context) error {
	if err := natsjs.WaitConnected(ctx, e.c.NATS); err != nil {
		return err
	}
	info, err := natsjs.Ensure(ctx, e.js, e.c.Topology)
	if err != nil {
		return err
	}
	return e.streamChanged(ctx, info.DispatchCreated)
}

// streamChanged deals with a dispatch stream that is not the one the open claims
// were sent to: its lanes get consumers, then the claims are sent again.
func (e *Engine) streamChanged(ctx context.Context, created time.Time) error {
	e.lanes.forget()
	_, _, lanesErr := e.lanes.Step(ctx) // one lane that cannot be opened must not hold up the others
	n, err := e.c.Store.Rearm(ctx, protocol.DispatchStream, created, e.relayWriter())
	if err != nil {
		return fmt.Errorf("dispatch the open claims again: %w", err)
	}
	e.topologyOK.Store(true)
	if n > 0 {
		e.c.Logger.WarnContext(ctx, "dispatch stream is new; open claims are dispatched again", "claims", n, "created", created)
	}
	return lanesErr
}

// Run runs the engine's parts until ctx ends and lets work under way finish.
func (e *Engine) Run(ctx context.Context) error {
	stopWake, err := e.waker.Subscribe(natsjs.Woken{Queue: func(string) { poke(e.wakeClaims) }, Jobs: func() { poke(e.wakeFires) }})
	if err != nil {
		e.c.Logger.WarnContext(ctx, "no wake-ups from other engines; polling finds their runs", "error", err)
		stopWake = func() {}
	}
	defer e.waker.Close()
	defer stopWake()

	g, ctx := errgroup.WithContext(ctx)
	start := func(name string, wake chan struct{}, s step) {
		e.seen.expect(name)
		l := &loop{name: name, step: s, wake: wake, log: e.c.Logger, seen: e.seen}
		g.Go(func() error { return l.Run(ctx) })
	}
	if e.c.Roles.Engine {
		e.startEngine(start)
	}
	if e.c.Roles.Engine {
		g.Go(func() error { return e.keeper.Run(ctx) })
	}
	if e.c.Roles.Relay {
		g.Go(func() error { return e.relay.Run(ctx) })
	}
	if e.c.Roles.Projections {
		g.Go(func() error { return e.projector.Run(ctx) })
	}
	if e.c.Roles.Feed {
		g.Go(func() error { return e.feed.Run(ctx) })
	}
	if e.c.Roles.API {
		g.Go(func() error { return e.service.Run(ctx) })
		g.Go(func() error { return (&rpc{nc: e.c.NATS, service: e.service, log: e.c.Logger}).Run(ctx) })
	}
	start("presence", nil, e.presence)
	start("gauges", nil, e.gauges.Step)
	watch := &natsjs.Watch{JS: e.js, Topology: e.c.Topology, Changed: e.streamChanged, Logger: e.c.Logger}
	g.Go(func() error { return watch.Run(ctx) })
	err = g.Wait()
	e.leave()
	return err
}

func (e *Engine) startEngine(start func(string, chan struct{}, step)) {
	c := e.claimer
	m := &materializer{store: e.c.Store, claims: c, batch: materializeBatch, poll: e.firePoll, due: e.Due, log: e.c.Logger, metrics: e.metrics}
	start("materializer", e.wakeFires, m.Step)
	start("claimer", e.wakeClaims, c.Step)
	r := &reaper{store: e.c.Store, batch: reapBatch, every: ReapInterval, due: e.Due, log: e.c.Logger, metrics: e.metrics}
	start("reaper", nil, r.Step)
	start("waiting", nil, r.nudge)
	start("limit-keys", nil, r.sweep)
	start("lanes", e.wakeLanes, e.lanes.Step)
	start("partitions", nil, e.partitions)
	start("zones", nil, e.zones)
}

func (e *Engine) newClaimer() *claimer {
	return &claimer{store: e.c.Store, lengths: e.service.lengths, closed: e.service.tally, recount: &e.recount, starved: &e.starved, outbox: e.relayWriter(), lease: e.budget.DispatchLease, batch: claimBatch,
		engines: func() int { return int(e.live.Load()) }, lanes: map[eventstore.WorkerLane]*eventstore.Lane{}, cancelled: e.Cancelled, log: e.c.Logger, metrics: e.metrics}
}

// presence says that this engine lives, and learns how many others do.
func (e *Engine) presence(ctx context.Context) (bool, time.Duration, error) {
	live, err := e.c.Store.SeeEngine(ctx, e.c.ID, e.c.Roles.String(), e.c.Version, e.c.Host)
	if err != nil {
		return false, 0, err
	}
	e.live.Store(int64(max(live, 1)))
	return true, eventstore.Silence / 3, nil
}

func (e *Engine) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := e.c.Store.LeaveEngine(ctx, e.c.ID); err != nil {
		e.c.Logger.Debug("presence not removed; it lapses by itself", "error", err)
	}
}

// partitions keeps the log's months ready ahead of need.
func (e *Engine) partitions(ctx context.Context) (bool, time.Duration, error) {
	made, err := e.c.Store.KeepPartitions(ctx)
	if made > 0 {
		e.c.Logger.InfoContext(ctx, "partitions made", "count", made)
	}
	return made > 0, time.Hour, err
}

// zones notices that this process knows other zone rules than those the next
// fires were computed with.
func (e *Engine) zones(ctx context.Context) (bool, time.Duration, error) {
	changed, err := e.c.Store.CheckZones(ctx)
	if changed > 0 {
		e.c.Logger.WarnContext(ctx, "zone rules changed; next fires are computed again", "jobs", changed)
		e.JobsChanged()
	}
	return changed > 0, time.Hour, err
}

// stale is how long a loop may go without success before the engine is not ready.
const stale = 20 * time.Second

// Ready reports why the engine cannot do its work now; nil if it can.
func (e *Engine) Ready(ctx context.Context) error {
	var errs []error
	if err := e.c.Store.Ping(ctx); err != nil {
		errs = append(errs, fmt.Errorf("database: %w", err))
	}
	if !e.c.NATS.IsConnected() {
		errs = append(errs, fmt.Errorf("nats: %s", e.c.NATS.Status()))
	} else if !e.topologyOK.Load() {
		errs = append(errs, errors.New("nats: streams are not verified yet"))
	}
	for name, age := range e.seen.ages() {
		if age > stale && name != "partitions" && name != "zones" {
			errs = append(errs, fmt.Errorf("loop %s: no success for %s", name, age.Round(time.Second)))
		}
	}
	return errors.Join(errs...)
}

// String lists the roles as they are written on the command line.
func (r Roles) String() string {
	s := ""
	for _, role := range []struct {
		on   bool
		name string
	}{{r.Engine, "engine"}, {r.Relay, "relay"}, {r.Projections, "projections"}, {r.Feed, "feed"}, {r.API, "api"}} {
		if role.on {
			if s != "" {
				s += ","
			}
			s += role.name
		}
	}
	return s
}
