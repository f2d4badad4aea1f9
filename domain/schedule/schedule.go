package schedule

import (
	"fmt"
	"iter"
	"time"
)

// Limits on what is accepted.
const (
	MaxLength      = 256 // bytes of one expression
	MaxExpressions = 64  // expressions of one Set
)

// Class says how a schedule follows the clock. See the package comment.
type Class string

// The classes.
const (
	ClassWall     Class = "wall"
	ClassElapsed  Class = "elapsed"
	ClassInterval Class = "interval"
	ClassInstant  Class = "instant"
)

// Options are what a schedule needs besides its expression. The zero value is
// UTC without bounds.
type Options struct {
	// Zone is an IANA time zone name; empty means UTC.
	Zone string
	// Start is the first instant at which the schedule may fire, inclusive. It
	// is also the anchor of "@every", which is the Unix epoch when Start is zero.
	Start time.Time
	// End is the instant from which on the schedule does not fire, exclusive.
	End time.Time
	// Exclude holds dates in Zone on which nothing fires. A fire is left out
	// when the date the clock shows, or the date of its nominal time, is one.
	Exclude []Date
	// LoadZone finds a time zone; nil means [time.LoadLocation]. Zones found
	// by the default are kept for the life of the process.
	LoadZone func(name string) (*time.Location, error)
}

// Fire is one due instant.
type Fire struct {
	// At is the instant, in UTC.
	At time.Time
	// Nominal is the civil time that the schedule names, as 2026-03-08T02:30,
	// with seconds only where there are any. For intervals and instants it is
	// what the clock shows.
	Nominal string
	// Shift is how much later than Nominal the clock is at At: the length of the
	// gap that the fire was moved out of, otherwise 0.
	Shift time.Duration
	// Fold is 0 when the clock shows Nominal one time, else 1 for the first and
	// 2 for the second time.
	Fold uint8
}

// Schedule is one parsed expression in its zone.
type Schedule struct {
	expr   string
	class  Class
	zone   *zone
	cron   cron  // wall and elapsed
	every  int64 // interval, seconds
	anchor int64 // interval and instant, seconds
	frac   int32 // nanoseconds within the second of every fire
	lo, hi int64 // first and last second that may fire
	start  time.Time
	end    time.Time
	skip   *exclusion
}

// Parse reads an expression. The error is an *Error.
func Parse(expr string, o Options) (*Schedule, error) {
	e, err := newEnv(o)
	if err != nil {
		return nil, err
	}
	return e.parse(expr)
}

// env is what the expressions of one job share.
type env struct {
	zone       *zone
	skip       *exclusion
	start, end time.Time
}

func newEnv(o Options) (*env, error) {
	z, err := loadZone(o.Zone, o.LoadZone)
	if err != nil {
		return nil, err
	}
	skip, err := newExclusion(o.Exclude)
	if err != nil {
		return nil, err
	}
	if !o.Start.IsZero() && !o.End.IsZero() && !o.Start.Before(o.End) {
		end := o.End.UTC().Format(time.RFC3339Nano)
		return nil, &Error{Code: CodeBounds, Field: fieldEnd, Value: end, Offset: -1,
			Message: fmt.Sprintf("end_at: %s is not after start_at %s", end, o.Start.UTC().Format(time.RFC3339Nano))}
	}
	return &env{zone: z, skip: skip, start: o.Start, end: o.End}, nil
}

func (e *env) parse(expr string) (*Schedule, error) {
	s := &Schedule{expr: expr, zone: e.zone, skip: e.skip, start: e.start, end: e.end}
	if err := s.parse(); err != nil {
		return nil, err
	}
	s.cron.skip = e.skip
	s.lo, s.hi = earliest, latest
	if !e.start.IsZero() {
		s.lo = max(s.lo, s.atOrAfter(e.start))
	}
	if !e.end.IsZero() {
		s.hi = min(s.hi, s.before(e.end))
	}
	return s, nil
}

// The fires of a schedule all have the same fraction of a second. These turn
// an instant into the first or last second whose fire lies on the wanted side.

func (s *Schedule) atOrAfter(t time.Time) int64 {
	if t.Nanosecond() > int(s.frac) {
		return second(t) + 1
	}
	return second(t)
}

func (s *Schedule) after(t time.Time) int64 {
	if t.Nanosecond() >= int(s.frac) {
		return second(t) + 1
	}
	return second(t)
}

func (s *Schedule) before(t time.Time) int64 { return s.atOrAfter(t) - 1 }
func (s *Schedule) upTo(t time.Time) int64   { return s.after(t) - 1 }

// second keeps arithmetic on the instants of absurd times from overflowing.
func second(t time.Time) int64 { return min(max(t.Unix(), earliest-day), latest+day) }

func (s *Schedule) fire(h hit) Fire {
	return Fire{
		At:      time.Unix(h.sec, int64(s.frac)).UTC(),
		Nominal: formatLabel(h.label, s.frac),
		Shift:   time.Duration(h.shift) * time.Second,
		Fold:    h.fold,
	}
}

// Expr returns the expression as it was written.
func (s *Schedule) Expr() string { return s.expr }

// Zone returns the time zone name as it was written, UTC when it was empty.
func (s *Schedule) Zone() string { return s.zone.name }

// Class returns how the schedule follows the clock.
func (s *Schedule) Class() Class { return s.class }

// Next returns the first fire strictly after an instant. It reports false when
// there is none before the end of the schedule or of the year 9999.
func (s *Schedule) Next(after time.Time) (Fire, bool) {
	c := cursor{s: s}
	h, ok := c.next(s.after(after))
	if !ok {
		return Fire{}, false
	}
	return s.fire(h), true
}

// Prev returns the last fire strictly before an instant. It reports false when
// there is none since the start of the schedule or of the year 1.
func (s *Schedule) Prev(before time.Time) (Fire, bool) {
	c := cursor{s: s}
	h, ok := c.prev(s.before(before))
	if !ok {
		return Fire{}, false
	}
	return s.fire(h), true
}

// Between returns the fires in (after, until], in order.
func (s *Schedule) Between(after, until time.Time) iter.Seq[Fire] {
	return func(yield func(Fire) bool) {
		c := cursor{s: s}
		last := s.upTo(until)
		for h, ok := c.next(s.after(after)); ok && h.sec <= last; h, ok = c.next(h.sec + 1) {
			if !yield(s.fire(h)) {
				return
			}
		}
	}
}

// Count returns the number of fires in (after, until]. Its cost grows with the
// number of months, not of fires; for an interval it is constant, plus the
// excluded dates in the range.
func (s *Schedule) Count(after, until time.Time) int {
	c := cursor{s: s}
	return c.count(s.after(after), s.upTo(until))
}
