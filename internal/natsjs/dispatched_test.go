package natsjs_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker/protocol"
)

// What lies in the stream is found, delivered or not, behind gaps, and stays.
func TestDispatchedClaims(t *testing.T) {
	_, js, c := ensured(t)
	ids := make([]uuid.UUID, 6)
	for i := range ids {
		ids[i] = uuid.New()
	}
	send := func(body []byte) {
		t.Helper()
		if _, err := js.Publish(within(t), protocol.DispatchSubject(lane.Queue, lane.Kind), body); err != nil {
			t.Fatal(err)
		}
	}
	send(protocol.AppendHints(nil, []protocol.Hint{{RunID: uuid.New(), ClaimID: ids[0]}}))
	send(protocol.AppendHints(nil, []protocol.Hint{{RunID: uuid.New(), ClaimID: ids[1]}}))
	send([]byte("not a list"))
	send(protocol.AppendHints(nil, []protocol.Hint{{RunID: uuid.New(), ClaimID: ids[2]}, {RunID: uuid.New(), ClaimID: ids[3]}}))
	fetchOne(t, c) // is being worked on
	done := fetchOne(t, c)
	if err := done.DoubleAck(within(t)); err != nil {
		t.Fatal(err)
	}
	want, err := natsjs.DispatchCreated(within(t), js)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		claims, made, err := natsjs.Dispatched(within(t), js)
		if err != nil || !made.Equal(want) {
			t.Fatal(made, err)
		}
		if len(claims) != 3 || !claims[ids[0]] || !claims[ids[2]] || !claims[ids[3]] {
			t.Errorf("found %v, want those of messages 1 and 4 of %v", claims, ids)
		}
	}
	if n := stored(t, js); n != 3 {
		t.Errorf("%d messages are left of 3", n)
	}
	if err := js.DeleteStream(within(t), protocol.DispatchStream); err != nil {
		t.Fatal(err)
	}
	if _, _, err := natsjs.Dispatched(within(t), js); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("without a stream: %v", err)
	}
}

// busy has a message published for each that is asked for.
type busy struct {
	jetstream.JetStream
	publish func()
}

func (b busy) Conn() *nats.Conn {
	b.publish()
	return b.JetStream.Conn()
}

func TestDispatchedClaimsOfAStreamThatGrowsAsFastAsItIsRead(t *testing.T) {
	_, js, _ := ensured(t)
	first := uuid.New()
	claim := first
	publish := func() {
		body := protocol.AppendHints(nil, []protocol.Hint{{RunID: uuid.New(), ClaimID: claim}})
		if _, err := js.Publish(t.Context(), protocol.DispatchSubject(lane.Queue, lane.Kind), body); err != nil {
			t.Error(err)
		}
		claim = uuid.New()
	}
	publish()
	if claims, _, err := natsjs.Dispatched(within(t), busy{js, publish}); err != nil || !claims[first] {
		t.Errorf("%d claims, %v, want at least the one that was there", len(claims), err)
	}
}

func TestDispatchedClaimsOfAnEmptyStream(t *testing.T) {
	js := natstest.New(t).JetStream(t)
	if _, err := natsjs.Ensure(within(t), js, topology); err != nil {
		t.Fatal(err)
	}
	if claims, _, err := natsjs.Dispatched(within(t), js); err != nil || len(claims) != 0 {
		t.Errorf("%v, %v", claims, err)
	}
}
