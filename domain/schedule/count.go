package schedule

import "slices"

// count returns the number of hits in [lo, hi], within the schedule's bounds.
func (c *cursor) count(lo, hi int64) int {
	s := c.s
	lo, hi = max(lo, s.lo), min(hi, s.hi)
	if lo > hi {
		return 0
	}
	switch s.class {
	case ClassInstant:
		if _, ok := c.instant(lo, hi); ok {
			return 1
		}
		return 0
	case ClassInterval:
		return s.ticks(lo, hi) - c.skippedTicks(lo, hi)
	}
	n := 0
	for t := lo; t <= hi; {
		p := c.page(t)
		n += s.countOn(p, t, min(hi, p.to-1))
		t = p.to
	}
	return n
}

// countOn counts the hits of a page in [lo, hi].
func (s *Schedule) countOn(p *page, lo, hi int64) int {
	list := s.segments(p)
	n := 0
	for i := reaching(list, lo); i < len(list) && list[i].begin() <= hi; i++ {
		g := &list[i]
		a, b := max(g.a, lo+int64(g.off)), min(g.b, hi+1+int64(g.off))
		if g.shift == 0 {
			n += s.cron.count(a, b)
			continue
		}
		// A gap is short: look at each moved label, and leave out those that
		// land on a fire which is counted elsewhere.
		for u, ok := s.cron.ceil(a, b); ok; u, ok = s.cron.ceil(u+minute, b) {
			if !s.skip.has(floorDiv(u+int64(g.shift), day)) && !s.named(list, i, u-int64(g.off)) {
				n++
			}
		}
	}
	return n
}

// named reports whether a segment other than i, and of higher precedence,
// fires at instant t.
func (s *Schedule) named(list []segment, i int, t int64) bool {
	for j := reaching(list, t); j < len(list) && list[j].begin() <= t; j++ {
		g := &list[j]
		if j == i || t >= g.end() || g.shift != 0 && j > i {
			continue
		}
		u := t + int64(g.off)
		if s.cron.matches(u) && (g.shift == 0 || !s.skip.has(floorDiv(u+int64(g.shift), day))) {
			return true
		}
	}
	return false
}

// skippedTicks counts the instants of an interval schedule in [lo, hi] that
// fall on excluded dates.
func (c *cursor) skippedTicks(lo, hi int64) int {
	if c.s.skip == nil {
		return 0
	}
	const reach = 27 * hour // no offset is larger
	n := 0
	days := c.s.skip.days
	i, _ := slices.BinarySearch(days, floorDiv(lo-reach, day))
	for ; i < len(days) && days[i]*day <= hi+reach; i++ {
		from, to := days[i]*day, (days[i]+1)*day
		for t := max(from-reach, lo); t <= min(to+reach, hi); {
			g := c.page(t).reading(t)
			a, b := max(from-int64(g.off), t), min(to-int64(g.off), g.end(), hi+1)
			n += c.s.ticks(a, b-1)
			t = g.end()
		}
	}
	return n
}
