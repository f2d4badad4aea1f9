package schedule

// alignUp returns the first instant of an interval schedule at or after t.
func (s *Schedule) alignUp(t int64) int64 {
	return s.anchor + ceilDiv(t-s.anchor, s.every)*s.every
}

func (s *Schedule) alignDown(t int64) int64 {
	return s.anchor + floorDiv(t-s.anchor, s.every)*s.every
}

// ticks counts the instants of an interval schedule in [lo, hi].
func (s *Schedule) ticks(lo, hi int64) int {
	if lo > hi {
		return 0
	}
	return int(floorDiv(hi-s.anchor, s.every) - floorDiv(lo-1-s.anchor, s.every))
}

func (c *cursor) nextInterval(lo int64) (hit, bool) {
	s := c.s
	for {
		t := s.alignUp(lo)
		if t > s.hi {
			return hit{}, false
		}
		h, g := c.read(t)
		d := floorDiv(h.label, day)
		if !s.skip.has(d) {
			return h, true
		}
		lo = min(g.end(), (d+1)*day-int64(g.off)) // the clock leaves the date here
	}
}

func (c *cursor) prevInterval(hi int64) (hit, bool) {
	s := c.s
	for {
		t := s.alignDown(hi)
		if t < s.lo {
			return hit{}, false
		}
		h, g := c.read(t)
		d := floorDiv(h.label, day)
		if !s.skip.has(d) {
			return h, true
		}
		hi = max(g.begin(), d*day-int64(g.off)) - 1
	}
}

// instant returns the single fire of an @at schedule if it lies in [lo, hi].
func (c *cursor) instant(lo, hi int64) (hit, bool) {
	if c.s.anchor < lo || c.s.anchor > hi {
		return hit{}, false
	}
	h, _ := c.read(c.s.anchor)
	return h, !c.s.skip.has(floorDiv(h.label, day))
}

// read returns a hit at t with what the clock shows there.
func (c *cursor) read(t int64) (hit, segment) {
	g := c.page(t).reading(t)
	return hit{sec: t, label: t + int64(g.off), fold: g.fold}, g
}
