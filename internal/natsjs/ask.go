package natsjs

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A JetStream request that meets an election is dropped and not answered later, so a long wait for one answer is a
// wait for nothing: ask again instead.
const (
	askTimeout = 2 * time.Second
	askTimes   = 4
)

// ask calls f until it answers, each time with a short timeout. f must be safe to repeat.
func ask[T any](ctx context.Context, f func(context.Context) (T, error)) (v T, err error) {
	for range askTimes {
		attempt, cancel := context.WithTimeout(ctx, askTimeout)
		v, err = f(attempt)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			break
		}
	}
	return v, err
}

func getStream(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	return ask(ctx, func(ctx context.Context) (jetstream.Stream, error) { return js.Stream(ctx, name) })
}

func getConsumer(ctx context.Context, s jetstream.Stream, name string) (jetstream.Consumer, error) {
	return ask(ctx, func(ctx context.Context) (jetstream.Consumer, error) { return s.Consumer(ctx, name) })
}

// listStreams returns the streams whose subjects overlap subject.
func listStreams(ctx context.Context, js jetstream.JetStream, subject string) ([]*jetstream.StreamInfo, error) {
	return ask(ctx, func(ctx context.Context) ([]*jetstream.StreamInfo, error) {
		list := js.ListStreams(ctx, jetstream.WithStreamListSubject(subject))
		return drain(list.Info(), list.Err)
	})
}

func listConsumers(ctx context.Context, s jetstream.Stream) ([]*jetstream.ConsumerInfo, error) {
	return ask(ctx, func(ctx context.Context) ([]*jetstream.ConsumerInfo, error) {
		list := s.ListConsumers(ctx)
		return drain(list.Info(), list.Err)
	})
}

func drain[T any](items <-chan T, failure func() error) ([]T, error) {
	var all []T
	for item := range items {
		all = append(all, item)
	}
	if err := failure(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return nil, err
	}
	return all, nil
}
