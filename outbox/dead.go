package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker/protocol"
)

// tell publishes what was parked to whoever watches the dead-letter stream. The row in the outbox is what counts and
// is committed; a relay that dies here, or a broker that goes away here, leaves that and the log to tell.
func (r *Relay) tell(ctx context.Context, p *pack, reasons []reason) {
	if r.Dead == nil {
		return
	}
	letters, err := deadLetters(p, reasons)
	if err == nil && len(letters) > 0 {
		ctx, cancel := context.WithTimeout(ctx, r.PublishTimeout)
		defer cancel()
		for _, m := range letters {
			m.SetContext(ctx)
		}
		err = r.Dead.Publish(letters[0].Metadata[MetaSubject], letters...)
	}
	if err != nil {
		r.Logger.Warn("parked dispatches are not told of on the broker", "stream", protocol.DeadStream, "pack", p.id, "error", err)
	}
}

// deadLetters are the messages about a pack's parked dispatches, by lane and reason, none too large to be sent.
func deadLetters(p *pack, reasons []reason) (letters []*message.Message, err error) {
	type lane struct{ queue, kind string }
	at := p.clock.now().UTC().Truncate(time.Microsecond)
	for _, why := range reasons {
		hints := map[lane][]eventstore.Hint{}
		var order []lane
		for _, m := range why.messages {
			l := lane{m.Queue, m.Kind}
			if _, seen := hints[l]; !seen {
				order = append(order, l)
			}
			hints[l] = append(hints[l], m.Hints...)
		}
		for _, l := range order {
			for rest := hints[l]; len(rest) > 0; {
				n := min(len(rest), protocol.MaxDead)
				dead := protocol.DeadDispatch{Queue: l.queue, Kind: l.kind, Reason: why.text, ParkedAt: at, Pack: p.id, Dispatches: wireHints(rest[:n])}
				rest = rest[n:]
				body, err := json.Marshal(dead)
				if err != nil {
					return nil, fmt.Errorf("write a dead letter: %w", err)
				}
				id := fmt.Sprintf("%s:%d:%d", p.id, p.attempts, len(letters))
				m := message.NewMessage(id, body)
				m.Metadata[MetaSubject] = protocol.DeadSubject(l.queue, l.kind)
				m.Metadata[protocol.HeaderMsgID] = id
				m.Metadata[protocol.HeaderExpectedStream] = protocol.DeadStream
				m.Metadata[protocol.HeaderContentType] = protocol.ContentTypeJSON
				letters = append(letters, m)
			}
		}
	}
	return letters, nil
}
