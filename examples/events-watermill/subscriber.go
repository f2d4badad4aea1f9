package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// subscriber is a durable consumer as a watermill Subscriber. The topic is the
// subject that the consumer filters by.
type subscriber struct {
	js      jetstream.JetStream
	stream  string
	durable string
	ackWait time.Duration // longer than all tries of a message together
}

// Subscribe implements message.Subscriber. One message is under way at a time,
// so what is handled keeps the order of the stream.
func (s *subscriber) Subscribe(ctx context.Context, subject string) (<-chan *message.Message, error) {
	c, err := s.js.CreateOrUpdateConsumer(ctx, s.stream, jetstream.ConsumerConfig{
		Durable: s.durable, FilterSubject: subject, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: s.ackWait, MaxDeliver: -1, MaxAckPending: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("make the consumer %s: %w", s.durable, err)
	}
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for ctx.Err() == nil {
			s.next(ctx, c, out)
		}
	}()
	return out, nil
}

// next takes one message to the router and its answer back. A message that gets
// no answer, because the program ends, comes again.
func (s *subscriber) next(ctx context.Context, c jetstream.Consumer, out chan<- *message.Message) {
	got, err := c.Next(jetstream.FetchContext(ctx))
	if err != nil {
		select { // the server is away, or nothing came
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		return
	}
	m := message.NewMessage(got.Headers().Get(nats.MsgIdHdr), got.Data())
	m.SetContext(ctx)
	for name := range got.Headers() {
		m.Metadata.Set(name, got.Headers().Get(name))
	}
	select {
	case out <- m:
	case <-ctx.Done():
		return
	}
	select {
	case <-m.Acked():
		_ = got.DoubleAck(ctx) // if this is lost the event comes again, and is recognised
	case <-m.Nacked():
		_ = got.NakWithDelay(time.Second)
	case <-ctx.Done():
	}
}

// Close implements message.Subscriber: the context of Subscribe ends it.
func (s *subscriber) Close() error { return nil }

// publisher publishes to JetStream; the topic is the subject.
type publisher struct{ js jetstream.JetStream }

// Publish implements message.Publisher. It returns when the server has stored
// every message.
func (p *publisher) Publish(subject string, messages ...*message.Message) error {
	for _, m := range messages {
		out := nats.NewMsg(subject)
		out.Data = m.Payload
		for name, value := range m.Metadata {
			out.Header.Set(name, value)
		}
		out.Header.Set(nats.MsgIdHdr, "poison:"+m.UUID)
		out.Header.Del(nats.ExpectedStreamHdr)
		if _, err := p.js.PublishMsg(m.Context(), out); err != nil {
			return fmt.Errorf("publish to %s: %w", subject, err)
		}
	}
	return nil
}

// Close implements message.Publisher.
func (p *publisher) Close() error { return nil }
