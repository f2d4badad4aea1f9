package explorer

// Progress is reachability: from every state there must be a way to the goal
// that takes only what happens by itself. With fair scheduling that is what
// "eventually" needs; the shallowest state without such a way is reported.
func (s *search) liveness() {
	if s.idle {
		return
	}
	byItself := [4]bool{progress: true}
	withTime := [4]bool{progress: true, passing: true}
	s.stuck(stuckClaim, byItself,
		func(t *state) bool { return t.run == running || t.terminal() },
		func(t *state) bool {
			// A message whose deliveries are used up is left to the lease, by design.
			m := t.of[t.claim]
			return t.run == claimed && !t.lapsed && !(m.left == 0 && (m.waiting || m.flying))
		})
	everywhere := func(*state) bool { return true }
	s.stuck(leak, withTime, func(t *state) bool {
		for _, m := range t.of {
			if m.row || m.waiting || m.flying {
				return false
			}
		}
		return true
	}, everywhere)
	s.stuck(lostRun, withTime, (*state).terminal, everywhere)
	if s.crashing {
		s.stuck(crashLoop, withTime, func(t *state) bool { return t.run >= failed }, everywhere)
	}
}

// stuck reports the shallowest state among those meant that cannot reach a goal
// by moves of the kinds.
func (s *search) stuck(what string, kinds [4]bool, goal, meant func(*state) bool) {
	if len(s.found) > 0 {
		return
	}
	into := make([][]uint32, len(s.states))
	reaches := make([]bool, len(s.states))
	var queue []uint32
	for from, moves := range s.next {
		for _, mv := range moves {
			if kinds[mv&3] {
				into[mv>>2] = append(into[mv>>2], uint32(from))
			}
		}
		if goal(&s.states[from]) {
			reaches[from] = true
			queue = append(queue, uint32(from))
		}
	}
	for len(queue) > 0 {
		to := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range into[to] {
			if !reaches[from] {
				reaches[from] = true
				queue = append(queue, from)
			}
		}
	}
	for h := range s.states {
		if !reaches[h] && meant(&s.states[h]) {
			s.report(uint32(h), what)
			return
		}
	}
}
