package outbox

import (
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker/protocol"
)

// Metadata that addresses the Publisher. All other metadata are headers to be sent as they are spelled.
const (
	MetaSubject    = "subject"    // where the message goes; the topic of a call is that of its first message
	MetaGeneration = "generation" // above 0 and present: a message id that the broker knows already is an error
)

// minLease is the least that must be left of a lease, and the shortest time to live a message can have.
const minLease = time.Second

// dispatch is a message of a pack: what is stored of it and what is sent.
type dispatch struct {
	eventstore.Message
	lease time.Time // the latest of its hints'; they differ only if one claim's leases do
	wire  *message.Message
}

func newDispatch(m eventstore.Message) dispatch {
	d := dispatch{Message: m}
	hints := wireHints(m.Hints)
	for _, h := range m.Hints {
		if h.LeaseUntil.After(d.lease) {
			d.lease = h.LeaseUntil
		}
	}
	const bytesPerHint = 147
	id := m.Hints[0].ClaimID.String()
	d.wire = message.NewMessage(id, protocol.AppendHints(make([]byte, 0, 1+bytesPerHint*len(hints)), hints))
	if m.Generation > 0 {
		id += ":" + strconv.Itoa(m.Generation)
	}
	d.wire.Metadata[MetaSubject] = protocol.DispatchSubject(m.Queue, m.Kind)
	d.wire.Metadata[protocol.HeaderMsgID] = id
	d.wire.Metadata[protocol.HeaderExpectedStream] = protocol.DispatchStream
	return d
}

func wireHints(hints []eventstore.Hint) []protocol.Hint {
	out := make([]protocol.Hint, len(hints))
	for i, h := range hints {
		out[i] = protocol.Hint{RunID: h.RunID, ClaimID: h.ClaimID, LeaseUntil: protocol.At(h.LeaseUntil)}
	}
	return out
}

func (d dispatch) subject() string { return d.wire.Metadata[MetaSubject] }

// prepare fits the message for being sent now, and reports false if its lease does not last long enough.
//
// Only in a message that cannot be there yet is a known id an error: a re-armed claim whose message was taken for an
// old one would wait for its lease to end. Of a message that was tried before, or perhaps by another relay, it says
// that the try had worked.
func (d dispatch) prepare(now time.Time, first bool) bool {
	left := d.lease.Sub(now)
	if left < minLease {
		return false
	}
	d.wire.Metadata[protocol.HeaderTTL] = strconv.FormatInt(int64(left/time.Second), 10)
	if first && d.Generation > 0 {
		d.wire.Metadata[MetaGeneration] = strconv.Itoa(d.Generation)
	} else {
		delete(d.wire.Metadata, MetaGeneration)
	}
	return true
}

// pack is a row of the outbox, held in memory by the one who may publish it.
type pack struct {
	id         uuid.UUID
	until      time.Time // with the owner, the fence
	clock      clock
	attempts   int
	first      bool // nobody can have published it yet
	dispatches []dispatch
}

func newPack(id uuid.UUID, messages []eventstore.Message) *pack {
	p := &pack{id: id, dispatches: make([]dispatch, len(messages))}
	for i, m := range messages {
		p.dispatches[i] = newDispatch(m)
	}
	return p
}

// over reports that the pack may belong to somebody else by now.
func (p *pack) over() bool { return !p.clock.now().Before(p.until) }

// clock is the database's time as far as this process may rely on it: what it was, and what passed here since.
type clock struct {
	database time.Time
	local    time.Time // from before the database was asked
}

func (c clock) now() time.Time { return c.database.Add(time.Since(c.local)) }
