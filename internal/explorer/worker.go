package explorer

func (m *mover) worker(i uint8) {
	w := m.w[i]
	if w.phase == free {
		return
	}
	switch w.phase {
	case got, asked:
		m.asks(i)
	case releasing:
		m.releases(i)
	case executing:
		m.executes(i)
	case hasSucceeded:
		m.reports(i, "complete", func(n *state) { n.end(m.config, succeeded) })
	case hasFailed:
		m.reports(i, "fail", func(n *state) { n.real++; n.back(m.config, true) })
	case drained:
		m.reports(i, "release", func(n *state) { m.giveBack(n) })
	case stopped:
		m.reports(i, "fail, as it was cancelled,", func(n *state) { n.end(m.config, cancelled) })
	case settled:
		m.settles(i)
	}
	m.do(faultUnless(m.crashing && w.phase == executing), true, func(n *state) {
		n.w[i] = slot{}
		n.just = n.just || m.open() && m.claim == w.claim && w.mine
	}, "w%d CRASHES with #%d", i, w.claim)
}

// mayStart says what the engine makes of the slot's start.
func (m *mover) mayStart(w slot) (first, again bool) {
	live := m.claim == w.claim && !m.lapsed
	again = live && m.run == running && (w.mine && m.has(startToken) || !m.has(startOnce))
	return live && m.run == claimed, again
}

func (m *mover) record(n *state, i uint8) {
	n.run, n.lapsed, n.w[i].mine = running, false, true
	if m.has(chargeAtStart) {
		n.attempt++
	}
	n.wrong(n.attempt > m.attempts, tooMany)
	n.wrong(n.cancel, uncancelled)
}

func (m *mover) asks(i uint8) {
	w := m.w[i]
	first, again := m.mayStart(w)
	blind := !m.has(startClaim) && !(m.open() && m.claim == w.claim)
	execute := func(n *state) {
		n.w[i].phase, n.w[i].late = executing, false
		n.just = n.just || m.open() && m.claim == w.claim
	}
	if !m.idle {
		m.do(progress, first, func(n *state) { m.record(n, i); execute(n) }, "w%d: start of #%d is accepted, executes", i, w.claim)
		m.do(fault, first, func(n *state) { m.record(n, i); n.w[i].phase = asked }, "w%d: start of #%d is accepted, the reply is LOST", i, w.claim)
		m.do(fault, w.phase == got, func(n *state) { n.w[i].phase, n.w[i].late = asked, true }, "w%d: start of #%d is DELAYED", i, w.claim)
		m.do(progress, again, func(n *state) { n.w[i].mine = true; execute(n) }, "w%d: start of #%d is repeated, the same answer, executes", i, w.claim)
		m.do(progress, blind, execute, "w%d: starts #%d unchecked", i, w.claim)
		m.do(progress, !first && !again && !blind, func(n *state) { n.w[i] = slot{phase: settled, claim: w.claim, old: w.old} }, "w%d: start of #%d is refused", i, w.claim)
	}
	m.do(fault, !m.has(bothTransports) && w.mine, func(n *state) { n.w[i] = slot{} }, "w%d: has no answer before its lease is over, gives #%d up", i, w.claim)
	m.do(fault, w.phase == got || !m.has(nakUnsent), func(n *state) { n.requeue(w.claim); n.w[i] = slot{} }, "w%d: drains, gives message #%d back", i, w.claim)
	m.do(fault, w.phase == asked, func(n *state) { n.w[i].phase = releasing }, "w%d: drains without an answer for #%d", i, w.claim)
}

// arrives lets a start arrive that its worker no longer waits for.
func (m *mover) arrives(i uint8) {
	w := m.w[i]
	first, _ := m.mayStart(w)
	m.do(fault, w.late && first, func(n *state) { m.record(n, i); n.w[i].late = false }, "the delayed start of #%d by w%d arrives", w.claim, i)
}

func (m *mover) releases(i uint8) {
	w := m.w[i]
	m.arrives(i)
	current := m.open() && m.claim == w.claim
	takes := current && (m.run == claimed && m.has(releaseUnstarted) || m.run == running && (w.mine || !m.has(releaseToken)))
	take := func(n *state) {
		if n.run == running {
			m.giveBack(n)
			return
		}
		n.back(m.config, !m.has(chargeAtStart))
	}
	answered := func(n *state) {
		n.w[i] = slot{phase: settled, claim: w.claim, late: w.late, mine: w.mine, old: w.old}
	}
	m.do(progress, takes, func(n *state) { take(n); answered(n) }, "w%d: release of #%d is recorded", i, w.claim)
	m.do(fault, takes, take, "w%d: release of #%d is recorded, the reply is LOST", i, w.claim)
	m.do(progress, !takes, answered, "w%d: release of #%d is refused or a repeat", i, w.claim)
}

// giveBack ends a started claim and refunds its attempt.
func (m *mover) giveBack(n *state) {
	if m.has(refund) {
		n.attempt--
	}
	n.back(m.config, !m.has(refund))
}

func (m *mover) executes(i uint8) {
	w := m.w[i]
	mine := m.open() && m.claim == w.claim && w.mine
	quit := func(n *state) { n.w[i] = slot{} }
	become := func(p slotPhase) func(*state) { return func(n *state) { n.w[i].phase = p } }
	if !m.crashing {
		m.do(progress, true, become(hasSucceeded), "w%d: the handler of #%d succeeds", i, w.claim)
		m.do(progress, true, become(hasFailed), "w%d: the handler of #%d fails", i, w.claim)
		m.do(progress, true, become(drained), "w%d: the handler of #%d is drained", i, w.claim)
		m.do(progress, mine && m.cancel, become(stopped), "w%d: a heartbeat of #%d says cancel, the handler stops", i, w.claim)
	}
	m.do(progress, !mine || m.lapsed, quit, "w%d: a heartbeat of #%d is refused, stops and says nothing", i, w.claim)
	m.do(fault, m.timed, quit, "w%d: cannot renew #%d, stops by its own clock", i, w.claim)
}

// reports writes an outcome, fenced, and has the reply.
func (m *mover) reports(i uint8, op string, write func(*state)) {
	w := m.w[i]
	current := m.open() && m.claim == w.claim
	known := w.done && m.has(recorded)
	takes := !known && (current && m.run == running || !m.has(outcomeFence))
	answered := func(n *state) { n.w[i] = slot{phase: settled, claim: w.claim, old: w.old} }
	take := func(n *state) { n.w[i].done = true; write(n); n.wrong(!current, stale) }
	m.do(progress, known, answered, "w%d: "+op+" of #%d is a repeat, answered from the stream", i, w.claim)
	m.do(progress, takes, func(n *state) { take(n); answered(n) }, "w%d: "+op+" of #%d is recorded", i, w.claim)
	m.do(fault, takes, take, "w%d: "+op+" of #%d is recorded, the reply is LOST", i, w.claim)
	m.do(progress, !known && !takes, func(n *state) { n.wrong(w.done, untruth); answered(n) }, "w%d: "+op+" of #%d is refused", i, w.claim)
}

func (m *mover) settles(i uint8) {
	w := m.w[i]
	m.arrives(i)
	for id := uint8(1); id <= ids; id++ {
		m.do(fault, w.old && (m.of[id].waiting || m.of[id].flying), func(n *state) { n.w[i] = slot{}; n.drop(id) },
			"w%d: its ack, of the old stream, hits message #%d of the new one", i, id)
	}
	m.do(progress, true, func(n *state) {
		n.w[i] = slot{}
		if !w.old {
			n.drop(w.claim)
		}
	}, "w%d: acks #%d", i, w.claim)
}
