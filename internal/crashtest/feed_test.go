//go:build linux

package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/crashtest/judge"
	"github.com/daybookhq/daybook/internal/proctest"
	"github.com/daybookhq/daybook/worker/protocol"
)

// readFeed subscribes to the events from the first on, until it has had as many
// different ones as there are. What is still missing after a while the judge
// will tell.
func readFeed(t *testing.T, url string, events int) []judge.Published {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.OrderedConsumer(t.Context(), protocol.EventsStream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		t.Fatal(err)
	}
	all := []judge.Published{}
	seen := map[string]bool{}
	for moved := time.Now(); len(seen) < events && time.Since(moved) < proctest.Patience; {
		batch, err := c.Fetch(1000, jetstream.FetchMaxWait(2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			p, err := published(m.Data())
			if err != nil {
				t.Fatalf("%s: %v: %s", m.Subject(), err, m.Data())
			}
			all, moved = append(all, p), time.Now()
			seen[fmt.Sprint(p.Stream, p.Version)] = true
		}
		if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
			t.Fatal(err)
		}
	}
	return all
}

// undelivered counts the messages that lie in the dispatch stream, and those of
// them that some worker has.
func undelivered(url string) (messages, pending int, err error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return 0, 0, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, protocol.DispatchStream)
	if err != nil {
		return 0, 0, err
	}
	consumers := s.ListConsumers(ctx)
	for c := range consumers.Info() {
		pending += c.NumAckPending
	}
	return int(s.CachedInfo().State.Msgs), pending, consumers.Err()
}

// published reads what a consumer is told to rely on: id and type.
func published(body []byte) (judge.Published, error) {
	var e struct{ ID, Type, Subject, Sequence string }
	if err := json.Unmarshal(body, &e); err != nil {
		return judge.Published{}, err
	}
	stream, version, _ := strings.Cut(e.ID, ":")
	id, err1 := uuid.Parse(stream)
	n, err2 := strconv.Atoi(version)
	if err := errors.Join(err1, err2); err != nil || e.Subject != stream || e.Sequence != version {
		return judge.Published{}, fmt.Errorf("id %q, subject %q, sequence %q: %w", e.ID, e.Subject, e.Sequence, err)
	}
	part := strings.Split(e.Type, ".") // daybook.run.retry-scheduled.v1
	if len(part) != 4 {
		return judge.Published{}, fmt.Errorf("type %q", e.Type)
	}
	typ := ""
	for word := range strings.SplitSeq(part[1]+"-"+part[2], "-") {
		typ += strings.ToUpper(word[:1]) + word[1:]
	}
	return judge.Published{Stream: id, Version: n, Type: typ}, nil
}
