package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker"
	"github.com/daybookhq/daybook/worker/protocol"
)

func newClient(t *testing.T, cfg worker.ClientConfig) *worker.Client {
	t.Helper()
	cfg.Logger = natstest.Quiet()
	c, err := worker.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestEnqueue(t *testing.T) {
	e := newEngine(t).serveNATS().serveHTTP()
	e.token = "secret"
	for name, cfg := range map[string]worker.ClientConfig{
		"NATS": {NATSURL: e.nats.URL()},
		"HTTP": {URL: e.http.URL + "/", Token: "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, cfg)
			first, err := worker.Enqueue(t.Context(), c, "welcome", greeting{"ada", "hi"}, worker.Key(name), worker.At(time.Now().Add(time.Hour)))
			if err != nil || !first.Created || first.RunID == "" {
				t.Fatalf("%+v %v", first, err)
			}
			again, err := worker.Enqueue(t.Context(), c, "welcome", greeting{"ada", "hi"}, worker.Key(name))
			if err != nil || again.Created || again.RunID != first.RunID {
				t.Errorf("the same key gave %+v %v, want the run %s", again, err, first.RunID)
			}
			other, err := worker.Enqueue(t.Context(), c, "welcome", nil)
			if err != nil || !other.Created || other.RunID == first.RunID {
				t.Errorf("without a key: %+v %v", other, err)
			}
			if _, err := worker.Enqueue(t.Context(), c, "missing", nil); !errors.Is(err, worker.ErrNoSuchJob) {
				t.Errorf("a job that is not there: %v", err)
			}
			if _, err := worker.Enqueue(t.Context(), c, "welcome", func() {}); err == nil {
				t.Error("args that are not JSON were taken")
			}
		})
	}
	if n := e.count(`enqueue {"To":"ada","Text":"hi"}`); n != 4 {
		t.Errorf("%q", e.noted())
	}
}

func TestEnqueueRepeatedAfterALostReplyMakesOneRun(t *testing.T) {
	e := newEngine(t).serveNATS()
	var calls atomic.Int64
	e.setAnswered(func(_, op string, _, reply []byte) []byte {
		if op != protocol.OpEnqueue {
			return reply
		}
		if calls.Add(1) == 1 {
			return errorReply(protocol.CodeUnavailable)
		}
		return reply
	})
	c := newClient(t, worker.ClientConfig{NATSURL: e.nats.URL()})
	r, err := worker.Enqueue(t.Context(), c, "welcome", nil)
	if err != nil || r.Created {
		t.Errorf("%+v %v: want the run of the lost reply", r, err)
	}
	if len(e.keys) != 1 {
		t.Errorf("%d runs", len(e.keys))
	}
}

func TestEnqueueEnds(t *testing.T) {
	e := newEngine(t).serveHTTP()
	e.token = "secret"
	c := newClient(t, worker.ClientConfig{URL: e.http.URL, Token: "guess"})
	if _, err := worker.Enqueue(t.Context(), c, "welcome", nil); !errors.Is(err, worker.ErrUnauthorized) {
		t.Errorf("wrong token: %v", err)
	}
	down := newClient(t, worker.ClientConfig{NATSURL: "nats://127.0.0.1:1", URL: "http://127.0.0.1:1"})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := worker.Enqueue(ctx, down, "welcome", nil); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not connected to NATS") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestClientConfigIsChecked(t *testing.T) {
	for _, cfg := range []worker.ClientConfig{{}, {URL: "localhost:7788"}, {NATSURL: "nats://["}} {
		if _, err := worker.NewClient(cfg); err == nil {
			t.Errorf("%+v accepted", cfg)
		}
	}
}
