package natsjs_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker/protocol"
)

// What is refused during an outage must not be sent after it: the caller has decided about it by then.
func TestOutageFailsAtOnceAndNothingIsSentLate(t *testing.T) {
	for _, transport := range []string{"tcp", "in-process"} {
		t.Run(transport, func(t *testing.T) {
			s, js, _ := ensured(t)
			nc := s.Conn(t)
			if transport == "in-process" {
				nc = s.InProcess(t)
			}
			p := publisher(t, nc)
			if err := p.Publish(topic, dispatch("before")); err != nil {
				t.Fatal(err)
			}
			s.Stop()
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			ms := batch(500)
			ms[0].SetContext(ctx)
			err := p.Publish(topic, ms...)
			if failed := failures(t, err); len(failed) != 500 || natsjs.Permanent(err) || ctx.Err() != nil {
				t.Fatalf("%d of 500 failed, permanent %v: %v", len(failed), natsjs.Permanent(err), err)
			}
			if errors.Is(failures(t, err)[499], natsjs.ErrNoAck) {
				t.Errorf("the last message waited for an answer: %v", failures(t, err)[499])
			}
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			natstest.AwaitConnected(t, nc)
			natstest.AwaitConnected(t, js.Conn())
			// Everything the connection had buffered would be stored before this one.
			if err := p.Publish(topic, dispatch("after")); err != nil {
				t.Fatal(err)
			}
			if n := stored(t, js); n != 2 {
				t.Errorf("%d messages stored, want the one before and the one after", n)
			}
		})
	}
}

func TestPublishBeforeTheFirstConnectIsWorthARetry(t *testing.T) {
	s, js, _ := ensured(t)
	s.Stop()
	nc, err := natsjs.Connect(natsjs.ConnectOptions{URL: s.URL(), Name: "early", Logger: natstest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	p := publisher(t, nc)
	if err := p.Publish(topic, dispatch("early")); err == nil || natsjs.Permanent(err) {
		t.Errorf("error %v; want one worth a retry", err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	natstest.AwaitConnected(t, nc)
	natstest.AwaitConnected(t, js.Conn())
	if err := p.Publish(topic, dispatch("now")); err != nil {
		t.Error(err)
	}
	if n := stored(t, js); n != 1 {
		t.Errorf("%d messages stored, want 1", n)
	}
}

func TestMessagesInFlightAtADisconnectAreReported(t *testing.T) {
	s, js, _ := ensured(t)
	nc := s.Conn(t)
	p := publisher(t, nc)
	done := make(chan struct{})
	var wg sync.WaitGroup
	acked := make([]int, 4)
	for w := range acked {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				ms := batch(64)
				for _, m := range ms {
					m.Metadata[protocol.HeaderMsgID] = strconv.Itoa(w) + "-" + strconv.Itoa(n) + "-" + m.UUID
				}
				failed := failures(t, p.Publish(topic, ms...))
				acked[w] += len(ms) - len(failed)
				for i, err := range failed {
					if natsjs.Permanent(err) {
						t.Errorf("message %d: %v is permanent", i, err)
					}
				}
			}
		})
	}
	for range 3 {
		natstest.AwaitConnected(t, js.Conn())
		before := stored(t, js)
		eventually(t, "messages flow", func() bool { return stored(t, js) > before+500 })
		s.Restart(t)
		natstest.AwaitConnected(t, nc)
	}
	natstest.AwaitConnected(t, js.Conn())
	close(done)
	wg.Wait()
	total := 0
	for _, n := range acked {
		total += n
	}
	if n := stored(t, js); int(n) < total {
		t.Errorf("%d messages reported as stored, %d are", total, n)
	}
}

// silence makes "silent" a subject that takes messages and answers nothing by itself.
func silence(t *testing.T, s *natstest.Server) *nats.Subscription {
	t.Helper()
	nc := s.Conn(t)
	sub, err := nc.SubscribeSync("silent")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushWithContext(within(t)); err != nil {
		t.Fatal(err)
	}
	return sub
}

func TestContextOfTheFirstMessageEndsTheWait(t *testing.T) {
	s := natstest.New(t)
	nc := s.Conn(t)
	silence(t, s)
	p, err := natsjs.NewPublisher(nc, 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan error)
	go func() {
		ms := []*message.Message{message.NewMessageWithContext(ctx, "", nil), message.NewMessage("", nil)}
		result <- p.Publish("silent", ms...)
	}()
	eventually(t, "both are sent", func() bool { return nc.Stats().OutMsgs >= 2 })
	cancel(cause)
	failed := failures(t, <-result)
	if len(failed) != 2 || !errors.Is(failed[1], natsjs.ErrNoAck) || !errors.Is(failed[1], cause) || natsjs.Permanent(failed[1]) {
		t.Errorf("failures %v", failed)
	}
}

func TestUnansweredPublishTimesOut(t *testing.T) {
	s := natstest.New(t)
	nc := s.Conn(t)
	silence(t, s)
	p, err := natsjs.NewPublisher(nc, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	failed := failures(t, p.Publish("silent", message.NewMessage("", nil)))
	if !errors.Is(failed[0], natsjs.ErrNoAck) || natsjs.Permanent(failed[0]) {
		t.Errorf("failures %v", failed)
	}
}

func TestClosedConnectionLeavesNobodyWaiting(t *testing.T) {
	s := natstest.New(t)
	nc := s.Conn(t)
	silence(t, s)
	p, err := natsjs.NewPublisher(nc, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() { result <- p.Publish("silent", message.NewMessage("", nil)) }()
	eventually(t, "it is sent", func() bool { return nc.Stats().OutMsgs >= 1 })
	nc.Close()
	if failed := failures(t, <-result); len(failed) != 1 || natsjs.Permanent(failed[0]) {
		t.Errorf("failures %v", failed)
	}
}

// The router closes the publisher of every handler that stops; another handler may share it.
func TestCloseWaitsAndLeavesThePublisherUsable(t *testing.T) {
	s, js, _ := ensured(t)
	nc := s.Conn(t)
	answer := silence(t, s)
	p := publisher(t, nc)
	result := make(chan error, 1)
	go func() { result <- p.Publish("silent", message.NewMessage("", nil)) }()
	request, err := answer.NextMsgWithContext(within(t))
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	// A new call is neither refused nor does it wait for the slow one.
	if err := p.Publish(topic, dispatch("other")); err != nil {
		t.Errorf("Publish while Close waits: %v", err)
	}
	select {
	case <-closed:
		t.Error("Close returned while a message was in flight")
	default:
	}
	if err := request.Respond([]byte(`{"stream":"S","seq":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if nc.IsClosed() {
		t.Error("Close closed the connection")
	}
	if err := p.Publish(topic, dispatch("later")); err != nil {
		t.Errorf("Publish after Close: %v", err)
	}
	if n := stored(t, js); n != 2 {
		t.Errorf("%d messages stored, want 2", n)
	}
}
