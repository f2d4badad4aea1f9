package outbox

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker/protocol"
)

// onNATS gives natsjs's error the shape that relays know.
type onNATS struct{ *natsjs.Publisher }

type partialOnNATS struct{ *natsjs.PartialError }

func (e partialOnNATS) Failures() map[int]error { return e.Failed }
func (e partialOnNATS) Permanent(i int) bool    { return natsjs.Permanent(e.Failed[i]) }

func (p onNATS) Publish(topic string, messages ...*message.Message) error {
	err := p.Publisher.Publish(topic, messages...)
	if partial, ok := errors.AsType[*natsjs.PartialError](err); ok {
		return partialOnNATS{partial}
	}
	return err
}

func TestMetadataIsWhatThePublisherReads(t *testing.T) {
	if MetaSubject != natsjs.MetaSubject || MetaGeneration != natsjs.MetaGeneration {
		t.Error("relay and publisher name metadata differently")
	}
}

// stream is a real server with the dispatch stream on it.
type stream struct {
	*natstest.Server
	js       jetstream.JetStream
	topology natsjs.Topology
	pub      onNATS
}

func newStream(t *testing.T, edit func(*natsjs.Topology)) *stream {
	t.Helper()
	s := &stream{Server: natstest.New(t), topology: natsjs.EmbeddedTopology()}
	edit(&s.topology)
	s.js = s.JetStream(t)
	s.ensure(t)
	p, err := natsjs.NewPublisher(s.Conn(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.pub = onNATS{p}
	return s
}

// ensure makes what is missing and gives the dispatch stream's age.
func (s *stream) ensure(t *testing.T) time.Time {
	t.Helper()
	info, err := natsjs.Ensure(t.Context(), s.js, s.topology)
	if err != nil {
		t.Fatal(err)
	}
	return info.DispatchCreated
}

// ids are the message ids in the stream, sorted.
func (s *stream) ids(t *testing.T) (ids []string) {
	t.Helper()
	str, err := s.js.Stream(t.Context(), protocol.DispatchStream)
	if err != nil {
		t.Fatal(err)
	}
	state := str.CachedInfo().State
	for seq := state.FirstSeq; seq > 0 && seq <= state.LastSeq; seq++ {
		m, err := str.GetMsg(t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.Header.Get(protocol.HeaderMsgID))
		ttl, err := strconv.Atoi(m.Header.Get(protocol.HeaderTTL))
		if hints, bad := protocol.DecodeHints(m.Data); bad != nil || hints[0].LeaseUntil.IsZero() || err != nil || ttl < 1 || ttl > 60 {
			t.Errorf("message %s: %v %s", m.Subject, m.Header, m.Data)
		}
	}
	slices.Sort(ids)
	return ids
}

func (s *stream) count(t *testing.T) int { t.Helper(); return len(s.ids(t)) }

func TestNATSOutage(t *testing.T) {
	w, s := newWorld(t), newStream(t, func(*natsjs.Topology) {})
	r := w.relay(t, "engine-1", s.pub)
	start(t, r)
	var want []string
	want = append(want, claimIDs(w.claim(t, r.Writer(), 20))...)
	eventually(t, "the first claims are in the stream", func() bool { return s.count(t) == 20 })
	s.Stop()
	for range 3 {
		want = append(want, claimIDs(w.claim(t, r.Writer(), 20))...)
	}
	eventually(t, "the relay holds back", func() bool { return r.Stats().Holding })
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	natstest.AwaitConnected(t, s.js.Conn())
	eventually(t, "all claims are in the stream", func() bool { return s.count(t) == 80 })
	slices.Sort(want)
	if got := s.ids(t); !slices.Equal(got, want) {
		t.Errorf("the stream has %v, want each claim once", got)
	}
	eventually(t, "the outbox is empty", func() bool { return w.rows(t) == 0 })
}

func TestNATSStreamFull(t *testing.T) {
	w, s := newWorld(t), newStream(t, func(top *natsjs.Topology) { top.Dispatch.MaxMsgs = 10 })
	r := w.relay(t, "engine-1", s.pub)
	runs := claimIDs(w.claim(t, r.Writer(), 15))
	start(t, r)
	eventually(t, "the stream is full and the rest is kept", func() bool {
		return s.count(t) == 10 && w.count(t, "SELECT coalesce(sum(messages), 0) FROM outbox WHERE attempts > 0") == 5
	})
	first := s.ids(t)
	str, err := s.js.Stream(t.Context(), protocol.DispatchStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := str.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rest is published when there is room", func() bool { return s.count(t) == 5 })
	got := slices.Concat(first, s.ids(t))
	slices.Sort(got)
	if !slices.Equal(got, runs) {
		t.Errorf("published %v, want each claim once", got)
	}
}

// What is published twice is stored once.
func TestNATSKnowsRepeats(t *testing.T) {
	w, s := newWorld(t), newStream(t, func(*natsjs.Topology) {})
	first := w.relay(t, "engine-1", s.pub)
	runs := w.claim(t, first.Writer(), 10)
	drain(t, first)
	w.abandon(t)
	second := w.relay(t, "engine-2", s.pub)
	drain(t, second)
	if got := second.Stats(); got.Published != 10 || !slices.Equal(s.ids(t), claimIDs(runs)) {
		t.Errorf("published %d again; the stream has %v, want each claim once", got.Published, s.ids(t))
	}
}

func TestNATSRefusesSubject(t *testing.T) {
	w, s := newWorld(t), newStream(t, func(*natsjs.Topology) {})
	r := w.relay(t, "engine-1", s.pub)
	w.enqueueTo(t, r.Writer(), "no.token>")
	w.claim(t, r.Writer(), 2)
	drain(t, r)
	if n := w.count(t, "SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL AND last_error LIKE '%no.token>%'"); n != 1 || s.count(t) != 2 {
		t.Errorf("%d packs parked for their subject, %d messages in the stream", n, s.count(t))
	}
}

func TestNATSStreamLost(t *testing.T) {
	w, s := newWorld(t), newStream(t, func(*natsjs.Topology) {})
	r := w.relay(t, "engine-1", s.pub)
	created := s.ensure(t)
	if n, err := w.Rearm(t.Context(), protocol.DispatchStream, created, r.Writer()); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	runs := w.claim(t, r.Writer(), 8)
	drain(t, r)
	if !slices.Equal(s.ids(t), claimIDs(runs)) {
		t.Fatalf("the stream has %v", s.ids(t))
	}
	if err := s.js.DeleteStream(t.Context(), protocol.DispatchStream); err != nil {
		t.Fatal(err)
	}
	created = s.ensure(t)
	for want := 8; want >= 0; want -= 8 { // the second time the stream is known
		n, err := w.Rearm(t.Context(), protocol.DispatchStream, created, r.Writer())
		if n != want || err != nil {
			t.Fatalf("re-armed %d claims, error %v; want %d", n, err, want)
		}
		drain(t, r)
	}
	again := claimIDs(runs)
	for i := range again {
		again[i] += ":1"
	}
	if !slices.Equal(s.ids(t), again) {
		t.Errorf("the new stream has %v, want %v", s.ids(t), again)
	}
}

// A re-armed message that the stream takes for a known one is not there again. Only where the relay itself may have
// put it there before is that a success.
func TestNATSKnownIDOfAGeneration(t *testing.T) {
	w, s := newWorld(t), newStream(t, func(*natsjs.Topology) {})
	back := &releaser{Store: w.Store}
	r := w.relay(t, "engine-1", s.pub, func(c *Config) { c.Releaser = back })
	run, claim := uuid.New(), uuid.New()
	out := rewrite{r.Writer(), func(m *eventstore.Message) { m.Generation, m.Hints[0].RunID, m.Hints[0].ClaimID = 3, run, claim }}
	w.enqueue(t, out, time.Minute)
	w.keepFresh(t, r)
	drain(t, r)
	w.abandon(t) // as if the relay had died
	drain(t, w.relay(t, "engine-2", s.pub))
	if n := w.count(t, "SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL"); n != 0 || s.count(t) != 1 {
		t.Fatalf("%d packs parked after a repeat, %d messages in the stream", n, s.count(t))
	}
	w.enqueue(t, out, time.Minute) // another re-arm of the same generation: a counter that went back
	w.keepFresh(t, r)
	drain(t, r)
	if len(back.calls) != 1 || !strings.HasSuffix(back.calls[0], claim.String()) || s.count(t) != 1 {
		t.Errorf("released %v, want the run whose message was not stored", back.calls)
	}
}
