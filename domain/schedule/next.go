package schedule

import "sort"

// hit is a fire before it is dressed for the caller. sec is its instant in
// whole seconds; all fires of one schedule share a fraction.
type hit struct {
	sec   int64
	label int64
	shift int32
	fold  uint8
}

// cursor finds hits. It keeps the last page it used and belongs to one caller.
type cursor struct {
	s  *Schedule
	pg *page
}

func (c *cursor) page(t int64) *page {
	c.pg = c.s.zone.page(t, c.pg)
	return c.pg
}

// next returns the first hit at or after lo, within the schedule's bounds.
func (c *cursor) next(lo int64) (hit, bool) {
	s := c.s
	lo = max(lo, s.lo)
	if lo > s.hi {
		return hit{}, false
	}
	switch s.class {
	case ClassInterval:
		return c.nextInterval(lo)
	case ClassInstant:
		return c.instant(lo, s.hi)
	}
	for lo <= s.hi {
		p := c.page(lo)
		if h, ok := s.nextOn(p, lo); ok {
			return h, h.sec <= s.hi
		}
		lo = p.to
	}
	return hit{}, false
}

// prev returns the last hit at or before hi, within the schedule's bounds.
func (c *cursor) prev(hi int64) (hit, bool) {
	s := c.s
	hi = min(hi, s.hi)
	if hi < s.lo {
		return hit{}, false
	}
	switch s.class {
	case ClassInterval:
		return c.prevInterval(hi)
	case ClassInstant:
		return c.instant(s.lo, hi)
	}
	for hi >= s.lo {
		p := c.page(hi)
		if h, ok := s.prevOn(p, hi); ok {
			return h, h.sec >= s.lo
		}
		hi = p.from - 1
	}
	return hit{}, false
}

// segments returns those of the schedule's class.
func (s *Schedule) segments(p *page) []segment {
	if s.class == ClassElapsed {
		return p.elapsed
	}
	return p.wall
}

// nextOn returns the first hit of a page at or after lo. Segments may overlap
// where a gap's labels are moved onto labels that exist, so the search goes on
// until the next segment begins after the best hit; of two labels on one
// instant the one the clock shows is kept.
func (s *Schedule) nextOn(p *page, lo int64) (best hit, found bool) {
	list := s.segments(p)
	far := p.to + 2*day                  // later than any label of the page
	asked, answer := int64(0), int64(-1) // no label matches in [asked, answer)
	for i := reaching(list, lo); i < len(list); i++ {
		g := &list[i]
		if found && g.begin() > best.sec {
			break
		}
		a := max(g.a, lo+int64(g.off))
		if asked <= a && a <= answer {
			a = answer
		}
		for a < g.b {
			u, ok := s.cron.ceil(a, far)
			if !ok {
				u = far
			}
			asked, answer = a, u
			if u >= g.b {
				break
			}
			if g.shift != 0 && s.skip.has(floorDiv(u+int64(g.shift), day)) {
				a = u + minute
				continue
			}
			t := u - int64(g.off)
			if !found || t < best.sec || t == best.sec && g.shift == 0 {
				best, found = hit{t, u, g.shift, g.fold}, true
			}
			break
		}
	}
	return best, found
}

// prevOn is the mirror of nextOn.
func (s *Schedule) prevOn(p *page, hi int64) (best hit, found bool) {
	list := s.segments(p)
	after := sort.Search(len(list), func(i int) bool { return list[i].begin() > hi })
	for i := after - 1; i >= 0; i-- {
		g := &list[i]
		if found && g.reach <= best.sec {
			break
		}
		b := min(g.b-1, hi+int64(g.off))
		for b >= g.a {
			u, ok := s.cron.floor(b, g.a)
			if !ok {
				break
			}
			if g.shift != 0 && s.skip.has(floorDiv(u+int64(g.shift), day)) {
				b = u - 1
				continue
			}
			t := u - int64(g.off)
			if !found || t > best.sec || t == best.sec && g.shift == 0 {
				best, found = hit{t, u, g.shift, g.fold}, true
			}
			break
		}
	}
	return best, found
}
