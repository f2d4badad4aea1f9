package schedule

import "math/bits"

// ceil returns the first matching label in [lo, end).
func (c *cron) ceil(lo, end int64) (int64, bool) {
	m := ceilDiv(lo, minute)
	d := floorDiv(m, 1440)
	lastDay := floorDiv(end-1, day)
	if d > lastDay {
		return 0, false
	}
	y, mo, dom := dateOf(d)
	first := d - int64(dom) + 1
	mask := c.days(y, mo, first)
	if mask>>dom&1 != 0 {
		if t, ok := c.timeFrom(int(m - d*1440)); ok {
			u := d*day + int64(t)*minute
			return u, u < end
		}
	}
	opening, _ := c.timeFrom(0)
	mask &^= 2<<dom - 1
	for mask == 0 {
		y, mo = c.nextMonth(y, mo)
		if first = dayOf(y, mo, 1); first > lastDay {
			return 0, false
		}
		mask = c.days(y, mo, first)
	}
	u := (first+int64(bits.TrailingZeros32(mask))-1)*day + int64(opening)*minute
	return u, u < end
}

// floor returns the last matching label in [begin, hi].
func (c *cron) floor(hi, begin int64) (int64, bool) {
	m := floorDiv(hi, minute)
	d := floorDiv(m, 1440)
	firstDay := floorDiv(begin, day)
	if d < firstDay {
		return 0, false
	}
	y, mo, dom := dateOf(d)
	first := d - int64(dom) + 1
	mask := c.days(y, mo, first)
	if mask>>dom&1 != 0 {
		if t, ok := c.timeUpTo(int(m - d*1440)); ok {
			u := d*day + int64(t)*minute
			return u, u >= begin
		}
	}
	closing, _ := c.timeUpTo(1439)
	mask &= 1<<dom - 1
	for mask == 0 {
		if first <= firstDay {
			return 0, false
		}
		y, mo = c.prevMonth(y, mo)
		first = dayOf(y, mo, 1)
		mask = c.days(y, mo, first)
	}
	u := (first+int64(bits.Len32(mask))-2)*day + int64(closing)*minute
	return u, u >= begin
}

// count returns the number of matching labels in [a, b).
func (c *cron) count(a, b int64) int {
	if a >= b {
		return 0
	}
	return c.before(b) - c.before(a) + c.wholeDays(floorDiv(ceilDiv(a, minute), 1440), floorDiv(ceilDiv(b, minute), 1440))
}

// before counts the matching labels of u's day that lie before u.
func (c *cron) before(u int64) int {
	m := ceilDiv(u, minute)
	d := floorDiv(m, 1440)
	y, mo, dom := dateOf(d)
	if c.days(y, mo, d-int64(dom)+1)>>dom&1 == 0 {
		return 0
	}
	return c.timesBefore(int(m - d*1440))
}

// wholeDays counts the matching labels of the days from, …, to-1.
func (c *cron) wholeDays(from, to int64) int {
	if from >= to {
		return 0
	}
	y, mo, dom := dateOf(from)
	first := from - int64(dom) + 1
	mask := c.days(y, mo, first) &^ (1<<dom - 1)
	n := 0
	for {
		if end := to - first; end < 31 {
			mask &= 2<<end - 1 // day numbers start at 1: the last one wanted is to-first
		}
		n += bits.OnesCount32(mask)
		y, mo = c.nextMonth(y, mo)
		if first = dayOf(y, mo, 1); first >= to {
			return n * c.perDay()
		}
		mask = c.days(y, mo, first)
	}
}

func (c *cron) perDay() int { return bits.OnesCount32(c.hour) * bits.OnesCount64(c.minute) }
