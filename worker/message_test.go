package worker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/worker"
	"github.com/daybookhq/daybook/worker/protocol"
)

func TestPoisonousMessagesAreTerminated(t *testing.T) {
	e := newEngine(t).serveNATS()
	w := e.worker(func(c *worker.Config) { c.Slots = 1 })
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { return nil })
	e.publish(lane, []byte("{not json"))
	e.publish(lane, []byte("[]"))
	newer := nats.NewMsg(protocol.DispatchSubject(queue, kind))
	newer.Header.Set(protocol.HeaderProtocol, "2")
	newer.Data = protocol.AppendHints(nil, []protocol.Hint{e.claim(lane, "newer", "").hint()})
	if _, err := e.js.PublishMsg(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	e.start(w)
	r := e.run("good", `{}`)
	if end := e.ended(r); end != "complete" {
		t.Fatalf("ended with %s", end)
	}
	e.awaitStored(0)
	e.sync()
	if e.count("msg +TERM dispatch message: ") != 3 || e.count("msg +ACK") != 1 || e.count("start") != 1 {
		t.Errorf("%q", e.noted())
	}
}

func TestSlotsAreNeverExceeded(t *testing.T) {
	const slots, messages = 3, 200
	e := newEngine(t).serveNATS()
	w := e.worker(func(c *worker.Config) { c.Slots = slots })
	var running, most, executions atomic.Int64
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error {
		n := running.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		executions.Add(1)
		time.Sleep(time.Millisecond)
		running.Add(-1)
		return nil
	})
	var pulled atomic.Int64
	nc := e.nats.Conn(t)
	e.subscribe(nc, "$JS.API.CONSUMER.MSG.NEXT.>", func(m *nats.Msg) {
		var n int64
		fmt.Sscanf(string(m.Data), `{"batch":%d`, &n)
		for m := pulled.Load(); n > m && !pulled.CompareAndSwap(m, n); m = pulled.Load() {
		}
	})
	var runs []*fakeRun
	for i := range messages {
		runs = append(runs, e.run(fmt.Sprint(i), ""))
	}
	e.start(w)
	for _, r := range runs {
		e.ended(r)
	}
	if n := executions.Load(); n != messages {
		t.Errorf("%d executions of %d runs", n, messages)
	}
	if n := most.Load(); n > slots {
		t.Errorf("%d handlers ran at a time with %d slots", n, slots)
	}
	if n := pulled.Load(); n > slots {
		t.Errorf("%d messages were pulled at once with %d slots", n, slots)
	}
}

func TestParcelIsAckedOnceAfterItsLastRun(t *testing.T) {
	e := newEngine(t)
	e.ack = 600 * time.Millisecond
	e.serveNATS()
	w := e.worker(func(c *worker.Config) { c.Slots = 4 })
	var executions atomic.Int64
	release := make(chan struct{})
	worker.Handle(w, kind, func(_ context.Context, run worker.Run[struct{}]) error {
		executions.Add(1)
		if run.Job == "job-0" {
			<-release
		}
		return nil
	})
	e.start(w)
	var runs []*fakeRun
	for i := range 10 {
		runs = append(runs, e.claim(lane, fmt.Sprint(i), ""))
	}
	e.dispatch(runs...)
	for _, r := range runs[1:] {
		e.ended(r)
	}
	// Well beyond the ack wait: the message is neither acked nor redelivered while a run of it goes on.
	e.await("signs of life", func() bool { return e.count("msg +WPI") >= 10 })
	if n := e.count("msg +ACK"); n != 0 {
		t.Fatalf("acked before the last run: %q", e.noted())
	}
	close(release)
	e.ended(runs[0])
	e.await("ack", func() bool { return e.count("msg +ACK") == 1 && e.stored() == 0 })
	if n := executions.Load(); n != 10 || e.count("start") != 10 {
		t.Errorf("%d executions, %d starts of 10 runs", n, e.count("start"))
	}
}

// More lanes than slots: every lane gets its turn, also when one of them always has work.
func TestLanesTakeTurns(t *testing.T) {
	e := newEngine(t)
	var lanes []protocol.Lane
	for i := range 6 {
		lanes = append(lanes, protocol.Lane{Queue: queue, Kind: fmt.Sprintf("k%d", i)})
	}
	e.serveNATS(lanes...)
	w := e.worker(func(c *worker.Config) { c.Slots = 1 })
	var mu sync.Mutex
	var order []string
	var running atomic.Int64
	for _, l := range lanes {
		worker.Handle(w, l.Kind, func(_ context.Context, run worker.Run[struct{}]) error {
			if running.Add(1) > 1 {
				t.Error("two handlers in one slot")
			}
			defer running.Add(-1)
			mu.Lock()
			order = append(order, run.Kind)
			mu.Unlock()
			return nil
		})
	}
	var runs []*fakeRun
	for i := range 100 {
		r := e.claim(lanes[0], fmt.Sprint("busy", i), "")
		e.dispatch(r)
		runs = append(runs, r)
	}
	for _, l := range lanes[1:] {
		r := e.claim(l, "rare", "")
		e.dispatch(r)
		runs = append(runs, r)
	}
	e.start(w)
	for _, r := range runs {
		if end := e.ended(r); end != "complete" {
			t.Errorf("%s ended with %s", r.name, end)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for i, k := range order {
		if k == "k5" && i > 90 {
			t.Errorf("the last lane was served after %d runs of the busy one", i)
		}
	}
}

func TestPresenceDeclaresTheLanes(t *testing.T) {
	e := newEngine(t).serveNATS()
	w := e.worker(func(c *worker.Config) { c.Queues, c.Slots, c.Version = []string{"b", "a"}, 7, "v1.2.3" })
	worker.Handle(w, "x", func(context.Context, worker.Run[struct{}]) error { return nil })
	worker.Handle(w, "y", func(context.Context, worker.Run[struct{}]) error { return nil })
	e.start(w)
	e.await("presence", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return len(e.presence) > 0 })
	e.mu.Lock()
	p := e.presence[0]
	e.mu.Unlock()
	if got := fmt.Sprint(p.Lanes); got != "[{a x} {a y} {b x} {b y} {q x} {q y}]" || p.Slots != 7 || p.Version != "v1.2.3" || p.WorkerID != w.ID() || p.Host == "" {
		t.Errorf("%+v", p)
	}
}

func TestReplyThatDoesNotFitIsAskedForInParts(t *testing.T) {
	e := newEngine(t).serveNATS()
	e.setIntercept(func(_, op string, body []byte) ([]byte, bool) {
		if op == protocol.OpStart && len(body) > 600 {
			e.note("too large")
			return errorReply(protocol.CodeTooLarge), true
		}
		return nil, false
	})
	w := e.worker(func(c *worker.Config) { c.Slots = 50 })
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { return nil })
	var runs []*fakeRun
	for i := range 50 {
		runs = append(runs, e.claim(lane, fmt.Sprint(i), ""))
	}
	e.dispatch(runs...)
	e.start(w)
	for _, r := range runs {
		if end := e.ended(r); end != "complete" {
			t.Errorf("%s ended with %s", r.name, end)
		}
	}
	if e.count("too large") == 0 {
		t.Error("no batch was too large: the test shows nothing")
	}
}

// A lane that has the worker to itself does not ask anew for each message.
func TestPullsOfALaneAloneAreFewerThanItsMessages(t *testing.T) {
	e := newEngine(t).serveNATS()
	var pulls atomic.Int64
	e.subscribe(e.conn, "$JS.API.CONSUMER.MSG.NEXT.>", func(*nats.Msg) { pulls.Add(1) })
	e.sync()
	w := e.worker(func(c *worker.Config) { c.Slots = 100 })
	worker.Handle(w, kind, func(context.Context, worker.Run[struct{}]) error { return nil })
	e.start(w)
	const messages = 40
	for i := range messages {
		if end := e.ended(e.run(fmt.Sprint(i), "{}")); end != "complete" {
			t.Fatalf("ended with %s", end)
		}
	}
	e.sync()
	if n := pulls.Load(); n == 0 || n >= messages {
		t.Errorf("%d pulls for %d messages, one after the other", n, messages)
	}
}
