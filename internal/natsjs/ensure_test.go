package natsjs_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker/protocol"
)

var topology = natsjs.EmbeddedTopology()

// mismatch returns the differences as "object/field", sorted.
func mismatch(t *testing.T, err error) []string {
	t.Helper()
	var m *natsjs.MismatchError
	if !errors.As(err, &m) {
		t.Fatalf("error is %v; want a MismatchError", err)
	}
	var fields []string
	for _, d := range m.Differences {
		fields = append(fields, d.Object+"/"+d.Field)
	}
	slices.Sort(fields)
	return fields
}

func TestEnsureCreatesThenAgrees(t *testing.T) {
	js := natstest.New(t).JetStream(t)
	if _, err := natsjs.Verify(within(t), js, topology); len(mismatch(t, err)) != 3 {
		t.Errorf("Verify on an empty server: %v; want three absent streams", err)
	}
	first, err := natsjs.Ensure(within(t), js, topology)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Created) != 3 || first.DispatchCreated.IsZero() {
		t.Errorf("first Ensure: %+v", first)
	}
	if _, err := natsjs.EnsureConsumer(within(t), js, topology, protocol.Lane{Queue: "q", Kind: "k"}); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() (natsjs.Info, error){
		"Ensure": func() (natsjs.Info, error) { return natsjs.Ensure(within(t), js, topology) },
		"Verify": func() (natsjs.Info, error) { return natsjs.Verify(within(t), js, topology) },
	} {
		again, err := f()
		if err != nil || len(again.Created) != 0 || !again.DispatchCreated.Equal(first.DispatchCreated) {
			t.Errorf("%s afterwards: %+v, %v", name, again, err)
		}
	}
}

func TestReplicasMayEnsureAtTheSameTime(t *testing.T) {
	s := natstest.New(t)
	var wg sync.WaitGroup
	created := make(chan string, 100)
	for range 8 {
		js := s.JetStream(t)
		wg.Go(func() {
			info, err := natsjs.Ensure(within(t), js, topology)
			if err != nil {
				t.Error(err)
			}
			if _, err := natsjs.EnsureConsumer(within(t), js, topology, protocol.Lane{Queue: "q", Kind: "k"}); err != nil {
				t.Error(err)
			}
			for _, name := range info.Created {
				created <- name
			}
		})
	}
	wg.Wait()
}

func TestEnsureListsEveryDifferenceAndChangesNothing(t *testing.T) {
	js := natstest.New(t).JetStream(t)
	ctx := within(t)
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: protocol.DispatchStream, Subjects: []string{protocol.DispatchSubjects},
		Retention: jetstream.LimitsPolicy, MaxAge: time.Minute, Duplicates: 30 * time.Second, Storage: jetstream.MemoryStorage,
		Metadata: map[string]string{"owner": "somebody"},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = natsjs.Ensure(ctx, js, topology)
	got := mismatch(t, err)
	for _, field := range []string{"retention", "max_age", "duplicate_window", "storage", "discard", "allow_msg_ttl", "max_msgs", "max_bytes", "max_msg_size", "metadata", "timing"} {
		if !slices.Contains(got, "stream DAYBOOK_DISPATCH/"+field) {
			t.Errorf("%s is not reported: %v", field, err)
		}
	}
	if want := "stream DAYBOOK_DISPATCH differs: "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error begins %.60q, want %q", err, want)
	}
	for _, want := range []string{"retention: server limits, want workqueue", "max_age: server 1m0s, want 15m0s", "storage: server memory, want file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	s, err := js.Stream(ctx, protocol.DispatchStream)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.CachedInfo().Config; c.Retention != jetstream.LimitsPolicy || c.MaxAge != time.Minute {
		t.Errorf("Ensure changed the stream: %+v", c)
	}
}

func TestEnsureNoticesASingleChangedSetting(t *testing.T) {
	js := natstest.New(t).JetStream(t)
	ctx := within(t)
	if _, err := natsjs.Ensure(ctx, js, topology); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{protocol.DispatchStream, protocol.EventsStream, protocol.DeadStream} {
		s, err := js.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		config := s.CachedInfo().Config
		changed := config
		changed.RePublish = &jetstream.RePublish{Source: ">", Destination: "copy.>"}
		if _, err := js.UpdateStream(ctx, changed); err != nil {
			t.Fatal(err)
		}
		_, err = natsjs.Ensure(ctx, js, topology)
		if got := mismatch(t, err); !slices.Equal(got, []string{"stream " + name + "/republish"}) {
			t.Errorf("%s: differences %v", name, got)
		}
		if _, err := js.UpdateStream(ctx, config); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOtherStreamOnOurSubjectsIsNamed(t *testing.T) {
	js := natstest.New(t).JetStream(t)
	if _, err := js.CreateStream(within(t), jetstream.StreamConfig{Name: "AUDIT", Subjects: []string{"daybook.v1.event.3.>"}}); err != nil {
		t.Fatal(err)
	}
	_, err := natsjs.Ensure(within(t), js, topology)
	if got := mismatch(t, err); !slices.Equal(got, []string{"stream AUDIT/subjects"}) {
		t.Errorf("differences %v", got)
	}
	if !strings.Contains(err.Error(), protocol.EventSubjects) || !strings.Contains(err.Error(), protocol.EventsStream) {
		t.Errorf("%q does not say which subjects of which stream", err)
	}
}

func TestForeignConsumerOnTheDispatchStreamIsNamed(t *testing.T) {
	js := natstest.New(t).JetStream(t)
	ctx := within(t)
	if _, err := natsjs.Ensure(ctx, js, topology); err != nil {
		t.Fatal(err)
	}
	thief := jetstream.ConsumerConfig{Durable: "thief", FilterSubject: "daybook.v1.dispatch.mail.>", AckPolicy: jetstream.AckExplicitPolicy}
	if _, err := js.CreateConsumer(ctx, protocol.DispatchStream, thief); err != nil {
		t.Fatal(err)
	}
	_, err := natsjs.Ensure(ctx, js, topology)
	if got := mismatch(t, err); !slices.Equal(got, []string{"stream DAYBOOK_DISPATCH/consumer thief"}) {
		t.Errorf("differences %v", got)
	}
	_, err = natsjs.EnsureConsumer(ctx, js, topology, protocol.Lane{Queue: "mail", Kind: "send"})
	if mismatch(t, err); !strings.Contains(err.Error(), "thief") {
		t.Errorf("EnsureConsumer: %q does not name the consumer in the way", err)
	}
}

// The lease relation is tested against the redelivery that stands on the server, not only against our own numbers.
func TestRedeliveryThatOutlastsTheLeaseIsReported(t *testing.T) {
	js := natstest.New(t).JetStream(t)
	ctx := within(t)
	if _, err := natsjs.Ensure(ctx, js, topology); err != nil {
		t.Fatal(err)
	}
	name, err := natsjs.EnsureConsumer(ctx, js, topology, protocol.Lane{Queue: "q", Kind: "k"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.Consumer(ctx, protocol.DispatchStream, name)
	if err != nil {
		t.Fatal(err)
	}
	config := c.CachedInfo().Config
	config.AckWait = 10 * time.Second
	if _, err := js.UpdateConsumer(ctx, protocol.DispatchStream, config); err != nil {
		t.Fatal(err)
	}
	_, err = natsjs.Ensure(ctx, js, topology)
	object := "consumer " + name
	if got := mismatch(t, err); !slices.Equal(got, []string{object + "/ack_wait", object + "/timing"}) {
		t.Errorf("differences %v", got)
	}
	if !strings.Contains(err.Error(), "ack_wait 10s × (max_deliver 5 − 1) = 1m5s") {
		t.Errorf("%q does not name the terms", err)
	}
	if _, err := natsjs.EnsureConsumer(ctx, js, topology, protocol.Lane{Queue: "q", Kind: "k"}); err == nil {
		t.Error("EnsureConsumer takes a consumer with another ack wait")
	}
	if c, _ := js.Consumer(ctx, protocol.DispatchStream, name); c.CachedInfo().Config.AckWait != 10*time.Second {
		t.Error("the ack wait was overwritten")
	}
}

func TestTopologyChecksItself(t *testing.T) {
	for name, breakIt := range map[string]func(*natsjs.Topology){
		"two replicas":                    func(t *natsjs.Topology) { t.Replicas = 2 },
		"no size limit":                   func(t *natsjs.Topology) { t.Events.MaxBytes = -1 },
		"window longer than age":          func(t *natsjs.Topology) { t.Dispatch.Duplicates = time.Hour },
		"messages die before their lease": func(t *natsjs.Topology) { t.Lease.DispatchLease = time.Hour },
		"lease shorter than redelivery":   func(t *natsjs.Topology) { t.Lease.DispatchLease = 40 * time.Second },
		"no pull allowed":                 func(t *natsjs.Topology) { t.MaxWaiting = 0 },
	} {
		broken := natsjs.ProductionTopology()
		breakIt(&broken)
		if err := broken.Check(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, good := range []natsjs.Topology{natsjs.EmbeddedTopology(), natsjs.ProductionTopology()} {
		if err := good.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestTheLargestDispatchFits(t *testing.T) {
	hints := make([]protocol.Hint, protocol.MaxHints)
	body := protocol.AppendHints(nil, hints)
	const headers = 4 << 10
	for _, top := range []natsjs.Topology{natsjs.EmbeddedTopology(), natsjs.ProductionTopology()} {
		if limit := int(top.Dispatch.MaxMsgSize); len(body)+headers > limit {
			t.Errorf("%d hints take %d bytes, a dispatch may have %d with headers", protocol.MaxHints, len(body), limit)
		}
	}
}
