package worker

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// parcel is a dispatch message in hand. It is acknowledged when the last of its runs has settled.
type parcel struct {
	msg  *nats.Msg
	lane *lane
	size int // runs in it

	mu       sync.Mutex
	left     int
	kept     bool // a run settled without an answer: the message is left to its time to live
	extended time.Time
}

// settle counts one run of the message as ended. answered is false if the engine never told how. A nil parcel is that of
// polled runs.
func (p *parcel) settle(answered bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.left--
	p.kept = p.kept || !answered
	last, kept := p.left == 0, p.kept
	p.mu.Unlock()
	if !last {
		return
	}
	p.lane.parcels.remove(p)
	if kept {
		return
	}
	// A lost ack costs one redelivery, which start refuses.
	if err := p.reply(ackPayload); err != nil {
		p.lane.log.Debug("message not acknowledged", "error", err)
	}
}

// giveBack returns a message of which no start was sent, for another worker to take at once.
func (p *parcel) giveBack() {
	p.lane.parcels.remove(p)
	if err := p.reply(nakPayload); err != nil {
		p.lane.log.Debug("message not given back", "error", err)
	}
}

// reply sends one of the acknowledgements.
func (p *parcel) reply(payload string) error {
	return p.lane.s.conn.Publish(p.msg.Reply, []byte(payload))
}

// parcels are the messages of a lane in hand.
type parcels struct {
	mu  sync.Mutex
	set map[*parcel]struct{}
}

func (ps *parcels) add(p *parcel) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.set == nil {
		ps.set = make(map[*parcel]struct{})
	}
	ps.set[p] = struct{}{}
}

func (ps *parcels) remove(p *parcel) {
	ps.mu.Lock()
	delete(ps.set, p)
	ps.mu.Unlock()
}

// extend tells the server that messages received or extended before cutoff are still worked on.
func (ps *parcels) extend(now, cutoff time.Time) {
	ps.mu.Lock()
	var due []*parcel
	for p := range ps.set {
		if !p.extended.After(cutoff) {
			p.extended = now
			due = append(due, p)
		}
	}
	ps.mu.Unlock()
	for _, p := range due {
		// Disconnected: the message may be redelivered, and start refuses the copy.
		_ = p.reply(workPayload)
	}
}
