package schedule

import (
	"errors"
	"fmt"
	"iter"
	"time"
)

// Set is the schedule of one job: one or more expressions in one zone, with
// shared bounds and excluded dates. An instant that several expressions name
// is one fire.
type Set struct {
	parts []*Schedule
}

// ParseSet reads the expressions of one job. The error is an *Error; with more
// than one expression it says which of them was refused.
func ParseSet(exprs []string, o Options) (*Set, error) {
	e, err := newEnv(o)
	if err != nil {
		return nil, err
	}
	switch n := len(exprs); {
	case n == 0:
		return nil, refuse(CodeEmpty, word{}, "the schedule has no expression", "write five fields such as `30 2 * * *`, or @daily")
	case n > MaxExpressions:
		return nil, refuse(CodeLength, word{}, fmt.Sprintf("%d expressions, at most %d are accepted", n, MaxExpressions), "")
	}
	set := &Set{parts: make([]*Schedule, len(exprs))}
	for i, expr := range exprs {
		s, err := e.parse(expr)
		if err != nil {
			if refused := (*Error)(nil); len(exprs) > 1 && errors.As(err, &refused) {
				refused.Index, refused.Expression = i, shorten(expr)
			}
			return nil, err
		}
		set.parts[i] = s
	}
	return set, nil
}

// Schedules returns the parts of the set, in the order they were given. The
// slice is a copy.
func (s *Set) Schedules() []*Schedule { return append([]*Schedule(nil), s.parts...) }

// Zone returns the time zone name as it was written, UTC when it was empty.
func (s *Set) Zone() string { return s.parts[0].Zone() }

// Next returns the first fire strictly after an instant. It reports false when
// there is none before the end of the schedule or of the year 9999.
func (s *Set) Next(after time.Time) (Fire, bool) {
	best, found := pick{}, false
	for _, p := range s.parts {
		c := cursor{s: p}
		if h, ok := c.next(p.after(after)); ok {
			if x := (pick{p, h}); !found || x.less(best) {
				best, found = x, true
			}
		}
	}
	return best.fire(found)
}

// Prev returns the last fire strictly before an instant. It reports false when
// there is none since the start of the schedule or of the year 1.
func (s *Set) Prev(before time.Time) (Fire, bool) {
	best, found := pick{}, false
	for _, p := range s.parts {
		c := cursor{s: p}
		if h, ok := c.prev(p.before(before)); ok {
			x := pick{p, h}
			if d := x.compare(best); !found || d > 0 || d == 0 && x.less(best) {
				best, found = x, true
			}
		}
	}
	return best.fire(found)
}

// Between returns the fires in (after, until], in order.
func (s *Set) Between(after, until time.Time) iter.Seq[Fire] {
	if len(s.parts) == 1 {
		return s.parts[0].Between(after, until)
	}
	return func(yield func(Fire) bool) {
		for x := range s.merged(after, until) {
			if f, _ := x.fire(true); !yield(f) {
				return
			}
		}
	}
}

// Count returns the number of fires in (after, until]. With one expression see
// [Schedule.Count]; with several, the cost grows with the number of fires.
func (s *Set) Count(after, until time.Time) int {
	if len(s.parts) == 1 {
		return s.parts[0].Count(after, until)
	}
	n := 0
	for range s.merged(after, until) {
		n++
	}
	return n
}

// pick is a hit of one part of a set.
type pick struct {
	s *Schedule
	h hit
}

// compare orders by instant.
func (x pick) compare(y pick) int {
	if y.s == nil {
		return 0
	}
	switch {
	case x.h.sec != y.h.sec:
		return int(min(max(x.h.sec-y.h.sec, -1), 1))
	default:
		return int(x.s.frac - y.s.frac)
	}
}

// less orders by instant, and on one instant puts first the civil time that
// the clock shows.
func (x pick) less(y pick) bool {
	if d := x.compare(y); d != 0 {
		return d < 0
	}
	return x.h.shift == 0 && y.h.shift != 0
}

func (x pick) fire(found bool) (Fire, bool) {
	if !found {
		return Fire{}, false
	}
	return x.s.fire(x.h), true
}

// merged returns the distinct instants of all parts in (after, until].
func (s *Set) merged(after, until time.Time) iter.Seq[pick] {
	type head struct {
		c    cursor
		h    hit
		ok   bool
		last int64
	}
	return func(yield func(pick) bool) {
		heads := make([]head, len(s.parts))
		for i, p := range s.parts {
			x := &heads[i]
			x.c.s, x.last = p, p.upTo(until)
			x.h, x.ok = x.c.next(p.after(after))
			x.ok = x.ok && x.h.sec <= x.last
		}
		for {
			best, found := pick{}, false
			for i := range heads {
				if x := (pick{s.parts[i], heads[i].h}); heads[i].ok && (!found || x.less(best)) {
					best, found = x, true
				}
			}
			if !found {
				return
			}
			for i := range heads {
				x := &heads[i]
				if x.ok && best.compare(pick{s.parts[i], x.h}) == 0 {
					x.h, x.ok = x.c.next(x.h.sec + 1)
					x.ok = x.ok && x.h.sec <= x.last
				}
			}
			if !yield(best) {
				return
			}
		}
	}
}
