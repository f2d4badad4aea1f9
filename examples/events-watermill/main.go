// Command events-watermill reacts to Daybook's events with a watermill Router:
// a failure that may pass is tried again, an event that can never be handled is
// set aside for people and holds nothing up.
//
// Delivery is at least once, and a handler that fails half way is called again:
// the alert's key, made from source and id, lets whoever gets it recognise one
// that it has.
//
//	NATS_URL=nats://127.0.0.1:4222 go run ./examples/events-watermill
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/worker/protocol"
)

const (
	failures      = "daybook.v1.event.*.run-failed" // all partitions, one type
	poisonStream  = "EXAMPLE_POISON"
	poisonSubject = "example.poison"
)

// alert is what this program makes of a failed run.
type alert struct {
	Key  string
	Text string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := react(ctx, os.Getenv("NATS_URL"), func(_ context.Context, a alert) error {
		_, err := fmt.Println(a.Key, a.Text)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

// react sends an alert for every run that fails, until ctx ends.
func react(ctx context.Context, url string, send func(context.Context, alert) error) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to %q: %w", url, err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: poisonStream, Subjects: []string{poisonSubject}, MaxAge: 14 * 24 * time.Hour}); err != nil {
		return fmt.Errorf("make the stream for poison: %w", err)
	}
	logger := watermill.NewSlogLogger(slog.Default())
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, logger)
	if err != nil {
		return err
	}
	// What can never be handled is set aside. Any other failure goes back to the
	// server after the tries here, and comes again: nothing is lost while whoever
	// gets the alerts is away.
	poison, err := middleware.PoisonQueueWithFilter(&publisher{js}, poisonSubject, isPoison)
	if err != nil {
		return err
	}
	retry := middleware.Retry{
		MaxRetries: 3, InitialInterval: 100 * time.Millisecond, MaxInterval: time.Second, Multiplier: 2, Logger: logger,
		ShouldRetry: func(p middleware.RetryParams) bool { return !isPoison(p.Err) },
	}
	// From the outside in: what panics is an error, which is tried again, which
	// is set aside if it is poison.
	router.AddMiddleware(poison, retry.Middleware, middleware.Recoverer)
	events := &subscriber{js: js, stream: protocol.EventsStream, durable: "example-alerts", ackWait: 30 * time.Second}
	router.AddConsumerHandler("alerts", failures, events, func(m *message.Message) error {
		a, err := alertOf(m.Payload)
		if err != nil {
			return &poisonError{err}
		}
		return send(m.Context(), a)
	})
	return router.Run(ctx)
}

// poisonError says that an event can never be handled.
type poisonError struct{ err error }

func (e *poisonError) Error() string { return e.err.Error() }
func (e *poisonError) Unwrap() error { return e.err }

func isPoison(err error) bool {
	_, ok := errors.AsType[*poisonError](err)
	return ok
}

func alertOf(body []byte) (alert, error) {
	var e struct {
		ID      string `json:"id"`
		Source  string `json:"source"`
		Subject string `json:"subject"`
		Data    struct {
			Attempt int `json:"attempt"`
			Error   struct {
				Type    string `json:"type"`
				Message string `json:"message"`
			} `json:"error"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return alert{}, fmt.Errorf("not a CloudEvent: %w", err)
	}
	if e.ID == "" || e.Source == "" || e.Subject == "" {
		return alert{}, errors.New("a CloudEvent has a source and an id, and Daybook's have a subject")
	}
	return alert{
		Key:  e.Source + " " + e.ID,
		Text: fmt.Sprintf("run %s failed at attempt %d: %s: %s", e.Subject, e.Data.Attempt, e.Data.Error.Type, e.Data.Error.Message),
	}, nil
}
