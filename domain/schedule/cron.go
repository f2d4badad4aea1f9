package schedule

import "math/bits"

// cron is a parsed five-field expression as bit sets: bit n of a field means
// the value n. A minute or hour is never empty.
type cron struct {
	minute uint64
	hour   uint32
	month  uint32 // bits 1-12
	dom    domSet
	dow    dowSet
	and    bool // both day fields must match; otherwise either
	skip   *exclusion
}

// domSet holds what a day-of-month field can say.
type domSet struct {
	star        bool   // starts with * or is ?
	days        uint32 // bits 1-31
	last        uint32 // bit n: L-n, bit 0: L
	nearest     uint32 // bit n: nW
	lastWeekday bool   // LW
}

// dowSet holds what a day-of-week field can say. Bit 0 is Sunday.
type dowSet struct {
	star bool
	days uint32
	nth  [6]uint32 // nth[k]: days given as d#k, k 1-5
	last uint32    // dL
}

const (
	everyMinute = 1<<60 - 1
	everyHour   = 1<<24 - 1
	everyMonth  = 1<<13 - 2
	everyDom    = 1<<32 - 2
	everyDow    = 1<<7 - 1
)

// elapsed reports whether the hours cover the day, which decides the class.
func (c *cron) elapsed() bool { return c.hour == everyHour }

// shape returns the matching days of a month that has n days and begins on
// weekday first, as bits 1-31. Months of one shape match alike.
func (c *cron) shape(n, first int) uint32 {
	whole := uint32(1)<<(n+1) - 2
	d, w := c.dom.mask(n, first), c.dow.mask(n, first)
	if c.and {
		return d & w & whole
	}
	return (d | w) & whole
}

func (s *domSet) mask(n, first int) uint32 {
	m := s.days
	for l := s.last; l != 0; l &= l - 1 {
		if d := n - bits.TrailingZeros32(l); d >= 1 {
			m |= 1 << d
		}
	}
	for l := s.nearest; l != 0; l &= l - 1 {
		if d := bits.TrailingZeros32(l); d <= n {
			m |= 1 << nearestWeekday(d, n, first)
		}
	}
	if s.lastWeekday {
		m |= 1 << nearestWeekday(n, n, first)
	}
	return m
}

// nearestWeekday moves a Saturday or Sunday to the nearest Monday to Friday of
// the same month.
func nearestWeekday(d, n, first int) int {
	switch (first + d - 1) % 7 {
	case 6:
		if d == 1 {
			return 3
		}
		return d - 1
	case 0:
		if d == n {
			return d - 2
		}
		return d + 1
	}
	return d
}

func (s *dowSet) mask(n, first int) uint32 {
	m := spread(s.days, first)
	for k := 1; k <= 5; k++ {
		if s.nth[k] != 0 {
			week := uint32(0x7F) << (7*k - 6) // days 7k-6 to 7k
			m |= spread(s.nth[k], first) & week
		}
	}
	if s.last != 0 {
		m |= spread(s.last, first) & (uint32(0x7F) << (n - 6))
	}
	return m
}

// spread repeats a week's bits over a month that begins on weekday first.
func spread(week uint32, first int) uint32 {
	week = (week>>first | week<<(7-first)) & 0x7F
	return uint32((uint64(week) * 0x10204081) << 1)
}

// days returns the matching days of a month, or 0 when the month is not named.
func (c *cron) days(year, month int, firstDay int64) uint32 {
	if c.month>>month&1 == 0 {
		return 0
	}
	m := c.shape(monthLength(leap(year), month), weekdayOf(firstDay))
	if c.skip != nil {
		m &^= c.skip.mask(year, month)
	}
	return m
}

// nextMonth returns the first named month after the given one.
func (c *cron) nextMonth(year, month int) (int, int) {
	if m := c.month >> (month + 1) << (month + 1); m != 0 {
		return year, bits.TrailingZeros32(m)
	}
	return year + 1, bits.TrailingZeros32(c.month)
}

// prevMonth returns the last named month before the given one.
func (c *cron) prevMonth(year, month int) (int, int) {
	if m := c.month & (1<<month - 1); m != 0 {
		return year, bits.Len32(m) - 1
	}
	return year - 1, bits.Len32(c.month) - 1
}

// timeFrom returns the first matching minute of the day at or after m.
func (c *cron) timeFrom(m int) (int, bool) {
	h := m / 60
	if c.hour>>h&1 != 0 {
		if rest := c.minute >> (m % 60); rest != 0 {
			return m + bits.TrailingZeros64(rest), true
		}
	}
	if later := c.hour >> (h + 1) << (h + 1); later != 0 {
		return bits.TrailingZeros32(later)*60 + bits.TrailingZeros64(c.minute), true
	}
	return 0, false
}

// timeUpTo returns the last matching minute of the day at or before m.
func (c *cron) timeUpTo(m int) (int, bool) {
	h := m / 60
	if c.hour>>h&1 != 0 {
		if rest := c.minute & (2<<(m%60) - 1); rest != 0 {
			return h*60 + bits.Len64(rest) - 1, true
		}
	}
	if earlier := c.hour & (1<<h - 1); earlier != 0 {
		return (bits.Len32(earlier)-1)*60 + bits.Len64(c.minute) - 1, true
	}
	return 0, false
}

// timesBefore counts the matching minutes of the day before m, 0-1440.
func (c *cron) timesBefore(m int) int {
	h := m / 60
	n := bits.OnesCount32(c.hour&(1<<h-1)) * bits.OnesCount64(c.minute)
	if c.hour>>h&1 != 0 {
		n += bits.OnesCount64(c.minute & (1<<(m%60) - 1))
	}
	return n
}

// matches reports whether a label fires.
func (c *cron) matches(label int64) bool {
	u, ok := c.ceil(label, label+1)
	return ok && u == label
}
