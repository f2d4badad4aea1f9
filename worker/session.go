package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/worker/protocol"
)

// session is one Run of a worker.
//
// Its contexts end in this order: pulling (no more work is taken), then, for handlers that are still running after the drain
// timeout, their own, with ErrDraining; last rpc, which carries every request to an engine.
type session struct {
	cfg      Config
	id       string
	log      *slog.Logger
	handlers map[string]handlerFunc
	conn     *nats.Conn // nil: HTTP only
	js       jetstream.JetStream
	caller   *caller

	pulling  context.Context
	stopPull context.CancelCauseFunc
	rpc      context.Context
	stopRPC  context.CancelFunc
	stopping atomic.Bool // handlers are being stopped

	complained atomic.Int64 // when unanswered requests were last logged, Unix ns
	group      group        // everything that lives as long as rpc

	slots  *slots
	keeper *keeper
	lanes  []*lane
	change chan struct{} // a lane was bound or lost

	starts                       *batcher[protocol.StartResult]
	completes, snoozes, releases *batcher[protocol.Result]
	fails                        *batcher[protocol.FailResult]

	mu     sync.Mutex
	inHand map[uuid.UUID]int // by claim; a redelivery may make it two
}

func newSession(ctx context.Context, w *Worker, conn *nats.Conn) (*session, error) {
	s := &session{
		cfg: w.cfg, id: w.id, log: w.cfg.Logger.With("worker", w.id), handlers: w.handlers,
		conn: conn, inHand: make(map[uuid.UUID]int), change: make(chan struct{}, 1),
	}
	s.caller = &caller{timing: w.timing}
	if conn != nil {
		js, err := jetstream.New(conn)
		if err != nil {
			return nil, err
		}
		s.js = js
		s.caller.nats = &natsRoute{transport: natsTransport{conn}, suspectFor: w.timing.suspectFor}
	}
	if w.cfg.URL != "" {
		s.caller.http = newHTTPTransport(w.cfg.HTTPClient, w.cfg.URL, w.cfg.Token)
	}
	s.pulling, s.stopPull = context.WithCancelCause(ctx)
	s.rpc, s.stopRPC = context.WithCancel(context.WithoutCancel(ctx))
	s.slots = newSlots(w.cfg.Slots, s.work)
	s.slots.begin = s.begin
	s.keeper = newKeeper(s.rpc, s.caller, s.log, func(err error) { s.unauthorized(protocol.OpHeartbeat, err) })

	workerID, err := protocol.Encode(w.id)
	if err != nil {
		return nil, err
	}
	const items = `{"items":[`
	s.starts = newBatcher[protocol.StartResult](s.rpc, &s.group, s.caller, protocol.OpStart, `{"worker_id":`+string(workerID)+`,"items":[`)
	s.completes = newBatcher[protocol.Result](s.rpc, &s.group, s.caller, protocol.OpComplete, items)
	s.completes.gap, s.completes.patient = outcomeGap, s.slots.plenty
	s.snoozes = newBatcher[protocol.Result](s.rpc, &s.group, s.caller, protocol.OpSnooze, items)
	s.releases = newBatcher[protocol.Result](s.rpc, &s.group, s.caller, protocol.OpRelease, items)
	s.fails = newBatcher[protocol.FailResult](s.rpc, &s.group, s.caller, protocol.OpFail, items)

	for _, q := range w.cfg.Queues {
		for _, k := range slices.Sorted(maps.Keys(w.handlers)) {
			s.lanes = append(s.lanes, newLane(s, protocol.Lane{Queue: q, Kind: k}))
		}
	}
	return s, nil
}

// run works until ctx ends or an engine refuses the worker, then drains.
func (s *session) run() error {
	s.group.start(func() { s.keeper.run(s.rpc, &s.group) })
	s.group.start(func() { s.presence(s.rpc) })
	if s.conn != nil {
		defer s.listenForCancels()()
	}
	var sources sync.WaitGroup
	if s.conn != nil {
		for _, l := range s.lanes {
			sources.Go(func() { l.run(s.pulling) })
		}
	}
	if s.caller.http != nil {
		sources.Go(func() { s.poll(s.pulling) })
	}
	<-s.pulling.Done()
	started := time.Now()
	s.log.Info("draining")
	unstarted := s.slots.close()
	// Only now that no pull is left: what is given back must not come straight back to us.
	sources.Wait()
	s.giveBack(unstarted)
	err := s.drain(started)
	s.stopRPC()
	s.group.close()
	s.caller.close()
	if cause := context.Cause(s.pulling); errors.Is(cause, ErrUnauthorized) {
		err = errors.Join(cause, err)
	}
	return err
}

// listenForCancels makes a request to end a run reach its handler at once. Without it, or without NATS, it comes with
// the next heartbeat, after up to a third of the lease.
func (s *session) listenForCancels() (stop func()) {
	sub, err := s.conn.Subscribe(protocol.CancelSubject, func(m *nats.Msg) {
		var hint protocol.CancelHint
		if json.Unmarshal(m.Data, &hint) == nil {
			s.keeper.cancelHinted(hint.RunIDs)
		}
	})
	if err != nil {
		s.log.Warn("requests to end a run arrive with heartbeats only", "error", err)
		return func() {}
	}
	return func() { _ = sub.Unsubscribe() }
}

// drain lets handlers end, then stops them.
func (s *session) drain(started time.Time) error {
	ended := make(chan struct{})
	go func() {
		s.slots.tasks.Wait()
		close(ended)
	}()
	if within(ended, s.cfg.DrainTimeout-time.Since(started)) {
		return nil
	}
	s.stopping.Store(true)
	s.keeper.stopAll(ErrDraining)
	if within(ended, s.cfg.StopTimeout) {
		return nil
	}
	return fmt.Errorf("worker: %d runs did not end within %v of being stopped; their leases run out", s.slots.count(), s.cfg.StopTimeout)
}

func within(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

func (s *session) draining() bool { return s.pulling.Err() != nil }

// fail ends pulling for a reason that Run returns.
func (s *session) fail(err error) {
	if s.pulling.Err() == nil {
		s.log.Error("no more work is taken", "error", err)
	}
	s.stopPull(err)
}

// take puts tasks in hand; false once the worker drains.
func (s *session) take(tasks []*task) bool {
	s.mu.Lock()
	for _, t := range tasks {
		s.inHand[t.claim.ClaimID]++
	}
	s.mu.Unlock()
	if s.slots.add(tasks) {
		return true
	}
	for _, t := range tasks {
		s.forget(t)
	}
	return false
}

func (s *session) forget(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.inHand[t.claim.ClaimID]; n > 1 {
		s.inHand[t.claim.ClaimID] = n - 1
	} else {
		delete(s.inHand, t.claim.ClaimID)
	}
}

func (s *session) holds(claim uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inHand[claim] > 0
}

// settle ends a task. answered is false if no engine said how.
func (s *session) settle(t *task, answered bool) {
	s.forget(t)
	t.parcel.settle(answered)
}

// giveBack returns tasks that never started. A message of which nothing was started is negatively acknowledged; the
// rest of a message of which something was, and polled runs, are released.
func (s *session) giveBack(tasks []*task) {
	unstarted := make(map[*parcel]int)
	for _, t := range tasks {
		unstarted[t.parcel]++
	}
	whole := make(map[*parcel]bool)
	for p, n := range unstarted {
		if p != nil && n == p.size {
			whole[p] = true
			p.giveBack()
		}
	}
	for _, t := range tasks {
		if whole[t.parcel] {
			s.forget(t)
			continue
		}
		s.slots.tasks.Go(func() { s.release(t, "the worker stopped before the run began") })
	}
}

func (s *session) laneChanged() {
	select {
	case s.change <- struct{}{}:
	default:
	}
}
