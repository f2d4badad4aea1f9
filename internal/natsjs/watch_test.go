package natsjs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker/protocol"
)

func TestWatchNoticesALostStream(t *testing.T) {
	s := natstest.New(t)
	js := s.JetStream(t)
	info, err := natsjs.Ensure(within(t), js, topology)
	if err != nil {
		t.Fatal(err)
	}
	lose := map[string]func(){
		"deleted": func() {
			if err := js.DeleteStream(within(t), protocol.DispatchStream); err != nil {
				t.Fatal(err)
			}
		},
		"deleted and created by somebody else": func() {
			if err := js.DeleteStream(within(t), protocol.DispatchStream); err != nil {
				t.Fatal(err)
			}
			if _, err := natsjs.Ensure(within(t), js, topology); err != nil {
				t.Fatal(err)
			}
		},
		"store wiped": func() { s.WipeAndRestart(t); natstest.AwaitConnected(t, js.Conn()) },
	}
	var told []time.Time
	var refuse error
	w := &natsjs.Watch{JS: js, Topology: topology, Known: info.DispatchCreated, Logger: natstest.Quiet(),
		Changed: func(_ context.Context, created time.Time) error {
			told = append(told, created)
			return refuse
		}}
	for name, f := range lose {
		t.Run(name, func(t *testing.T) {
			if changed, err := w.Step(within(t)); changed || err != nil {
				t.Fatalf("before: %v, %v", changed, err)
			}
			f()
			told, refuse = nil, errors.New("database is away")
			if changed, err := w.Step(within(t)); changed || !errors.Is(err, refuse) {
				t.Fatalf("while the change cannot be dealt with: %v, %v", changed, err)
			}
			refuse = nil
			if changed, err := w.Step(within(t)); !changed || err != nil {
				t.Fatalf("after: %v, %v", changed, err)
			}
			if len(told) != 2 || !told[0].Equal(told[1]) || !told[1].Equal(w.Known) {
				t.Errorf("told %v, known %v", told, w.Known)
			}
			if _, err := natsjs.Verify(within(t), js, topology); err != nil {
				t.Error(err)
			}
		})
	}
}

// Whoever could not verify the streams before leaves it to the first look.
func TestFirstLookVerifies(t *testing.T) {
	js := natstest.New(t).JetStream(t)
	if _, err := natsjs.Ensure(within(t), js, topology); err != nil {
		t.Fatal(err)
	}
	other := topology
	other.Dispatch.MaxMsgs--
	w := &natsjs.Watch{JS: js, Topology: other, Logger: natstest.Quiet(), Changed: func(context.Context, time.Time) error {
		t.Error("told of a stream that is not as it should be")
		return nil
	}}
	var differs *natsjs.MismatchError
	if _, err := w.Step(within(t)); !errors.As(err, &differs) {
		t.Errorf("%v, want the difference", err)
	}
}

func TestWatchRestoresTheOtherStreamsToo(t *testing.T) {
	js := natstest.New(t).JetStream(t)
	info, err := natsjs.Ensure(within(t), js, topology)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(within(t), protocol.EventsStream); err != nil {
		t.Fatal(err)
	}
	w := &natsjs.Watch{JS: js, Topology: topology, Known: info.DispatchCreated, Changed: func(context.Context, time.Time) error {
		t.Error("told of a dispatch stream that is the same")
		return nil
	}}
	if changed, err := w.Step(within(t)); changed || err != nil {
		t.Fatal(changed, err)
	}
	if _, err := natsjs.Verify(within(t), js, topology); err != nil {
		t.Error(err)
	}
}

func TestWatchSurvivesAnOutage(t *testing.T) {
	s := natstest.New(t)
	js, err := jetstream.New(s.Conn(t), jetstream.WithDefaultTimeout(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	info, err := natsjs.Ensure(within(t), js, topology)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan time.Time, 1)
	w := &natsjs.Watch{JS: js, Topology: topology, Known: info.DispatchCreated, Every: 5 * time.Millisecond, Logger: natstest.Quiet(),
		Changed: func(_ context.Context, created time.Time) error { told <- created; return nil }}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	s.WipeAndRestart(t)
	select {
	case created := <-told:
		if created.Equal(info.DispatchCreated) {
			t.Error("told of the stream it knew")
		}
	case <-within(t).Done():
		t.Error("the wiped store was not noticed")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}
