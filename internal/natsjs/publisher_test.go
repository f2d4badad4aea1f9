package natsjs_test

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker/protocol"
)

var (
	topic = protocol.DispatchSubject(lane.Queue, lane.Kind)

	_ message.Publisher  = (*natsjs.Publisher)(nil)
	_ message.Subscriber = (*natsjs.Subscriber)(nil)
)

func publisher(t *testing.T, nc *nats.Conn) *natsjs.Publisher {
	t.Helper()
	p, err := natsjs.NewPublisher(nc, 4*deadline) // no test is about how fast the machine is
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// dispatch is a message as the relay publishes it.
func dispatch(id string) *message.Message {
	m := message.NewMessage(id, []byte(`[{"n":"`+id+`"}]`))
	m.Metadata = message.Metadata{
		protocol.HeaderMsgID: id, protocol.HeaderTTL: "60s", protocol.HeaderExpectedStream: protocol.DispatchStream,
	}
	return m
}

func batch(n int) []*message.Message {
	ms := make([]*message.Message, n)
	for i := range ms {
		ms[i] = dispatch("m" + strconv.Itoa(i))
	}
	return ms
}

// failures returns what a *PartialError says, nil for nil.
func failures(t *testing.T, err error) map[int]error {
	t.Helper()
	if err == nil {
		return nil
	}
	var partial *natsjs.PartialError
	if !errors.As(err, &partial) {
		t.Fatalf("error is %v; want a PartialError", err)
	}
	return partial.Failed
}

func TestBatchIsStoredWithItsHeaders(t *testing.T) {
	_, js, c := ensured(t)
	ms := batch(1000)
	other := protocol.DispatchSubject("other", "kind")
	ms[500].Metadata[natsjs.MetaSubject] = other
	ms[500].Metadata[natsjs.MetaGeneration] = "0"
	if err := publisher(t, js.Conn()).Publish(topic, ms...); err != nil {
		t.Fatal(err)
	}
	if n := stored(t, js); n != 1000 {
		t.Errorf("%d messages stored, want 1000", n)
	}
	got := fetchOne(t, c)
	if got.Subject() != topic || string(got.Data()) != `[{"n":"m0"}]` {
		t.Errorf("first message: %s %s", got.Subject(), got.Data())
	}
	s, err := js.Stream(within(t), protocol.DispatchStream)
	if err != nil {
		t.Fatal(err)
	}
	moved, err := s.GetLastMsgForSubject(within(t), other)
	if err != nil {
		t.Fatalf("the message with a subject of its own: %v", err)
	}
	for _, added := range []string{"Nats-Sequence", "Nats-Stream", "Nats-Subject", "Nats-Time-Stamp"} {
		delete(moved.Header, added) // by the server when it hands out a stored message
	}
	want := nats.Header{protocol.HeaderMsgID: {"m500"}, protocol.HeaderTTL: {"60s"}, protocol.HeaderExpectedStream: {protocol.DispatchStream}}
	if !maps.EqualFunc(moved.Header, want, slices.Equal) {
		t.Errorf("headers %v, want %v", moved.Header, want)
	}
}

func TestOneBadMessageFailsAlone(t *testing.T) {
	_, js, _ := ensured(t)
	nc := js.Conn()
	stream := int(topology.Dispatch.MaxMsgSize)
	for name, spoil := range map[string]func(*message.Message){
		"larger than the stream allows":   func(m *message.Message) { m.Payload = make([]byte, stream+1) },
		"larger than the server allows":   func(m *message.Message) { m.Payload = make([]byte, nc.MaxPayload()+1) },
		"headers larger than 64 KiB":      func(m *message.Message) { m.Metadata["large"] = strings.Repeat("x", 64<<10) },
		"bound for another stream":        func(m *message.Message) { m.Metadata[protocol.HeaderExpectedStream] = protocol.EventsStream },
		"TTL below a second":              func(m *message.Message) { m.Metadata[protocol.HeaderTTL] = "200ms" },
		"wildcard subject":                func(m *message.Message) { m.Metadata[natsjs.MetaSubject] = "daybook.v1.dispatch.*.k" },
		"subject with a space":            func(m *message.Message) { m.Metadata[natsjs.MetaSubject] = "daybook.v1.dispatch.a b" },
		"header that injects another":     func(m *message.Message) { m.Metadata["traceparent"] = "x\r\nNats-Msg-Id: y" },
		"header name that cannot be sent": func(m *message.Message) { m.Metadata["two words"] = "x" },
		"generation that is no number":    func(m *message.Message) { m.Metadata[natsjs.MetaGeneration] = "one" },
		"known id in a positive generation": func(m *message.Message) {
			m.Metadata[natsjs.MetaGeneration] = "1"
			m.Metadata[protocol.HeaderMsgID] = "m0"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := js.Stream(within(t), protocol.DispatchStream)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Purge(within(t)); err != nil {
				t.Fatal(err)
			}
			ms := batch(300)
			prefix := strings.ReplaceAll(t.Name(), " ", "_")
			for _, m := range ms {
				m.Metadata[protocol.HeaderMsgID] = prefix + m.UUID
			}
			ms[0].Metadata[protocol.HeaderMsgID] = "m0"
			if name != "known id in a positive generation" {
				ms[0].Metadata[protocol.HeaderMsgID] = prefix + "m0"
			}
			spoil(ms[137])
			failed := failures(t, publisher(t, nc).Publish(topic, ms...))
			if err := failed[137]; len(failed) != 1 || err == nil || !natsjs.Permanent(err) {
				t.Errorf("failures %v; want a permanent one of message 137 alone", failed)
			}
			if n := stored(t, js); n != 299 {
				t.Errorf("%d messages stored, want the other 299", n)
			}
		})
	}
}

func TestSubjectWithoutStreamIsWorthARetry(t *testing.T) {
	_, js, _ := ensured(t)
	failed := failures(t, publisher(t, js.Conn()).Publish("nobody.listens", message.NewMessage("", nil)))
	if err := failed[0]; !errors.Is(err, jetstream.ErrNoStreamResponse) || natsjs.Permanent(err) {
		t.Errorf("error %v, permanent %v", err, natsjs.Permanent(err))
	}
}

func TestFullStreamKeepsWhatFitsAndIsWorthARetry(t *testing.T) {
	small := topology
	small.Dispatch.MaxMsgs = 10
	js := natstest.New(t).JetStream(t)
	if _, err := natsjs.Ensure(within(t), js, small); err != nil {
		t.Fatal(err)
	}
	p := publisher(t, js.Conn())
	err := p.Publish(topic, batch(25)...)
	failed := failures(t, err)
	if len(failed) != 15 || natsjs.Permanent(err) {
		t.Fatalf("%d failures, permanent %v (%v); want 15 worth a retry", len(failed), natsjs.Permanent(err), err)
	}
	if stored(t, js) != 10 {
		t.Errorf("%d messages stored, want 10", stored(t, js))
	}
	// The refusal does not poison the ids: with room they are stored.
	s, err := js.Stream(within(t), protocol.DispatchStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(within(t)); err != nil {
		t.Fatal(err)
	}
	var again []*message.Message
	for i := range failed {
		again = append(again, batch(25)[i])
	}
	if err := p.Publish(topic, again[:10]...); err != nil || stored(t, js) != 10 {
		t.Errorf("retry: %v, %d stored; want 10", err, stored(t, js))
	}
}

func TestDuplicateIsASuccess(t *testing.T) {
	_, js, _ := ensured(t)
	p := publisher(t, js.Conn())
	for range 2 {
		if err := p.Publish(topic, batch(5)...); err != nil {
			t.Fatal(err)
		}
	}
	if n := stored(t, js); n != 5 {
		t.Errorf("%d messages stored, want 5", n)
	}
	again := dispatch("m3")
	again.Metadata[natsjs.MetaGeneration] = "2"
	failed := failures(t, p.Publish(topic, again))
	if err := failed[0]; !errors.Is(err, natsjs.ErrDuplicate) || !natsjs.Permanent(err) {
		t.Errorf("duplicate of generation 2: %v", err)
	}
}

func TestManyCallersShareThePublisher(t *testing.T) {
	s, js, _ := ensured(t)
	p := publisher(t, s.InProcess(t))
	var wg sync.WaitGroup
	for w := range 40 {
		wg.Go(func() {
			ms := batch(300)
			for _, m := range ms {
				m.Metadata[protocol.HeaderMsgID] = strconv.Itoa(w) + m.UUID
			}
			if err := p.Publish(topic, ms...); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := stored(t, js); n != 40*300 {
		t.Errorf("%d messages stored, want %d", n, 40*300)
	}
}

func BenchmarkPublish(b *testing.B) {
	s := natstest.New(b)
	js, err := jetstream.New(s.InProcess(b))
	if err != nil {
		b.Fatal(err)
	}
	unbounded := topology
	unbounded.Dispatch.MaxMsgs = -1
	if _, err := natsjs.Ensure(within(b), js, unbounded); err != nil {
		b.Fatal(err)
	}
	p, err := natsjs.NewPublisher(js.Conn(), 0)
	if err != nil {
		b.Fatal(err)
	}
	const size = 256
	ms := batch(size)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		for _, m := range ms {
			n++
			m.Metadata[protocol.HeaderMsgID] = strconv.Itoa(n)
		}
		if err := p.Publish(topic, ms...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "msg/s")
}
