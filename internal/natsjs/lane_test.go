package natsjs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker/protocol"
)

var lane = protocol.Lane{Queue: "mail", Kind: "send-email"}

// ensured returns JetStream on a new server with our streams and the lane's consumer.
func ensured(t *testing.T) (*natstest.Server, jetstream.JetStream, jetstream.Consumer) {
	t.Helper()
	s := natstest.New(t)
	js := s.JetStream(t)
	if _, err := natsjs.Ensure(within(t), js, topology); err != nil {
		t.Fatal(err)
	}
	return s, js, laneConsumer(t, js)
}

func laneConsumer(t *testing.T, js jetstream.JetStream) jetstream.Consumer {
	t.Helper()
	name, err := natsjs.EnsureConsumer(within(t), js, topology, lane)
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.Consumer(within(t), protocol.DispatchStream, name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func stored(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	s, err := js.Stream(within(t), protocol.DispatchStream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func fetchOne(t *testing.T, c jetstream.Consumer) jetstream.Msg {
	t.Helper()
	m, err := c.Next(jetstream.FetchMaxWait(deadline))
	if err != nil {
		t.Fatalf("fetch: %v", err)
	}
	return m
}

func TestConsumerNameIsTheOneWorkersCompute(t *testing.T) {
	_, js, c := ensured(t)
	created, err := natsjs.DispatchCreated(within(t), js)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.CachedInfo().Name, protocol.ConsumerName(lane.Queue, lane.Kind, created); got != want {
		t.Errorf("consumer %q, workers look for %q", got, want)
	}
}

func TestBadTokensAreRefused(t *testing.T) {
	_, js, _ := ensured(t)
	for _, bad := range []protocol.Lane{{Queue: "a.b", Kind: "k"}, {Queue: "q", Kind: "*"}, {Queue: "", Kind: "k"}, {Queue: "q", Kind: strings.Repeat("k", 65)}} {
		if _, err := natsjs.EnsureConsumer(within(t), js, topology, bad); err == nil {
			t.Errorf("lane %+v was accepted", bad)
		}
	}
}

// Acks are addressed by stream, consumer and sequence. With equal names in both incarnations the ack of a message
// fetched before the stream was recreated would remove the new message of the same sequence.
func TestAckOfAnEarlierIncarnationHitsNothing(t *testing.T) {
	_, js, before := ensured(t)
	ctx := within(t)
	publish := func() {
		t.Helper()
		if _, err := js.Publish(ctx, protocol.DispatchSubject(lane.Queue, lane.Kind), []byte("[]")); err != nil {
			t.Fatal(err)
		}
	}
	publish()
	old := fetchOne(t, before)

	if err := js.DeleteStream(ctx, protocol.DispatchStream); err != nil {
		t.Fatal(err)
	}
	if _, err := natsjs.Ensure(ctx, js, topology); err != nil {
		t.Fatal(err)
	}
	after := laneConsumer(t, js)
	if before.CachedInfo().Name == after.CachedInfo().Name {
		t.Fatalf("both incarnations use the consumer %s", after.CachedInfo().Name)
	}
	publish()
	fetchOne(t, after)
	if err := old.Ack(); err != nil {
		t.Fatal(err)
	}
	if err := js.Conn().FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	if n := stored(t, js); n != 1 {
		t.Errorf("%d messages stored after an ack of the earlier incarnation, want 1", n)
	}
}

// A replica that read the stream's age before it was recreated may leave a consumer with the old age on the new
// stream; a work queue would then refuse the right one for ever.
func TestStaleConsumerMakesWay(t *testing.T) {
	_, js, right := ensured(t)
	ctx := within(t)
	name := right.CachedInfo().Name
	if err := js.DeleteConsumer(ctx, protocol.DispatchStream, name); err != nil {
		t.Fatal(err)
	}
	stale := right.CachedInfo().Config
	stale.Durable = protocol.ConsumerName(lane.Queue, lane.Kind, time.UnixMilli(1))
	stale.Name = stale.Durable
	if _, err := js.CreateConsumer(ctx, protocol.DispatchStream, stale); err != nil {
		t.Fatal(err)
	}
	if got := laneConsumer(t, js).CachedInfo().Name; got != name {
		t.Errorf("consumer %s, want %s", got, name)
	}
}

// The TTL ends a dispatch with its lease, delivered or not, however often it would still be redelivered.
func TestTTLRemovesADispatch(t *testing.T) {
	_, js, c := ensured(t)
	msg := nats.NewMsg(protocol.DispatchSubject(lane.Queue, lane.Kind))
	msg.Header.Set(protocol.HeaderTTL, "1s")
	if _, err := js.PublishMsg(within(t), msg); err != nil {
		t.Fatal(err)
	}
	fetchOne(t, c)
	eventually(t, "message is gone", func() bool { return stored(t, js) == 0 })
	eventually(t, "nothing is pending on the consumer", func() bool {
		info, err := c.Info(within(t))
		return err == nil && info.NumAckPending == 0 && info.NumPending == 0
	})
}

func TestGivenUpMessagesLeaveAnAdvisory(t *testing.T) {
	_, js, c := ensured(t)
	if _, err := js.Publish(within(t), protocol.DispatchSubject(lane.Queue, lane.Kind), []byte("{")); err != nil {
		t.Fatal(err)
	}
	if err := fetchOne(t, c).TermWithReason("cannot be parsed"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the advisory is in the dead stream", func() bool {
		s, err := js.Stream(within(t), protocol.DeadStream)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.GetMsg(within(t), 1)
		return err == nil && strings.Contains(string(m.Data), "cannot be parsed")
	})
}
