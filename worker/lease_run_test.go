package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/worker"
	"github.com/daybookhq/daybook/worker/protocol"
)

// untilStopped is a handler that ends when its context does and hands out the cause.
func untilStopped(w *worker.Worker, began chan<- struct{}, cause chan<- error) {
	worker.Handle(w, kind, func(ctx context.Context, _ worker.Run[struct{}]) error {
		began <- struct{}{}
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
}

func receive[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("timed out waiting: %s", what)
	}
	return v
}

func TestCancelReachesTheHandlerThroughAHeartbeat(t *testing.T) {
	e := newEngine(t).serveNATS()
	e.lease = time.Second
	w := e.worker(nil)
	began, cause := make(chan struct{}, 1), make(chan error, 1)
	untilStopped(w, began, cause)
	e.start(w)
	r := e.run("a", `{}`)
	receive(t, "handler", began)
	e.mu.Lock()
	r.cancel = true
	e.mu.Unlock()
	if err := receive(t, "cause", cause); !errors.Is(err, worker.ErrCancelled) {
		t.Errorf("cause %v, want ErrCancelled", err)
	}
	if e.ended(r) != "fail" || r.fail.Retryable || r.fail.Error.Type != "cancelled" {
		t.Errorf("%s %+v", r.end, r.fail)
	}
	e.awaitNote("msg +ACK")
}

func TestCancelHintReachesTheHandlerLongBeforeTheNextHeartbeat(t *testing.T) {
	e := newEngine(t).serveNATS()
	e.lease = time.Hour
	w := e.worker(nil)
	began, cause := make(chan struct{}, 2), make(chan error, 1)
	untilStopped(w, began, cause)
	e.start(w)
	other := e.run("other", `{}`)
	receive(t, "handler", began)
	r := e.run("a", `{}`)
	receive(t, "handler", began)
	e.mu.Lock()
	r.cancel = true
	e.mu.Unlock()
	hint, err := protocol.Encode(protocol.CancelHint{RunIDs: []uuid.UUID{uuid.New(), r.claim.RunID, other.claim.RunID}})
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range [][]byte{[]byte("[]"), nil, hint} {
		if err := e.conn.Publish(protocol.CancelSubject, message); err != nil {
			t.Fatal(err)
		}
	}
	if err := receive(t, "cause", cause); !errors.Is(err, worker.ErrCancelled) {
		t.Errorf("cause %v, want ErrCancelled", err)
	}
	if e.ended(r) != "fail" || r.fail.Error.Type != "cancelled" {
		t.Errorf("%s %+v", r.end, r.fail)
	}
	// The hint is no order: the engine did not say that the other run was cancelled.
	select {
	case err := <-cause:
		t.Errorf("the other handler was stopped too: %v", err)
	default:
	}
	e.mu.Lock()
	other.cancel = true
	e.mu.Unlock()
	if err := e.conn.Publish(protocol.CancelSubject, hint); err != nil {
		t.Fatal(err)
	}
	receive(t, "cause", cause)
}

func TestSuccessAfterCancelIsReportedAsSuch(t *testing.T) {
	e := newEngine(t).serveNATS()
	e.lease = time.Second
	w := e.worker(nil)
	worker.Handle(w, kind, func(ctx context.Context, _ worker.Run[struct{}]) error {
		<-ctx.Done()
		return nil
	})
	e.start(w)
	r := e.claim(protocol.Lane{Queue: queue, Kind: kind}, "a", `{}`)
	r.cancel = true
	e.dispatch(r)
	if end := e.ended(r); end != "complete" {
		t.Errorf("ended with %s", end)
	}
}

func TestRefusedHeartbeatStopsTheWorkAndNothingIsSent(t *testing.T) {
	e := newEngine(t).serveNATS()
	e.lease = time.Second
	w := e.worker(nil)
	began, cause := make(chan struct{}, 1), make(chan error, 1)
	untilStopped(w, began, cause)
	stop := e.start(w)
	r := e.run("a", `{}`)
	receive(t, "handler", began)
	e.mu.Lock()
	r.end = "closed" // as the reaper does
	e.mu.Unlock()
	if err := receive(t, "cause", cause); !errors.Is(err, worker.ErrLeaseLost) {
		t.Errorf("cause %v, want ErrLeaseLost", err)
	}
	e.awaitNote("msg +ACK")
	if err := stop(); err != nil {
		t.Error(err)
	}
	e.sync()
	if n := e.count("fail") + e.count("complete") + e.count("release"); n != 0 {
		t.Errorf("an outcome was sent: %q", e.noted())
	}
}

func TestUnansweredRenewalEndsInALostLease(t *testing.T) {
	e := newEngine(t).serveNATS().serveHTTP()
	e.lease = time.Second
	e.setIntercept(func(via, op string, _ []byte) ([]byte, bool) {
		if op != protocol.OpHeartbeat {
			return nil, false
		}
		e.note("lost heartbeat %s", via)
		return nil, true
	})
	w := e.worker(nil)
	began, cause := make(chan struct{}, 1), make(chan error, 1)
	untilStopped(w, began, cause)
	stop := e.start(w)
	r := e.run("a", `{}`)
	receive(t, "handler", began)
	if err := receive(t, "cause", cause); !errors.Is(err, worker.ErrLeaseLost) {
		t.Errorf("cause %v, want ErrLeaseLost", err)
	}
	if until := func() time.Time { e.mu.Lock(); defer e.mu.Unlock(); return r.until }(); time.Now().Before(until.Add(-100 * time.Millisecond)) {
		t.Logf("stopped %v before the database would", time.Until(until))
	}
	if e.count("lost heartbeat nats") == 0 || e.count("lost heartbeat http") == 0 {
		t.Errorf("renewal was not tried over both: %q", e.noted())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	e.sync()
	if n := e.count("fail") + e.count("complete") + e.count("release") + e.count("msg +ACK"); n != 0 {
		t.Errorf("something was sent: %q", e.noted())
	}
}

func TestRenewedLeaseOutlivesItsSpan(t *testing.T) {
	e := newEngine(t).serveNATS()
	e.lease = 600 * time.Millisecond
	w := e.worker(nil)
	release := make(chan struct{})
	worker.Handle(w, kind, func(ctx context.Context, run worker.Run[struct{}]) error {
		run.Progress(0.25, "quarter")
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-release:
			return nil
		}
	})
	e.start(w)
	r := e.run("a", `{}`)
	e.await("six heartbeats", func() bool { return e.count("heartbeat") >= 6 })
	close(release)
	if end := e.ended(r); end != "complete" {
		t.Errorf("ended with %s %+v", end, r.fail)
	}
	said := 0
	for _, b := range r.beats {
		if b.Progress != nil && *b.Progress == 0.25 && b.Message == "quarter" {
			said++
		}
	}
	if said != 1 {
		t.Errorf("progress sent %d times in %+v", said, r.beats)
	}
}

func TestTimeoutEndsTheHandler(t *testing.T) {
	e := newEngine(t).serveNATS()
	w := e.worker(nil)
	began, cause := make(chan struct{}, 1), make(chan error, 1)
	deadline := make(chan time.Time, 1)
	worker.Handle(w, kind, func(ctx context.Context, run worker.Run[struct{}]) error {
		began <- struct{}{}
		deadline <- run.Deadline
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	e.start(w)
	r := e.claim(protocol.Lane{Queue: queue, Kind: kind}, "a", `{}`)
	r.timeout = 200 * time.Millisecond
	e.dispatch(r)
	receive(t, "handler", began)
	if d := receive(t, "deadline", deadline); d.IsZero() {
		t.Error("no deadline")
	}
	if err := receive(t, "cause", cause); !errors.Is(err, worker.ErrTimeout) {
		t.Errorf("cause %v, want ErrTimeout", err)
	}
	if e.ended(r) != "fail" || !r.fail.Retryable || r.fail.Error.Type != "timeout" {
		t.Errorf("%s %+v", r.end, r.fail)
	}
}

func TestDrainLetsHandlersEnd(t *testing.T) {
	e := newEngine(t).serveNATS()
	w := e.worker(nil)
	began, release := make(chan struct{}, 1), make(chan struct{})
	worker.Handle(w, kind, func(ctx context.Context, _ worker.Run[struct{}]) error {
		began <- struct{}{}
		<-release
		return ctx.Err()
	})
	stop := e.start(w)
	r := e.run("a", `{}`)
	receive(t, "handler", began)
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	e.await("presence without lanes", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		n := len(e.presence)
		return n > 0 && len(e.presence[n-1].Lanes) == 0
	})
	late := e.run("late", `{}`)
	close(release)
	if err := receive(t, "Run", stopped); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if r.end != "complete" || late.started {
		t.Errorf("ended with %q; a later run was started: %v", r.end, late.started)
	}
	e.sync()
	e.awaitStored(1)
	if n := e.count("msg +ACK"); n != 1 {
		t.Errorf("%d acks: %q", n, e.noted())
	}
}

func TestDrainStopsWhatDoesNotEndAndGivesItBack(t *testing.T) {
	e := newEngine(t).serveNATS()
	w := e.worker(func(c *worker.Config) { c.DrainTimeout = 50 * time.Millisecond })
	began, cause := make(chan struct{}, 1), make(chan error, 1)
	untilStopped(w, began, cause)
	stop := e.start(w)
	r := e.run("a", `{}`)
	receive(t, "handler", began)
	if err := stop(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if err := receive(t, "cause", cause); !errors.Is(err, worker.ErrDraining) {
		t.Errorf("cause %v, want ErrDraining", err)
	}
	if r.end != "release" || r.release.Reason == "" {
		t.Errorf("%q %+v", r.end, r.release)
	}
	e.sync()
	if n := e.count("msg +ACK"); n != 1 {
		t.Errorf("%d acks: %q", n, e.noted())
	}
}

// A message of which nothing started goes back by a negative acknowledgement.
func TestDrainGivesBackMessagesThatNeverStarted(t *testing.T) {
	e := newEngine(t).serveNATS()
	w := e.worker(func(c *worker.Config) { c.Slots = 3 })
	began, release := make(chan struct{}, 8), make(chan struct{})
	worker.Handle(w, kind, func(_ context.Context, run worker.Run[struct{}]) error {
		if run.Job != "job-warm" {
			began <- struct{}{}
			<-release
		}
		return nil
	})
	l := protocol.Lane{Queue: queue, Kind: kind}
	// After the first message the worker asks for two or three at once: one that fills its slots, and one that waits.
	e.run("warm", "")
	e.dispatch(e.claim(l, "a1", ""), e.claim(l, "a2", ""), e.claim(l, "a3", ""))
	b1, b2 := e.claim(l, "b1", ""), e.claim(l, "b2", "")
	e.dispatch(b1, b2)
	stop := e.start(w)
	for range 3 {
		receive(t, "handler", began)
	}
	e.await("both messages in hand", func() bool {
		s, err := e.js.Stream(t.Context(), protocol.DispatchStream)
		if err != nil {
			return false
		}
		c, err := s.Consumer(t.Context(), protocol.ConsumerName(queue, kind, s.CachedInfo().Created))
		return err == nil && c.CachedInfo().NumAckPending == 2
	})
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	e.awaitNote("msg -NAK")
	close(release)
	if err := receive(t, "Run", stopped); err != nil {
		t.Error(err)
	}
	e.sync()
	e.awaitStored(1)
	if b1.started || b2.started || e.count("release") != 0 || e.count("msg -NAK") != 1 {
		t.Errorf("%q", e.noted())
	}
}

// Of a message that is partly executed the rest is released.
func TestDrainReleasesTheRestOfAMessage(t *testing.T) {
	e := newEngine(t).serveNATS()
	w := e.worker(func(c *worker.Config) { c.Slots = 1 })
	began, release := make(chan struct{}, 4), make(chan struct{})
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error {
		began <- struct{}{}
		<-release
		return nil
	})
	l := protocol.Lane{Queue: queue, Kind: kind}
	first, second, third := e.claim(l, "1", ""), e.claim(l, "2", ""), e.claim(l, "3", "")
	stop := e.start(w)
	e.dispatch(first, second, third)
	receive(t, "handler", began)
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	e.await("release of the rest", func() bool { return e.count("release") == 2 })
	close(release)
	if err := receive(t, "Run", stopped); err != nil {
		t.Error(err)
	}
	if first.end != "complete" || second.end != "release" || third.end != "release" || e.count("start") != 1 {
		t.Errorf("ends %q %q %q: %q", first.end, second.end, third.end, e.noted())
	}
	e.sync()
	e.awaitStored(0)
	if e.count("msg +ACK") != 1 || e.count("msg -NAK") != 0 {
		t.Errorf("%q", e.noted())
	}
}

func TestUnansweredStartIsReleasedAtShutdown(t *testing.T) {
	e := newEngine(t).serveNATS()
	e.setAnswered(func(_, op string, _, reply []byte) []byte {
		if op == protocol.OpStart {
			return nil // every reply is lost, though the start is recorded
		}
		return reply
	})
	w := e.worker(nil)
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { e.note("handler"); return nil })
	stop := e.start(w)
	r := e.run("a", `{}`)
	e.awaitNote("start")
	if err := stop(); err != nil {
		t.Error(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.end != "release" || r.release.Token != e.starts[0].Token {
		t.Errorf("%q %+v", r.end, r.release)
	}
}

func TestHandlerThatWillNotStopIsReported(t *testing.T) {
	e := newEngine(t).serveNATS()
	w := e.worker(func(c *worker.Config) { c.DrainTimeout, c.StopTimeout = time.Millisecond, 50*time.Millisecond })
	began, release := make(chan struct{}, 1), make(chan struct{})
	var returned atomic.Bool
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error {
		began <- struct{}{}
		<-release
		returned.Store(true)
		return nil
	})
	stop := e.start(w)
	e.run("a", `{}`)
	receive(t, "handler", began)
	if err := stop(); err == nil || returned.Load() {
		t.Errorf("Run returned %v", err)
	}
	close(release)
	e.await("handler", returned.Load)
	e.sync()
	if n := e.count("complete") + e.count("release") + e.count("msg +ACK"); n != 0 {
		t.Errorf("something was sent after Run had returned: %q", e.noted())
	}
}

func TestRunWhoseLeaseIsOverIsNotExecuted(t *testing.T) {
	e := newEngine(t).serveNATS()
	e.lease = -time.Millisecond // the answer was that long under way
	w := e.worker(func(c *worker.Config) { c.Slots = 1 })
	worker.Handle(w, kind, func(_ context.Context, run worker.Run[struct{}]) error { e.note("handler %s", run.Job); return nil })
	stop := e.start(w)
	e.run("a", `{}`)
	e.awaitNote("start a")
	e.mu.Lock()
	e.lease = time.Minute
	e.mu.Unlock()
	e.ended(e.run("b", `{}`)) // which waits for the slot of a
	if err := stop(); err != nil {
		t.Error(err)
	}
	e.sync()
	if e.count("handler job-a")+e.count("complete a") != 0 || e.count("msg +ACK") != 1 {
		t.Errorf("%q", e.noted())
	}
}
