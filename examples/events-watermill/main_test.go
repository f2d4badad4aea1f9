package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker/protocol"
)

const patience = time.Minute

func failed(run int) string {
	return fmt.Sprintf(`{"specversion": "1.0", "id": "run-%d:4", "source": "/daybook/default/1", "type": "daybook.run.failed.v1", "subject": "run-%d", "sequence": "4",
		"data": {"attempt": 1, "error": {"type": "exit_status", "message": "exit status 3"}}}`, run, run)
}

// desk is where alerts arrive. It fails as often as it is told to.
type desk struct {
	got   chan alert
	fail  int // times more that it fails
	panik bool
}

func (d *desk) send(_ context.Context, a alert) error {
	switch {
	case d.panik:
		d.panik = false
		panic("out of paper")
	case d.fail > 0:
		d.fail--
		return errors.New("nobody there")
	}
	d.got <- a
	return nil
}

func (d *desk) expect(t *testing.T, id string) {
	t.Helper()
	select {
	case a := <-d.got:
		if !strings.HasSuffix(a.Key, " "+id) || !strings.Contains(a.Text, "exit status 3") {
			t.Errorf("got %+v, want that of %s", a, id)
		}
	case <-time.After(patience):
		t.Fatalf("no alert for %s", id)
	}
}

func TestRouterRetriesAndSetsPoisonAside(t *testing.T) {
	server := natstest.New(t)
	js := server.JetStream(t)
	if _, err := natsjs.Ensure(t.Context(), js, natsjs.EmbeddedTopology()); err != nil {
		t.Fatal(err)
	}
	publish := func(id, body string) {
		t.Helper()
		m := nats.NewMsg(protocol.EventSubject(3, "run-failed"))
		m.Data = []byte(body)
		m.Header.Set(nats.MsgIdHdr, id)
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	d := &desk{got: make(chan alert, 16)}
	var stop context.CancelFunc
	var done chan error
	begin := func() {
		var ctx context.Context
		ctx, stop = context.WithCancel(context.WithoutCancel(t.Context()))
		done = make(chan error, 1)
		go func() { done <- react(ctx, server.URL(), d.send) }()
	}
	end := func() {
		t.Helper()
		stop()
		if err := <-done; err != nil {
			t.Errorf("react: %v", err)
		}
	}

	publish("1", failed(1))
	begin()
	d.expect(t, "run-1:4")

	publish("2", "{not json")
	publish("3", failed(3)) // is not held up
	d.expect(t, "run-3:4")
	poison, err := js.Stream(t.Context(), poisonStream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := poison.GetLastMsgForSubject(t.Context(), poisonSubject)
	if err != nil || string(m.Data) != "{not json" || !strings.Contains(m.Header.Get(middleware.ReasonForPoisonedKey), "not a CloudEvent") {
		t.Errorf("set aside: %+v, %v", m, err)
	}
	end()

	d.fail, d.panik = 7, true // more often than the router tries: the server gives it again
	publish("4", failed(4))
	begin()
	d.expect(t, "run-4:4")
	publish("5", failed(5))
	d.expect(t, "run-5:4")
	end()

	c, err := js.Consumer(t.Context(), protocol.EventsStream, "example-alerts")
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.Info(t.Context())
	if err != nil || info.NumPending != 0 {
		t.Errorf("%d events left, %v", info.NumPending, err)
	}
	if info, err := poison.Info(t.Context(), jetstream.WithSubjectFilter(">")); err != nil || info.State.Msgs != 1 {
		t.Errorf("set aside %d, want the one: %v", info.State.Msgs, err)
	}
	if len(d.got) != 0 {
		t.Errorf("%d alerts too many", len(d.got))
	}
}
