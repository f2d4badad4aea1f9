package explorer

func (m *mover) broker(id uint8) {
	c, unstarted := m.of[id], m.run == claimed && !m.lapsed
	current := id == m.claim

	// The window of known ids outlives a dispatch lease: within one, only a
	// restart forgets.
	forgets := passing
	if current && unstarted {
		forgets = fault
	}
	m.do(forgets, c.known, func(n *state) { n.of[id].known = false }, "broker: forgets the message id of #%d", id)

	to := uint8(0)
	if m.w[0].phase != free && m.slots > 1 {
		to = 1
	}
	m.do(progress, c.waiting && c.left > 0 && m.w[to].phase == free, func(n *state) {
		n.of[id].waiting, n.of[id].flying, n.of[id].left = false, m.has(ackLast), c.left-1
		n.w[to] = slot{phase: got, claim: id}
	}, "broker: delivers #%d to w%d", id, to)
	m.do(progress, c.flying && !(m.calm && m.held(id, false)), func(n *state) { n.requeue(id) }, "broker: the ack wait of #%d passes", id)
	m.do(progress, (c.waiting || c.flying) && m.has(timeToLive) && !(current && unstarted), func(n *state) { n.drop(id) },
		"broker: the time to live of #%d passes", id)
}

// disasters lose memories.
func (m *mover) disasters() {
	crash, wipe := m.state, m.state
	crash.seen = 0
	if crash.run == limbo {
		crash.run = orphaned
	}
	for id := range crash.of {
		crash.of[id].mem = false
		wipe.of[id] = copies{row: m.of[id].row, mem: m.of[id].mem}
	}
	m.do(fault, crash != m.state, func(n *state) { *n = crash }, "engine and relay CRASH, what they had in memory is gone")
	m.do(fault, wipe != m.state, func(n *state) {
		*n, n.wiped = wipe, true
		for i := range n.w {
			n.w[i].old = n.w[i].phase != free && !m.has(consumerPerStream)
		}
	}, "broker: the stream is LOST and made anew")
}

func (m *mover) leases() {
	cur := m.of[m.claim]
	inGoodOrder := m.run == running && m.held(m.claim, true) && m.has(ownDeadline) ||
		m.run == claimed && (cur.row && m.has(relayPoll) || cur.mem || m.wiped || m.held(m.claim, false) || cur.left > 0 && (cur.waiting || cur.flying))
	m.do(passing, m.open() && !m.lapsed && !(m.timed && inGoodOrder), func(n *state) {
		n.lapsed = true
		for i, w := range n.w {
			if w.claim == n.claim && w.mine && w.phase != settled {
				n.w[i].lost, n.just = true, true // paused or cut off for longer than the lease: its attempt counts as crashed
			}
		}
	}, "time: the lease of #%d ends", m.claim)
}

// reap has its look and its write in one step, because the write looks again.
// Without that they are two.
func (m *mover) reap() {
	over := m.open() && m.lapsed
	m.do(passing, !m.has(reapCheck) && m.seen == 0 && over, func(n *state) { n.seen = n.claim }, "reaper: sees that the lease of #%d is over", m.claim)
	blind := m.seen != 0
	m.do(passing, blind && m.run == pending, func(n *state) { n.seen = 0 }, "reaper: finds nothing to close")
	m.do(passing, blind && m.terminal(), func(n *state) { n.seen = 0; n.back(m.config, false) }, "reaper: writes a pending row without looking again")
	due := blind || over && m.has(reaper) && m.has(reapCheck)
	m.do(passing, due && m.run == claimed, func(n *state) {
		n.seen = 0
		n.wrong(m.calm, idleRelease)
		n.back(m.config, !m.has(chargeAtStart))
	}, "reaper: #%d was never started and is released", m.claim)
	m.do(passing, due && m.run == running, func(n *state) {
		n.seen = 0
		if n.just {
			n.real++
		}
		if !m.has(chargeCrash) {
			n.attempt--
		}
		n.back(m.config, true)
	}, "reaper: closes #%d, whose worker is silent", m.claim)
}
