package explorer

// canon forgets what can matter no more, and packs the state into a key that is
// the same for all renamings of claim ids and slots.
func (c *config) canon(s *state) uint64 {
	unstarted := s.run == claimed && !s.lapsed
	s.wiped = s.wiped && unstarted
	for id := range s.of {
		m := &s.of[id]
		current := uint8(id) == s.claim && unstarted
		m.known = m.known && (m.row || m.mem || !c.has(idPerClaim) || current) // else nobody publishes it again
		switch {
		case !m.waiting && !m.flying:
			m.left = 0
		case !current:
			m.left = min(m.left, 1) // every further delivery is refused
		}
	}
	for i := range s.w {
		w := &s.w[i]
		w.mine = w.mine && s.open() && w.claim == s.claim
		w.late = w.late && unstarted && w.claim == s.claim
		w.lost = w.lost && w.phase <= executing
	}
	best := ^uint64(0)
	for _, name := range [2][ids + 1]uint64{{0, 1, 2}, {0, 2, 1}} {
		if name[1] == 2 && !c.has(idPerClaim) {
			break
		}
		best = min(best, s.pack(name, 0), s.pack(name, 1))
	}
	return best
}

// pack writes ids by their new names, and slot first before the other.
func (s *state) pack(name [ids + 1]uint64, first int) uint64 {
	k := bits(s.lapsed, s.cancel, s.wiped, s.just)
	k = k<<3 | uint64(s.run)
	k = k<<2 | uint64(s.attempt&3)
	k = k<<2 | uint64(s.real&3)
	k = k<<2 | name[s.claim]
	k = k<<2 | name[s.seen]
	for _, w := range [2]*slot{&s.w[first], &s.w[1-first]} {
		k = k<<4 | uint64(w.phase)
		k = k<<2 | name[w.claim]
		k = k<<5 | bits(w.mine, w.done, w.late, w.lost, w.old)
	}
	for id := 1; id <= ids; id++ {
		m := &s.of[name[id]] // the two renamings are their own inverses
		k = k<<5 | bits(m.row, m.mem, m.known, m.waiting, m.flying)
		k = k<<2 | uint64(m.left)
	}
	return k
}

func bits(all ...bool) (k uint64) {
	for _, b := range all {
		k <<= 1
		if b {
			k |= 1
		}
	}
	return k
}
