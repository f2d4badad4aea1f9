package natsjs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/worker/protocol"
)

// Settings of every Subscriber.
const (
	pullExpiry  = 5 * time.Second
	rebindFirst = 100 * time.Millisecond
	rebindMax   = 5 * time.Second
	nackMax     = time.Minute

	maxAckPending = 1000 // of one subscription, all processes together
)

// SubscriberOptions configures a Subscriber.
type SubscriberOptions struct {
	Stream      string        // default: the event stream
	Durable     string        // required: the consumer's name, one per reaction
	From        time.Time     // a new consumer begins with the events of this time; zero: now
	MaxInFlight int           // messages handed out and not yet acked, default 16
	AckWait     time.Duration // how long a message of a crashed process waits, default 30 s; a living one extends it
	NackDelay   time.Duration // before a nacked message comes again, doubled each time up to a minute; default 1 s
	CloseWait   time.Duration // how long Close waits for handed-out messages, default 30 s
	Logger      *slog.Logger
}

// Subscriber is watermill's message.Subscriber on JetStream, for reactions to events at a low rate. Delivery is at
// least once and in no promised order. The consumer is created when absent and compared when present; deleted
// while in use, it is made again where the last one stood.
type Subscriber struct {
	js   jetstream.JetStream
	opts SubscriberOptions
	log  *slog.Logger

	closing context.Context
	close   context.CancelFunc
	mu      sync.Mutex // guards running.Add against Close
	running sync.WaitGroup
}

// NewSubscriber returns a subscriber. The connection below js stays the caller's.
func NewSubscriber(js jetstream.JetStream, opts SubscriberOptions) (*Subscriber, error) {
	if err := protocol.ValidToken(opts.Durable); err != nil {
		return nil, fmt.Errorf("subscriber: durable name: %w", err)
	}
	opts.Stream = cmp.Or(opts.Stream, protocol.EventsStream)
	opts.MaxInFlight = cmp.Or(opts.MaxInFlight, 16)
	opts.AckWait = cmp.Or(opts.AckWait, 30*time.Second)
	opts.NackDelay = cmp.Or(opts.NackDelay, time.Second)
	opts.CloseWait = cmp.Or(opts.CloseWait, 30*time.Second)
	s := &Subscriber{js: js, opts: opts,
		log: cmp.Or(opts.Logger, slog.Default()).With("component", "subscriber", "durable", opts.Durable)}
	s.closing, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Subscribe delivers messages whose subject matches topic, which may hold wildcards, until ctx or the subscriber
// ends. An existing consumer with other settings is a *MismatchError; an unreachable server is waited for.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Err() != nil {
		return nil, errors.New("subscriber is closed")
	}
	sub := &subscription{Subscriber: s, topic: topic, since: s.opts.From,
		out: make(chan *message.Message), slots: make(chan struct{}, s.opts.MaxInFlight), unacked: make(map[uint64]time.Time)}
	if sub.since.IsZero() {
		sub.since = time.Now()
	}
	consumer, err := sub.bind(ctx)
	if _, ok := errors.AsType[*MismatchError](err); ok {
		return nil, err
	}
	s.running.Go(func() { sub.run(ctx, consumer) })
	return sub.out, nil
}

// Close stops all subscriptions and waits until what they handed out is acked or nacked, or CloseWait has passed.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

type subscription struct {
	*Subscriber
	topic string
	out   chan *message.Message
	slots chan struct{} // one element per message handed out

	mu      sync.Mutex
	since   time.Time            // where a new consumer has to begin if nothing is unacked
	unacked map[uint64]time.Time // stream sequence → when it was stored
}

func (s *subscription) run(ctx context.Context, consumer jetstream.Consumer) {
	pulling, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(s.closing, stop)()
	var handed sync.WaitGroup
	backoff := rebindFirst
	for pulling.Err() == nil {
		var err error
		if consumer == nil {
			consumer, err = s.bind(pulling)
		}
		if err == nil {
			err = s.pull(ctx, pulling, consumer, &handed)
		}
		if err == nil {
			backoff = rebindFirst
			continue
		}
		if pulling.Err() != nil {
			break
		}
		s.log.Warn("subscription interrupted, binding again", "topic", s.topic, "error", err)
		consumer = nil
		select {
		case <-pulling.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, rebindMax)
	}
	close(s.out)
	handed.Wait()
}

// bind creates the consumer or compares the one that exists.
func (s *subscription) bind(ctx context.Context) (jetstream.Consumer, error) {
	start := s.resume()
	want := jetstream.ConsumerConfig{
		Name:          s.opts.Durable,
		Durable:       s.opts.Durable,
		FilterSubject: s.topic,
		DeliverPolicy: jetstream.DeliverByStartTimePolicy,
		OptStartTime:  &start,
		AckPolicy:     jetstream.AckExplicitPolicy,
		ReplayPolicy:  jetstream.ReplayInstantPolicy,
		AckWait:       s.opts.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: maxAckPending,
		MaxWaiting:    512,
	}
	stream, err := s.js.Stream(ctx, s.opts.Stream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", s.opts.Stream, err)
	}
	consumer, err := stream.Consumer(ctx, want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		consumer, err = stream.CreateConsumer(ctx, want)
		if errors.Is(err, jetstream.ErrConsumerExists) {
			consumer, err = stream.Consumer(ctx, want.Durable)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s of stream %s: %w", want.Durable, s.opts.Stream, err)
	}
	have := consumer.CachedInfo().Config
	have.DeliverPolicy, have.OptStartTime = want.DeliverPolicy, want.OptStartTime // where it began is history
	have.Replicas = want.Replicas                                                 // the stream's
	if diffs := diffConsumer(have, want); len(diffs) > 0 {
		return nil, &MismatchError{diffs}
	}
	return consumer, nil
}

// pull asks for as many messages as there are free slots and hands them out. An error means the consumer must be
// bound again.
func (s *subscription) pull(ctx, pulling context.Context, consumer jetstream.Consumer, handed *sync.WaitGroup) error {
	select {
	case s.slots <- struct{}{}:
	case <-pulling.Done():
		return nil
	}
	free := 1
	for more := true; more; {
		select {
		case s.slots <- struct{}{}:
			free++
		default:
			more = false
		}
	}
	defer func() {
		for range free {
			<-s.slots
		}
	}()
	expiry, cancel := context.WithTimeout(pulling, pullExpiry)
	defer cancel()
	batch, err := consumer.Fetch(free, jetstream.FetchContext(expiry))
	if err != nil {
		return err
	}
	for msg := range batch.Messages() {
		m, seq, err := s.decode(msg)
		if err != nil {
			return err
		}
		msgCtx, done := context.WithCancel(ctx)
		m.SetContext(msgCtx)
		select {
		case s.out <- m:
			free-- // the slot is the message's now
			handed.Go(func() {
				defer done()
				s.settle(ctx, msg, m, seq)
			})
		case <-pulling.Done():
			done()
			_ = msg.Nak()
		}
	}
	if err := batch.Error(); err != nil && expiry.Err() == nil {
		return err
	}
	return nil
}

func (s *subscription) decode(msg jetstream.Msg) (*message.Message, uint64, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, 0, err
	}
	id := msg.Headers().Get(protocol.HeaderMsgID)
	if id == "" {
		id = fmt.Sprintf("%s:%d", meta.Stream, meta.Sequence.Stream)
	}
	m := message.NewMessage(id, msg.Data())
	for k, v := range msg.Headers() {
		if len(v) > 0 {
			m.Metadata.Set(k, v[0])
		}
	}
	m.Metadata.Set(MetaSubject, msg.Subject())
	s.mu.Lock()
	if len(s.unacked) >= maxAckPending { // the server allows no more, so some were acked by another process
		delete(s.unacked, slices.Min(slices.Collect(maps.Keys(s.unacked))))
	}
	s.unacked[meta.Sequence.Stream] = meta.Timestamp
	if meta.Timestamp.After(s.since) {
		s.since = meta.Timestamp
	}
	s.mu.Unlock()
	return m, meta.Sequence.Stream, nil
}

// settle waits for the handler's verdict and passes it on. Meanwhile it extends the ack wait, so that a slow
// handler gets no second copy.
func (s *subscription) settle(ctx context.Context, msg jetstream.Msg, m *message.Message, seq uint64) {
	defer func() { <-s.slots }()
	extend := time.NewTicker(s.opts.AckWait / 3)
	defer extend.Stop()
	ended, closing := ctx.Done(), s.closing.Done()
	var giveUp <-chan time.Time
	for {
		select {
		case <-m.Acked():
			if err := msg.Ack(); err != nil {
				s.log.Warn("ack not sent, the message will come again", "error", err)
			}
			s.mu.Lock()
			delete(s.unacked, seq)
			s.mu.Unlock()
			return
		case <-m.Nacked():
			if err := msg.NakWithDelay(s.nackDelay(msg)); err != nil {
				s.log.Warn("nack not sent, the message will come again after the ack wait", "error", err)
			}
			return
		case <-extend.C:
			_ = msg.InProgress()
		case <-closing:
			closing, giveUp = nil, time.After(s.opts.CloseWait)
		case <-ended:
			ended, closing, giveUp = nil, nil, time.After(s.opts.CloseWait)
		case <-giveUp:
			s.log.Warn("handler did not answer before the end, the message will come again", "subject", msg.Subject())
			return
		}
	}
}

func (s *subscription) nackDelay(msg jetstream.Msg) time.Duration {
	delay := s.opts.NackDelay
	if meta, err := msg.Metadata(); err == nil {
		for n := uint64(1); n < meta.NumDelivered && delay < nackMax; n++ {
			delay *= 2
		}
	}
	return min(delay, nackMax)
}

// resume is where a new consumer has to begin: with the oldest message not acked, else after the newest seen. A
// time and not a sequence, because sequences begin again when the stream was recreated.
func (s *subscription) resume() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	start := s.since
	for _, stored := range s.unacked {
		if stored.Before(start) {
			start = stored
		}
	}
	return start
}
