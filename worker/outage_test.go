package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/worker"
	"github.com/daybookhq/daybook/worker/protocol"
)

var lane = protocol.Lane{Queue: queue, Kind: kind}

func TestRunSurvivesTheLossOfNATSOverHTTP(t *testing.T) {
	e := newEngine(t).serveNATS().serveHTTP()
	e.lease = time.Second
	w := e.worker(nil)
	began, release := make(chan struct{}, 8), make(chan struct{})
	worker.Handle(w, kind, func(ctx context.Context, _ worker.Run[struct{}]) error {
		began <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	e.start(w)
	r := e.run("a", `{}`)
	receive(t, "handler", began)
	e.nats.Stop()
	e.await("heartbeats over HTTP", func() bool { return e.count("heartbeat a http") >= 4 })
	close(release)
	if end := e.ended(r); end != "complete" {
		t.Fatalf("ended with %s %+v", end, r.fail)
	}
	if e.count("complete a http") != 1 {
		t.Errorf("complete did not go over HTTP: %q", e.noted())
	}
	// More work arrives over HTTP meanwhile, and over NATS when it is back.
	polled := e.claim(lane, "polled", `{}`)
	e.wakePolls()
	if end := e.ended(polled); end != "complete" {
		t.Errorf("polled run ended with %s", end)
	}
	if err := e.nats.Start(); err != nil {
		t.Fatal(err)
	}
	back := e.claim(lane, "back", `{}`)
	e.await("publishing again", func() bool {
		body := protocol.AppendHints(nil, []protocol.Hint{back.hint()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := e.js.Publish(ctx, protocol.DispatchSubject(queue, kind), body)
		return err == nil
	})
	if end := e.ended(back); end != "complete" {
		t.Errorf("run after the outage ended with %s", end)
	}
}

// A stream may take no messages any more while its consumers answer as before.
func TestLaneThatStaysQuietIsPolled(t *testing.T) {
	e := newEngine(t).serveNATS().serveHTTP()
	w := e.worker(nil)
	worker.Quiet(w, 100*time.Millisecond)
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { return nil })
	e.start(w)
	for _, name := range []string{"a", "b", "c"} {
		r := e.claim(lane, name, `{}`) // and no message
		if end := e.ended(r); end != "complete" {
			t.Errorf("%s ended with %s", name, end)
		}
	}
	// What comes by the consumer is taken from there as ever.
	r := e.run("d", `{}`)
	if end := e.ended(r); end != "complete" {
		t.Errorf("d ended with %s", end)
	}
	e.await("its message to be settled", func() bool { return e.count("msg +ACK") == 1 })
}

func TestNATSComesLate(t *testing.T) {
	e := newEngine(t).serveNATS()
	e.nats.Stop()
	w := e.worker(nil)
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { return nil })
	stop := e.start(w)
	if err := e.nats.Start(); err != nil {
		t.Fatal(err)
	}
	r := e.claim(lane, "a", `{}`)
	e.await("publishing", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := e.js.Publish(ctx, protocol.DispatchSubject(queue, kind), protocol.AppendHints(nil, []protocol.Hint{r.hint()}))
		return err == nil
	})
	if end := e.ended(r); end != "complete" {
		t.Errorf("ended with %s", end)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestNeverConnectedWorkerStops(t *testing.T) {
	e := newEngine(t)
	w := e.worker(func(c *worker.Config) { c.NATSURL = "nats://127.0.0.1:1" })
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { return nil })
	if err := e.start(w)(); err != nil {
		t.Error(err)
	}
}

func TestWorksOverHTTPAlone(t *testing.T) {
	e := newEngine(t).serveHTTP()
	e.token = "secret"
	w := e.worker(func(c *worker.Config) { c.Token = "secret" })
	var executions atomic.Int64
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { executions.Add(1); return nil })
	stop := e.start(w)
	var runs []*fakeRun
	for i := range 20 {
		runs = append(runs, e.claim(lane, fmt.Sprint(i), `{}`))
		e.wakePolls()
	}
	for _, r := range runs {
		if end := e.ended(r); end != "complete" {
			t.Errorf("%s ended with %s", r.name, end)
		}
	}
	if n := executions.Load(); n != 20 {
		t.Errorf("%d executions of 20 runs: %q", n, e.noted())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestWrongTokenOverHTTPEndsRun(t *testing.T) {
	e := newEngine(t).serveHTTP()
	e.token = "secret"
	w := e.worker(func(c *worker.Config) { c.Token = "guess" })
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { return nil })
	done := make(chan error, 1)
	go func() { done <- w.Run(t.Context()) }()
	if err := receive(t, "Run", done); !errors.Is(err, worker.ErrUnauthorized) || !strings.Contains(err.Error(), "token lacks the scope work") {
		t.Errorf("Run returned %v", err)
	}
}

func TestPolledRunInHandIsNotTakenAgain(t *testing.T) {
	e := newEngine(t).serveHTTP()
	held := make(chan struct{})
	e.setIntercept(func(_, op string, _ []byte) ([]byte, bool) {
		if op == protocol.OpStart {
			<-held // polls go on meanwhile and find the claim unstarted
		}
		return nil, false
	})
	w := e.worker(nil)
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { return nil })
	e.start(w)
	r := e.claim(lane, "a", `{}`)
	e.wakePolls()
	e.await("three polls with the run", func() bool { return e.count("poll") >= 3 })
	close(held)
	if end := e.ended(r); end != "complete" || e.count("start") != 1 {
		t.Errorf("ended with %s: %q", end, e.noted())
	}
}

// The stream and its consumers vanish and come back as another incarnation, while a run of the old one is in hand.
func TestFollowsTheStreamToItsNextIncarnation(t *testing.T) {
	e := newEngine(t).serveNATS()
	w := e.worker(nil)
	began, release := make(chan string, 8), make(chan struct{})
	worker.Handle(w, kind, func(_ context.Context, run worker.Run[struct{}]) error {
		began <- run.Job
		if run.Job == "job-old" {
			<-release
		}
		return nil
	})
	e.start(w)
	old := e.run("old", `{}`)
	receive(t, "handler", began)
	if err := e.js.DeleteStream(t.Context(), protocol.DispatchStream); err != nil {
		t.Fatal(err)
	}
	e.createStream(lane)
	fresh := e.run("new", `{}`)
	if end := e.ended(fresh); end != "complete" {
		t.Fatalf("ended with %s", end)
	}
	e.awaitStored(0)
	// The next message has the sequence of the old one's; the old one's late ack must not remove it.
	e.js.DeleteStream(t.Context(), protocol.DispatchStream)
	e.createStream()
	keep := e.claim(lane, "keep", `{}`)
	e.dispatch(keep)
	close(release)
	if end := e.ended(old); end != "complete" {
		t.Errorf("ended with %s", end)
	}
	e.await("the late ack", func() bool { return e.count("msg +ACK") >= 2 })
	if n := e.stored(); n != 1 {
		t.Errorf("%d messages in the new stream, want the one nobody has pulled", n)
	}
	s, err := e.js.Stream(t.Context(), protocol.DispatchStream)
	if err != nil {
		t.Fatal(err)
	}
	e.createConsumer(s, lane)
	if end := e.ended(keep); end != "complete" {
		t.Errorf("ended with %s", end)
	}
}

func TestDeletedConsumerIsWaitedFor(t *testing.T) {
	e := newEngine(t).serveNATS()
	w := e.worker(nil)
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { return nil })
	e.start(w)
	e.ended(e.run("before", `{}`))
	s, err := e.js.Stream(t.Context(), protocol.DispatchStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteConsumer(t.Context(), protocol.ConsumerName(queue, kind, s.CachedInfo().Created)); err != nil {
		t.Fatal(err)
	}
	r := e.run("after", `{}`)
	e.createConsumer(s, lane)
	if end := e.ended(r); end != "complete" {
		t.Errorf("ended with %s", end)
	}
}
