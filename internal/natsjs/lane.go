package natsjs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/worker/protocol"
)

// JetStream's "filtered consumer not unique on workqueue stream", which the client has no name for.
const errCodeFilterNotUnique = 10100

// laneRetries bounds how often EnsureConsumer starts again because the stream was recreated under it.
const laneRetries = 3

// EnsureConsumer creates the durable consumer of a lane, or compares the existing one with the topology, and
// returns its name. Differences are a *MismatchError; an existing consumer is never changed.
//
// The name carries the dispatch stream's incarnation, so after the stream was deleted and created again it is
// another one: call EnsureConsumer again for every lane in use.
func EnsureConsumer(ctx context.Context, js jetstream.JetStream, t Topology, lane protocol.Lane) (string, error) {
	if err := checkLane(lane); err != nil {
		return "", err
	}
	for range laneRetries {
		name, again, err := ensureConsumer(ctx, js, t, lane)
		if err != nil {
			return "", fmt.Errorf("consumer of lane %s/%s: %w", lane.Queue, lane.Kind, err)
		}
		if !again {
			return name, nil
		}
	}
	return "", fmt.Errorf("consumer of lane %s/%s: stream %s was recreated %d times in between", lane.Queue, lane.Kind,
		protocol.DispatchStream, laneRetries)
}

func ensureConsumer(ctx context.Context, js jetstream.JetStream, t Topology, lane protocol.Lane) (name string, again bool, err error) {
	s, err := getStream(ctx, js, protocol.DispatchStream)
	if err != nil {
		return "", false, fmt.Errorf("stream %s: %w", protocol.DispatchStream, err)
	}
	incarnation := s.CachedInfo().Created
	want := t.consumer(lane, incarnation)
	c, err := getConsumer(ctx, s, want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		attempt, cancel := context.WithTimeout(ctx, createTimeout)
		c, err = s.CreateConsumer(attempt, want)
		cancel()
		// Another replica was faster, with other settings; or the cluster took it and did not answer.
		if errors.Is(err, jetstream.ErrConsumerExists) || errors.Is(err, context.DeadlineExceeded) {
			c, err = getConsumer(ctx, s, want.Durable)
		}
	}
	var apiErr *jetstream.APIError
	if errors.As(err, &apiErr) && apiErr.ErrorCode == errCodeFilterNotUnique {
		return "", true, dropStale(ctx, s, lane, want.Durable)
	}
	if err != nil {
		return "", false, err
	}

	// Had the stream been recreated since its age was read, this consumer bears the old age and stands on the new
	// stream, where it would block the right one.
	now, err := DispatchCreated(ctx, js)
	if err != nil {
		return "", false, err
	}
	if !now.Equal(incarnation) {
		return "", true, dropStale(ctx, s, lane, protocol.ConsumerName(lane.Queue, lane.Kind, now))
	}
	if diffs := diffConsumer(c.CachedInfo().Config, want); len(diffs) > 0 {
		return "", false, &MismatchError{diffs}
	}
	return want.Durable, false, nil
}

// dropStale deletes the lane's consumers that bear the age of an earlier stream. Nobody pulls from them, and a
// work queue allows one consumer per subject. Whatever else reads the subject is an error.
func dropStale(ctx context.Context, s jetstream.Stream, lane protocol.Lane, name string) error {
	consumers, err := listConsumers(ctx, s)
	if err != nil {
		return fmt.Errorf("list consumers of %s: %w", protocol.DispatchStream, err)
	}
	dropped, foreign := false, "none found"
	for _, c := range consumers {
		of, ok := laneOf(c.Config)
		switch {
		case !ok:
			foreign = fmt.Sprintf("%s, filter %s", c.Name, show(filterValue(c.Config)))
		case of == lane && c.Name != name:
			if err := s.DeleteConsumer(ctx, c.Name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
				return fmt.Errorf("delete stale consumer %s: %w", c.Name, err)
			}
			dropped = true
		}
	}
	if dropped {
		return nil
	}
	return &MismatchError{[]Difference{{"stream " + protocol.DispatchStream, "consumers",
		"another consumer reads " + protocol.DispatchSubject(lane.Queue, lane.Kind) + ": " + foreign, "only " + name}}}
}

// laneOf recognises a consumer that EnsureConsumer of any incarnation made: named <queue>+<kind>+<age> and
// filtered to that lane's subject.
func laneOf(c jetstream.ConsumerConfig) (protocol.Lane, bool) {
	parts := strings.Split(c.Durable, "+")
	if len(parts) != 3 {
		return protocol.Lane{}, false
	}
	lane := protocol.Lane{Queue: parts[0], Kind: parts[1]}
	if checkLane(lane) != nil || c.FilterSubject != protocol.DispatchSubject(lane.Queue, lane.Kind) {
		return protocol.Lane{}, false
	}
	return lane, true
}

func checkLane(lane protocol.Lane) error {
	if err := protocol.ValidToken(lane.Queue); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	if err := protocol.ValidToken(lane.Kind); err != nil {
		return fmt.Errorf("kind: %w", err)
	}
	return nil
}

func filterValue(c jetstream.ConsumerConfig) reflect.Value {
	if c.FilterSubject != "" {
		return reflect.ValueOf(c.FilterSubject)
	}
	return reflect.ValueOf(c.FilterSubjects)
}

// DispatchCreated is the dispatch stream's incarnation. The error is jetstream.ErrStreamNotFound when it is gone.
func DispatchCreated(ctx context.Context, js jetstream.JetStream) (time.Time, error) {
	s, err := getStream(ctx, js, protocol.DispatchStream)
	if err != nil {
		return time.Time{}, fmt.Errorf("stream %s: %w", protocol.DispatchStream, err)
	}
	return s.CachedInfo().Created, nil
}
