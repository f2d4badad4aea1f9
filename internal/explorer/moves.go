package explorer

import "fmt"

// kind of a move: what properties of progress may count on.
type kind uint8

const (
	progress kind = iota
	passing       // of time: leases end, the reaper comes, the broker forgets
	fault
	user
)

type move struct {
	to    state
	kind  kind
	label string
}

// mover lists the moves out of a state.
type mover struct {
	*config
	state
	out    []move
	labels bool // only traces need them
}

// do adds a move: a guarded command.
func (m *mover) do(k kind, when bool, effect func(*state), label string, v ...uint8) {
	if !when || k == fault && m.calm {
		return
	}
	m.out = append(m.out, move{to: m.state, kind: k})
	added := &m.out[len(m.out)-1]
	effect(&added.to)
	if m.labels {
		args := make([]any, len(v))
		for i := range v {
			args[i] = v[i]
		}
		added.label = fmt.Sprintf(label, args...)
	}
}

// faultUnless is progress in a world where something happens anyway, and a fault
// in one where it takes one.
func faultUnless(anyway bool) kind {
	if anyway {
		return progress
	}
	return fault
}

// from lists the moves out of s; the result is valid until the next call.
func (m *mover) from(s state) []move {
	m.state, m.out = s, m.out[:0]
	m.engine()
	for id := uint8(1); id <= ids; id++ {
		m.relay(id)
		m.broker(id)
	}
	m.disasters()
	m.leases()
	m.reap()
	for i := range m.slots {
		m.worker(uint8(i))
	}
	return m.out
}

func (m *mover) engine() {
	for id := uint8(ids); id >= 1; id-- {
		named := m.of[id]
		named.known = named.known && m.has(idPerClaim)
		unnamed := named == copies{} && m.seen != id && m.w[0].claim != id && m.w[1].claim != id
		m.do(progress, m.run == pending && unnamed, func(n *state) {
			n.run, n.claim = claimed, id
			if !m.has(chargeAtStart) {
				n.attempt++
			}
			n.of[id].row, n.of[id].mem = m.has(outboxRow), true
		}, "engine: claim #%d and its pack are committed, the pack is handed over", id)
	}
	m.do(progress, m.run == limbo, func(n *state) { n.run = pending }, "engine: a second transaction writes the pending row")

	unstarted := m.run == claimed && !m.lapsed
	m.do(progress, m.wiped && unstarted && m.has(rearm), func(n *state) {
		n.wiped = false
		n.of[n.claim].mem = true
		n.of[n.claim].row = m.has(rearmDurable) || n.of[n.claim].row
		n.of[n.claim].known = false // the message id names the generation
	}, "engine: the stream is a new one, claim #%d is dispatched again", m.claim)
	m.do(progress, m.wiped && !m.has(rearm), func(n *state) { n.wiped = false }, "(nobody looks whether the stream is a new one)")

	m.do(user, m.cancels && !m.cancel && m.run <= running, func(n *state) {
		n.cancel = true
		if n.run != running || !m.has(cancelWaits) {
			n.end(m.config, cancelled)
		}
	}, "user: cancels")
}

// msgID is the message id of a claim's messages.
func (m *mover) msgID(id uint8) uint8 {
	if m.has(idPerClaim) {
		return id
	}
	return 1
}

func (m *mover) relay(id uint8) {
	c := m.of[id]
	publish := func(n *state) {
		n.of[m.msgID(id)].known, n.of[id].waiting, n.of[id].flying, n.of[id].left = true, true, false, deliveries
	}
	done, lost := "relay: publishes #%d, the pack is deleted", "relay: publishes #%d, the PubAck is lost"
	switch {
	case m.open() && m.lapsed && id == m.claim:
		done, publish = "relay: drops #%d, its lease is over", func(*state) {}
	case m.of[m.msgID(id)].known:
		done, publish = "relay: publishes #%d, which the broker takes for a copy; the pack is deleted", func(*state) {}
	}
	m.do(progress, c.mem, func(n *state) { publish(n); n.of[id].mem, n.of[id].row = false, false }, done, id)
	m.do(fault, c.mem, publish, lost, id)
	m.do(progress, c.row && !c.mem && m.has(relayPoll), func(n *state) { n.of[id].mem = true }, "relay: finds pack #%d in the table", id)
	m.do(fault, c.mem, func(n *state) {
		n.of[id].mem, n.of[id].row = false, false
		switch {
		case n.claim != id:
		case n.run == claimed:
			n.back(m.config, !m.has(chargeAtStart))
		case n.run == running && !m.has(parkUnstarted):
			n.attempt--
			n.back(m.config, false)
		}
	}, "relay: the broker refuses #%d for good; the pack is parked, the claim given back", id)
}
