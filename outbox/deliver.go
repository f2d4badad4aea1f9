package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/crashpoint"
)

// PartialError is the shape of a Publisher's error that tells the messages of a call apart. All messages it does not
// name are stored. An error without this shape means that none is known to be, and that all are worth a retry.
type PartialError interface {
	error
	// Failures are the errors of single messages, by index in the call.
	Failures() map[int]error
	// Permanent reports whether publishing message i again cannot succeed.
	Permanent(i int) bool
}

// deliver publishes what is worth publishing of a pack and records what became of it. It does not end with ctx, which
// would leave messages behind of which nobody knows whether they are out.
func (r *Relay) deliver(ctx context.Context, p *pack) (outcome, error) {
	ctx = context.WithoutCancel(ctx)
	now := p.clock.now()
	live := make([]dispatch, 0, len(p.dispatches))
	for _, d := range p.dispatches {
		if d.prepare(now, p.first) {
			live = append(live, d)
		}
	}
	r.count.dropped.Add(uint64(len(p.dispatches) - len(live)))
	if len(live) == 0 {
		r.desk.landed(p, true)
		return nothing, nil
	}
	err := r.publish(ctx, live)
	v := triage(live, err)
	r.count.published.Add(uint64(len(live) - len(v.retry) - len(v.parked)))
	r.count.failed.Add(uint64(len(v.retry)))
	if len(v.retry)+len(v.parked) == 0 {
		r.desk.landed(p, true)
		return taken, nil
	}
	o := taken
	if len(v.retry) == len(live) {
		o = refused
	}
	err = r.settle(ctx, p, v)
	r.desk.landed(p, false)
	return o, err
}

func (r *Relay) publish(ctx context.Context, live []dispatch) error {
	ctx, cancel := context.WithTimeout(ctx, r.PublishTimeout)
	defer cancel()
	wire := make([]*message.Message, len(live))
	for i, d := range live {
		d.wire.SetContext(ctx)
		wire[i] = d.wire
	}
	if err := crashpoint.Err(crashpoint.RelayPrePublish); err != nil {
		return err
	}
	if err := r.Publisher.Publish(live[0].subject(), wire...); err != nil {
		return err
	}
	return crashpoint.Err(crashpoint.RelayPostPublish)
}

// verdict is what is left of a pack.
type verdict struct {
	retry, parked []eventstore.Message
	why           string // of those to retry
	reasons       []reason
}

// reason is why runs are given back.
type reason struct {
	text     string
	messages []eventstore.Message
}

func (w reason) hints() (all []eventstore.Hint) {
	for _, m := range w.messages {
		all = append(all, m.Hints...)
	}
	return all
}

func triage(live []dispatch, err error) (v verdict) {
	if err == nil {
		return v
	}
	var partial PartialError
	var failures map[int]error
	if errors.As(err, &partial) {
		failures = partial.Failures()
	}
	whole := len(failures) == 0
	first := err
	index := map[string]int{}
	for i, d := range live {
		failure := failures[i]
		switch {
		case failure == nil && !whole:
			continue
		case !whole && partial.Permanent(i):
			v.parked = append(v.parked, d.Message)
			text := clean(failure.Error())
			at, known := index[text]
			if !known {
				at = len(v.reasons)
				index[text] = at
				v.reasons = append(v.reasons, reason{text: text})
			}
			v.reasons[at].messages = append(v.reasons[at].messages, d.Message)
			continue
		case failure != nil && len(v.retry) == 0:
			first = failure
		}
		v.retry = append(v.retry, d.Message)
	}
	if len(v.retry) > 0 {
		v.why = clean(fmt.Sprintf("%d of %d messages not published: %v", len(v.retry), len(live), first))
	}
	return v
}

// clean makes text that PostgreSQL stores.
func clean(text string) string {
	const most = 1000
	text = strings.ReplaceAll(text, "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// settle records failures and gives the runs of parked messages back, in this order: a relay that dies in between
// leaves runs to the end of their lease, the other way round it would publish for claims that are closed.
func (r *Relay) settle(ctx context.Context, p *pack, v verdict) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	pause := backoff(p.attempts)
	held, err := r.record(ctx, p, v, pause)
	if err != nil {
		return r.database(ctx, fmt.Errorf("record failures of pack %s: %w", p.id, err))
	}
	if !held {
		return nil // another relay has leased it and learns for itself
	}
	if len(v.retry) > 0 {
		r.desk.pollBy(time.Now().Add(pause))
	}
	r.count.parked.Add(uint64(len(v.parked)))
	for _, why := range v.reasons {
		hints := why.hints()
		r.Logger.Error("dispatches cannot be published and are parked", "pack", p.id, "runs", len(hints), "reason", why.text)
		if r.Releaser == nil {
			continue
		}
		if err := r.Releaser.Release(ctx, hints, why.text); err != nil {
			r.Logger.Warn("runs of parked dispatches wait for the end of their lease", "pack", p.id, "runs", len(hints), "error", err)
		}
	}
	r.tell(ctx, p, v.reasons)
	return nil
}
