package natsjs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"

	"github.com/daybookhq/daybook/domain"
)

// Metadata keys that Publisher reads instead of sending them as headers.
const (
	MetaSubject    = "subject"    // overrides the topic
	MetaGeneration = "generation" // decimal; above 0 a duplicate is an error
)

// In-flight limits. Larger waves do not carry more messages a second, but take many times as long.
const (
	wave        = 256
	maxInFlight = 16 * wave
)

// Publisher is watermill's message.Publisher on JetStream. It publishes a whole batch asynchronously, awaits every
// answer and says which messages failed; one failure never stops the rest.
//
// Metadata becomes headers, spelled as they are: set Nats-Msg-Id, Nats-TTL and Nats-Expected-Stream there. The
// message's UUID is not sent.
type Publisher struct {
	nc      *nats.Conn
	acks    *acks
	timeout time.Duration
	slots   *semaphore.Weighted

	mu    sync.Mutex
	calls map[chan struct{}]struct{} // closed when the call of Publish returns
}

// NewPublisher returns a publisher on nc, which stays the caller's to close. timeout bounds a call of Publish; 0
// means 5 seconds.
func NewPublisher(nc *nats.Conn, timeout time.Duration) (*Publisher, error) {
	acks, err := newAcks(nc)
	if err != nil {
		return nil, fmt.Errorf("JetStream publisher: %w", err)
	}
	return &Publisher{
		nc:      nc,
		acks:    acks,
		timeout: cmp.Or(timeout, domain.DefaultPublish),
		slots:   semaphore.NewWeighted(maxInFlight),
		calls:   make(map[chan struct{}]struct{}),
	}, nil
}

// Publish publishes messages to topic and waits until each is answered, the publisher's timeout has passed or the
// first message's context ends. Its error is always a *PartialError. A duplicate is a success, unless the message
// is of a generation above 0.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	if len(messages) == 0 {
		return nil
	}
	defer p.enter()()
	ctx, cancel := context.WithTimeoutCause(messages[0].Context(), p.timeout,
		fmt.Errorf("publish timeout of %s passed: %w", p.timeout, context.DeadlineExceeded))
	defer cancel()

	failed := make(map[int]error)
	for start := 0; start < len(messages); start += wave {
		end := min(start+wave, len(messages))
		p.publishWave(ctx, topic, messages[start:end], func(i int, err error) { failed[start+i] = err })
	}
	if len(failed) > 0 {
		return &PartialError{Failed: failed, Total: len(messages)}
	}
	return nil
}

func (p *Publisher) publishWave(ctx context.Context, topic string, messages []*message.Message, fail func(int, error)) {
	// Slots are taken for the whole wave at once: two calls taking them one by one could wait for each other.
	if err := p.slots.Acquire(ctx, int64(len(messages))); err != nil {
		for i := range messages {
			fail(i, fmt.Errorf("not sent: %w", context.Cause(ctx)))
		}
		return
	}
	defer p.slots.Release(int64(len(messages)))

	flight := p.acks.depart(len(messages))
	subjects, generations := make([]string, len(messages)), make([]int64, len(messages))
	for i, m := range messages {
		msg, generation, err := encode(topic, m)
		if err == nil {
			subjects[i], generations[i] = msg.Subject, generation
			msg.Reply = flight.reply(i)
			err = p.send(ctx, msg)
		}
		if err != nil {
			fail(i, err)
			subjects[i] = ""
			flight.settle(i, answer{}) // nobody answers
		}
	}
	for i, a := range flight.land(ctx) {
		switch {
		case subjects[i] == "":
		case a.err != nil:
			fail(i, fmt.Errorf("publish to %s: %w", subjects[i], p.explain(subjects[i], a.err)))
		case a.duplicate && generations[i] > 0:
			fail(i, fmt.Errorf("publish to %s: generation %d: %w", subjects[i], generations[i], ErrDuplicate))
		}
	}
}

func (p *Publisher) send(ctx context.Context, msg *nats.Msg) error {
	if ctx.Err() != nil {
		return fmt.Errorf("publish to %s: not sent: %w", msg.Subject, context.Cause(ctx))
	}
	if !p.nc.IsConnected() {
		return fmt.Errorf("publish to %s: not sent: %w", msg.Subject, nats.ErrDisconnected)
	}
	if err := p.nc.PublishMsg(msg); err != nil {
		return fmt.Errorf("publish to %s: %w", msg.Subject, err)
	}
	return nil
}

// explain adds a denied permission to a missing answer. The server tells it to the connection only, not to the
// request. It stays worth a retry: permissions belong to the operator, not to the message.
func (p *Publisher) explain(subject string, err error) error {
	if !errors.Is(err, ErrNoAck) {
		return err
	}
	if last := p.nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), `"`+subject+`"`) {
		return fmt.Errorf("%w; %w", err, last)
	}
	return err
}

// Close waits for the calls of Publish in progress. The publisher stays usable, since watermill's router closes
// the publisher of each handler that stops, shared or not; the connection is the caller's.
func (p *Publisher) Close() error {
	p.mu.Lock()
	calls := make([]chan struct{}, 0, len(p.calls))
	for done := range p.calls {
		calls = append(calls, done)
	}
	p.mu.Unlock()
	for _, done := range calls {
		<-done
	}
	return nil
}

// enter registers a call for Close and returns its end.
func (p *Publisher) enter() (leave func()) {
	done := make(chan struct{})
	p.mu.Lock()
	p.calls[done] = struct{}{}
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		delete(p.calls, done)
		p.mu.Unlock()
		close(done)
	}
}

// encode makes the NATS message. The client drops header names it cannot send and mends values with line breaks,
// both without a word, so they are refused here.
func encode(topic string, m *message.Message) (*nats.Msg, int64, error) {
	subject := topic
	var generation int64
	header := make(nats.Header, len(m.Metadata))
	values := make([]string, 0, len(m.Metadata))
	for k, v := range m.Metadata {
		switch k {
		case MetaSubject:
			subject = v
		case MetaGeneration:
			g, err := strconv.ParseInt(v, 10, 64)
			if err != nil || g < 0 {
				return nil, 0, fmt.Errorf("%w: metadata %s is %q; want a number from 0", ErrUnpublishable, k, v)
			}
			generation = g
		default:
			if !validHeaderName(k) {
				return nil, 0, fmt.Errorf("%w: metadata key %q cannot be a header name", ErrUnpublishable, k)
			}
			if strings.ContainsAny(v, "\r\n\x00") || v != strings.TrimSpace(v) {
				return nil, 0, fmt.Errorf("%w: metadata %s has a value that no header can carry: %q", ErrUnpublishable, k, v)
			}
			values = append(values, v)
			header[k] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	if !validSubject(subject) {
		return nil, 0, fmt.Errorf("%w: subject %q; want non-empty tokens between dots, without wildcards or spaces", ErrUnpublishable, subject)
	}
	return &nats.Msg{Subject: subject, Header: header, Data: m.Payload}, generation, nil
}

func validSubject(s string) bool {
	return s != "" && !strings.ContainsAny(s, "*> \t\r\n\x00") &&
		s[0] != '.' && s[len(s)-1] != '.' && !strings.Contains(s, "..")
}

// validHeaderName allows the characters of an HTTP field name.
func validHeaderName(s string) bool {
	for i := range len(s) {
		if !headerNameBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

var headerNameBytes = func() (allowed [256]bool) {
	for c := '!'; c <= '~'; c++ {
		allowed[c] = !strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	}
	return allowed
}()
