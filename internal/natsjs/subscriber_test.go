package natsjs_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker/protocol"
)

var eventTopic = protocol.EventSubject(3, "run-failed")

func subscriber(t *testing.T, js jetstream.JetStream, change func(*natsjs.SubscriberOptions)) *natsjs.Subscriber {
	t.Helper()
	opts := natsjs.SubscriberOptions{Durable: "alerts", NackDelay: 10 * time.Millisecond, CloseWait: deadline, Logger: natstest.Quiet()}
	if change != nil {
		change(&opts)
	}
	s, err := natsjs.NewSubscriber(js, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func subscribe(t *testing.T, s *natsjs.Subscriber) <-chan *message.Message {
	t.Helper()
	// Cancelled before the subscriber's cleanup waits, also when the test fails with messages in hand.
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ms, err := s.Subscribe(ctx, protocol.EventSubjects)
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

func consumerInfo(t *testing.T, js jetstream.JetStream) *jetstream.ConsumerInfo {
	t.Helper()
	c, err := js.Consumer(within(t), protocol.EventsStream, "alerts")
	if err != nil {
		t.Fatal(err)
	}
	return c.CachedInfo()
}

func event(t *testing.T, js jetstream.JetStream, id string) {
	t.Helper()
	m := &nats.Msg{Subject: eventTopic, Data: []byte(id), Header: nats.Header{protocol.HeaderMsgID: {id}}}
	if _, err := js.PublishMsg(within(t), m); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, ms <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case m, ok := <-ms:
		if !ok {
			t.Fatal("subscription ended")
		}
		return m
	case <-within(t).Done():
		t.Fatal("no message came")
		return nil
	}
}

func TestSubscriberHandsOutSeveralAndMapsVerdicts(t *testing.T) {
	_, js, _ := ensured(t)
	ms := subscribe(t, subscriber(t, js, nil))
	for i := range 3 {
		event(t, js, strconv.Itoa(i))
	}
	a, b, c := receive(t, ms), receive(t, ms), receive(t, ms) // without any ack
	if a.UUID != "0" || string(b.Payload) != "1" || c.Metadata.Get(natsjs.MetaSubject) != eventTopic {
		t.Errorf("messages: %v, %s, %v", a, b.Payload, c.Metadata)
	}
	a.Ack()
	c.Ack()
	b.Nack()
	again := receive(t, ms)
	if again.UUID != "1" {
		t.Errorf("after the nack of 1 came %s", again.UUID)
	}
	again.Ack()
	eventually(t, "everything is acked", func() bool {
		info := consumerInfo(t, js)
		return info.NumAckPending == 0 && info.NumPending == 0
	})
	select {
	case <-again.Context().Done():
	case <-within(t).Done():
		t.Error("the context of an acked message goes on")
	}
}

// A handler may take many ack waits: the message is extended meanwhile, and no second copy goes out.
func TestSubscriberKeepsASlowHandlersMessage(t *testing.T) {
	_, js, _ := ensured(t)
	acks, err := js.Conn().SubscribeSync("$JS.ACK." + protocol.EventsStream + ".alerts.>")
	if err != nil {
		t.Fatal(err)
	}
	s := subscriber(t, js, func(o *natsjs.SubscriberOptions) { o.AckWait = time.Second })
	ms := subscribe(t, s)
	event(t, js, "slow")
	m := receive(t, ms)
	for range 5 { // three in an ack wait
		extension, err := acks.NextMsgWithContext(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if string(extension.Data) != "+WPI" {
			t.Errorf("%q was sent for a message in hand", extension.Data)
		}
	}
	select {
	case again := <-ms:
		t.Errorf("%s came again while its handler ran", again.UUID)
	default:
	}
	m.Ack()
}

// Whoever deletes the consumer, the next one begins where it stood: nothing unacked is lost.
func TestSubscriberSurvivesTheLossOfItsConsumer(t *testing.T) {
	s, js, _ := ensured(t)
	ms := subscribe(t, subscriber(t, js, nil))
	event(t, js, "acked")
	receive(t, ms).Ack()
	eventually(t, "the ack arrived", func() bool { return consumerInfo(t, js).NumAckPending == 0 })
	event(t, js, "open")
	open := receive(t, ms)
	if err := js.DeleteConsumer(within(t), protocol.EventsStream, "alerts"); err != nil {
		t.Fatal(err)
	}
	event(t, js, "new")
	for seen := map[string]bool{}; !seen["open"] || !seen["new"]; {
		m := receive(t, ms)
		seen[m.UUID] = true
		m.Ack()
	}
	open.Ack()

	s.WipeAndRestart(t)
	natstest.AwaitConnected(t, js.Conn())
	if _, err := natsjs.Ensure(within(t), js, topology); err != nil {
		t.Fatal(err)
	}
	event(t, js, "after the wipe")
	for {
		m := receive(t, ms)
		m.Ack()
		if m.UUID == "after the wipe" {
			return
		}
	}
}

func TestSubscriberBoundsWhatItHandsOut(t *testing.T) {
	_, js, _ := ensured(t)
	ms := subscribe(t, subscriber(t, js, func(o *natsjs.SubscriberOptions) { o.MaxInFlight = 2 }))
	for i := range 6 {
		event(t, js, strconv.Itoa(i))
	}
	first, second := receive(t, ms), receive(t, ms)
	// The server counts a published message for its consumers a moment after its answer.
	var info *jetstream.ConsumerInfo
	eventually(t, "the consumer knows of every message", func() bool {
		info = consumerInfo(t, js)
		return uint64(info.NumAckPending)+info.NumPending == 6 //nolint:gosec // A count.
	})
	if info.NumAckPending != 2 {
		t.Errorf("%d messages taken, want 2", info.NumAckPending)
	}
	first.Ack()
	second.Nack()
	for range 5 {
		receive(t, ms).Ack()
	}
}

// A reader that went away without taking what was offered must not keep Close waiting.
func TestSubscriberClosesWithAMessageNobodyTakes(t *testing.T) {
	_, js, _ := ensured(t)
	s := subscriber(t, js, nil)
	subscribe(t, s)
	event(t, js, "untaken")
	eventually(t, "the message is offered", func() bool { return consumerInfo(t, js).NumAckPending == 1 })
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-within(t).Done():
		t.Error("Close waits for the reader")
	}
}

func TestSubscriberRefusesAnotherOnesConsumer(t *testing.T) {
	_, js, _ := ensured(t)
	taken := jetstream.ConsumerConfig{Durable: "alerts", FilterSubject: "daybook.v1.event.0.>", AckPolicy: jetstream.AckExplicitPolicy}
	if _, err := js.CreateConsumer(within(t), protocol.EventsStream, taken); err != nil {
		t.Fatal(err)
	}
	_, err := subscriber(t, js, nil).Subscribe(t.Context(), protocol.EventSubjects)
	if fields := mismatch(t, err); len(fields) == 0 {
		t.Error(err)
	}
}

func TestSubscriberCloseWaitsForHandlers(t *testing.T) {
	_, js, _ := ensured(t)
	s := subscriber(t, js, nil)
	ms := subscribe(t, s)
	event(t, js, "last")
	m := receive(t, ms)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	if _, open := <-ms; open {
		t.Error("a message came after Close")
	}
	if m.Context().Err() != nil {
		t.Error("Close cancelled a handler at work")
	}
	select {
	case <-closed:
		t.Error("Close did not wait for the handler")
	default:
	}
	m.Ack()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	eventually(t, "the ack arrived", func() bool { return consumerInfo(t, js).NumAckPending == 0 })
	if _, err := s.Subscribe(t.Context(), protocol.EventSubjects); err == nil {
		t.Error("a closed subscriber subscribes")
	}
}

func TestRouterReactsToEvents(t *testing.T) {
	_, js, _ := ensured(t)
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: deadline}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	handled := make(chan string, 1)
	router.AddConsumerHandler("alert", protocol.EventSubjects, subscriber(t, js, nil), func(m *message.Message) error {
		handled <- m.UUID
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx) }()
	<-router.Running()
	event(t, js, "failed")
	select {
	case id := <-handled:
		if id != "failed" {
			t.Errorf("handled %q", id)
		}
	case <-within(t).Done():
		t.Error("the handler was not called")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
