// Command events-nats follows Daybook's event stream with a durable consumer of
// its own and prints every run that failed.
//
// Delivery is at least once, so it shows the one thing every consumer must do:
// recognise an event it has seen. An event is identified by source and id; the
// sequence orders the events of a run. Here the last sequence of each run is kept
// in memory; a real consumer stores it in the transaction of its effect.
//
//	NATS_URL=nats://127.0.0.1:4222 go run ./examples/events-nats
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/worker/protocol"
)

// event is what this program needs of a CloudEvent.
type event struct {
	ID       string          `json:"id"`
	Source   string          `json:"source"`
	Type     string          `json:"type"`
	Subject  string          `json:"subject"`
	Sequence string          `json:"sequence"`
	Time     time.Time       `json:"time"`
	Data     json.RawMessage `json:"data"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := follow(ctx, os.Getenv("NATS_URL")); err != nil {
		log.Fatal(err)
	}
}

func follow(ctx context.Context, url string) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to %q: %w", url, err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	c, err := js.CreateOrUpdateConsumer(ctx, protocol.EventsStream, jetstream.ConsumerConfig{
		Durable:       "example-failures",
		FilterSubject: "daybook.v1.event.*.run-failed", // all partitions, one type
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       30 * time.Second,
		MaxDeliver:    -1,
	})
	if err != nil {
		return fmt.Errorf("make the consumer: %w", err)
	}
	seen := map[string]int{} // source and run → last sequence
	handling, err := c.Consume(func(m jetstream.Msg) {
		if err := handle(m.Data(), seen); err != nil {
			log.Print(err)
			_ = m.TermWithReason(err.Error()) // it would fail again
			return
		}
		_ = m.Ack() // if this is lost the event comes again, and is recognised
	}, jetstream.PullMaxMessages(64))
	if err != nil {
		return err
	}
	<-ctx.Done()
	handling.Drain()
	<-handling.Closed()
	return nil
}

func handle(body []byte, seen map[string]int) error {
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return fmt.Errorf("not a CloudEvent: %w", err)
	}
	sequence, err := strconv.Atoi(e.Sequence)
	if err != nil || e.Subject == "" {
		return errors.New("not an event of Daybook: " + e.ID)
	}
	key := e.Source + " " + e.Subject
	if sequence <= seen[key] {
		return nil // seen before
	}
	var data struct {
		Attempt int `json:"attempt"`
		Error   struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return fmt.Errorf("event %s: %w", e.ID, err)
	}
	fmt.Printf("%s run %s failed at attempt %d: %s: %s\n", e.Time.Format(time.RFC3339), e.Subject, data.Attempt, data.Error.Type, data.Error.Message)
	seen[key] = sequence
	return nil
}
