package schedule

import (
	"testing"
	"time"

	"github.com/adhocore/gronx"
	"github.com/hashicorp/cronexpr"
	"github.com/robfig/cron/v3"

	"github.com/daybookhq/daybook/domain/schedule"
)

// nexter finds the first fire after an instant; false means none.
type nexter func(after time.Time) (time.Time, bool)

// libraries parse an expression in a zone, each in its own way.
var libraries = []struct {
	name  string
	parse func(expr string, loc *time.Location) (nexter, error)
}{
	{"daybook", func(expr string, loc *time.Location) (nexter, error) {
		s, err := schedule.Parse(expr, schedule.Options{Zone: loc.String()})
		if err != nil {
			return nil, err
		}
		return func(t time.Time) (time.Time, bool) {
			f, ok := s.Next(t)
			return f.At, ok
		}, nil
	}},
	{"robfig", func(expr string, loc *time.Location) (nexter, error) {
		s, err := cron.ParseStandard(expr)
		if err != nil {
			return nil, err
		}
		return func(t time.Time) (time.Time, bool) {
			n := s.Next(t.In(loc))
			return n, !n.IsZero()
		}, nil
	}},
	{"gronx", func(expr string, loc *time.Location) (nexter, error) {
		if !gronx.IsValid(expr) {
			return nil, errInvalid
		}
		return func(t time.Time) (time.Time, bool) {
			n, err := gronx.NextTickAfter(expr, t.In(loc), false)
			return n, err == nil
		}, nil
	}},
	{"hashicorp", func(expr string, loc *time.Location) (nexter, error) {
		e, err := cronexpr.Parse(expr)
		if err != nil {
			return nil, err
		}
		return func(t time.Time) (time.Time, bool) {
			n := e.Next(t.In(loc))
			return n, !n.IsZero()
		}, nil
	}},
}

var cases = []struct{ name, expr string }{
	{"quarter", "*/15 * * * *"},
	{"busy", "*/5 9-17 * * 1-5"},
	{"daily", "30 2 * * *"},
	{"monthly", "0 9 1 * *"},
	{"leapday", "0 0 29 2 *"},
}

var start = time.Date(2026, 3, 5, 12, 34, 56, 0, time.UTC)

func newYork(tb testing.TB) *time.Location {
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		tb.Fatal(err)
	}
	return loc
}

// BenchmarkNext steps from fire to fire, beginning again every 16 fires so
// that the years stay near.
func BenchmarkNext(b *testing.B) {
	loc := newYork(b)
	for _, c := range cases {
		for _, lib := range libraries {
			b.Run(c.name+"/"+lib.name, func(b *testing.B) {
				next, err := lib.parse(c.expr, loc)
				if err != nil {
					b.Skip(err)
				}
				b.ReportAllocs()
				at := start
				for i := 1; b.Loop(); i++ {
					n, ok := next(at)
					if at = n; !ok || i%16 == 0 {
						at = start
					}
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	loc := newYork(b)
	for _, c := range cases {
		for _, lib := range libraries {
			b.Run(c.name+"/"+lib.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := lib.parse(c.expr, loc); err != nil {
						b.Skip(err)
					}
				}
			})
		}
	}
}
