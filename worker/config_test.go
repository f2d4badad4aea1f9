package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker"
)

func nothing(context.Context, worker.Run[struct{}]) error { return nil }

func TestConfigMistakesAreNamed(t *testing.T) {
	ok := worker.Config{URL: "http://127.0.0.1:1", Logger: natstest.Quiet()}
	for want, change := range map[string]func(*worker.Config){
		"Config.NATSURL":      func(c *worker.Config) { c.URL = "" },
		"Config.URL":          func(c *worker.Config) { c.URL = "127.0.0.1:7788" },
		`token "Mail"`:        func(c *worker.Config) { c.Queue = "Mail" },
		"Config.Slots":        func(c *worker.Config) { c.Slots = -1 },
		"Config.DrainTimeout": func(c *worker.Config) { c.DrainTimeout = -time.Second },
		"Config.StopTimeout":  func(c *worker.Config) { c.StopTimeout = -time.Second },
		"worker: NATS":        func(c *worker.Config) { c.NATSURL = "nats://[" },
	} {
		cfg := ok
		change(&cfg)
		w := worker.New(cfg)
		worker.Handle(w, "k", nothing)
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error that names %s, got %v", want, err)
		}
	}
	if err := worker.New(ok).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "worker.Handle") {
		t.Errorf("no handlers: %v", err)
	}
}

func TestRunOnce(t *testing.T) {
	w := worker.New(worker.Config{URL: "http://127.0.0.1:1", Logger: natstest.Quiet()})
	worker.Handle(w, "k", nothing)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Run(ctx); err != nil {
		t.Errorf("first: %v", err)
	}
	if err := w.Run(ctx); err == nil {
		t.Error("Run twice")
	}
}

func TestRegistrationMistakesPanic(t *testing.T) {
	for name, f := range map[string]func(w *worker.Worker){
		"bad kind": func(w *worker.Worker) { worker.Handle(w, "Send.Email", nothing) },
		"twice": func(w *worker.Worker) {
			worker.Handle(w, "k", nothing)
			worker.Handle(w, "k", nothing)
		},
		"after Run": func(w *worker.Worker) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			w.Run(ctx)
			worker.Handle(w, "k", nothing)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f(worker.New(worker.Config{URL: "http://127.0.0.1:1", Logger: natstest.Quiet()}))
		})
	}
}
