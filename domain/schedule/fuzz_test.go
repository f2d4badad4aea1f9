package schedule

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzParse: whatever is written, Parse answers soon and either gives a
// schedule that has a fire or says what is wrong.
func FuzzParse(f *testing.F) {
	var cases []struct{ Expr string }
	readJSON(f, "schedule_syntax.json", &cases)
	for _, c := range cases {
		f.Add(c.Expr, "UTC")
	}
	for _, zone := range []string{"America/New_York", "EST5PDT", "utc", "+05:00", "Local", "right/Europe/Berlin", "Europe/../etc", "new york"} {
		f.Add("0 9 * * *", zone)
	}
	f.Add("0 0 L-30,LW,31W,1-5/2 NOV-FEB +MON#5,SUNL,7", "")
	f.Add("@at 2027-01-01T00:00:00.000001+05:30", "")
	now := time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, expr, zone string) {
		s, err := Parse(expr, Options{Zone: zone})
		if err != nil {
			checkError(t, err)
			s, err = Parse(expr, Options{})
		}
		if err != nil {
			checkError(t, err)
			return
		}
		if s.Describe() == "" {
			t.Error("no description")
		}
		s.Warnings(now)
		if p := s.Preview(now, time.Time{}, 3); len(p.Fires) == 0 && s.Class() != ClassInstant {
			t.Errorf("%q never fires", expr)
		}
		if s.Class() == ClassWall || s.Class() == ClassElapsed {
			if _, ok := s.Prev(now); !ok {
				t.Errorf("%q never fired", expr)
			}
		}
	})
}

func checkError(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%T is not an *Error", err)
	}
	if e.Code == "" || e.Field == "" || e.Message == "" || len(e.Value) > 80 || !utf8.ValidString(e.Error()) {
		t.Fatalf("poor error: %+v", e)
	}
}

var fuzzZones = []string{"UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "America/Nuuk",
	"Pacific/Apia", "Africa/Casablanca", "Africa/Cairo", "America/Havana", "Asia/Pyongyang", "Africa/Monrovia", "America/Sao_Paulo", "Pacific/Kwajalein"}

// FuzzNext checks the properties that callers rely on, for any expression that
// parses, any zone, range, bounds and excluded dates.
func FuzzNext(f *testing.F) {
	for i, expr := range []string{"30 2 * * *", "*/15 * * * *", "0 0 29 2 *", "@every 90m", "0,30 2,3 * * *", "0 0 * 2 MON#5", "@at 2026-03-08T07:30:00Z", "@every 7s"} {
		f.Add(expr, "30 3 * * *", uint8(i), int64(1772866800), uint32(86400*3), uint64(i))
	}
	f.Add("0 9 30 * *", "@every 24h", uint8(6), int64(1325203200), uint32(86400*5), uint64(9))
	f.Fuzz(func(t *testing.T, expr, other string, zone uint8, at int64, length uint32, seed uint64) {
		at = earliest + (at%(latest-earliest)+latest-earliest)%(latest-earliest)
		r := rand.New(rand.NewPCG(seed, 1))
		o := Options{Zone: fuzzZones[int(zone)%len(fuzzZones)]}
		span := int64(length % (90 * day))
		a := time.Unix(at, r.Int64N(3)).UTC()
		c := time.Unix(min(at+span, latest), r.Int64N(3)).UTC()
		b := a.Add(time.Duration(r.Int64N(span+1)) * time.Second)
		if b.After(c) {
			b = c
		}
		if r.IntN(3) == 0 {
			o.Start = a.Add(time.Duration(r.IntN(90000)) * 1001 * time.Millisecond)
		}
		if r.IntN(3) == 0 {
			o.End = c.Add(-time.Duration(r.IntN(90000)) * time.Second)
		}
		if !o.Start.IsZero() && !o.End.IsZero() && !o.Start.Before(o.End) {
			o.End = time.Time{}
		}
		plain := o // without excluded dates
		for range r.IntN(5) {
			d := a.AddDate(0, 0, r.IntN(20)-1)
			if x := (Date{d.Year(), d.Month(), d.Day()}); x.valid() {
				o.Exclude = append(o.Exclude, x)
			}
		}
		exprs := []string{expr}
		if r.IntN(2) == 0 {
			exprs = append(exprs, other)
		}
		set, err := ParseSet(exprs, o)
		if err != nil {
			checkError(t, err)
			return
		}
		all, err := ParseSet(exprs, plain)
		if err != nil {
			t.Fatal(err)
		}
		checkProperties(t, set, a, b, c)
		checkExcluded(t, set, all, o, a, c)
	})
}

// take collects at most n fires in (after, until], and where it stopped.
func take(s *Set, after, until time.Time, n int) ([]Fire, time.Time) {
	var out []Fire
	for f := range s.Between(after, until) {
		if out = append(out, f); len(out) == n {
			return out, f.At
		}
	}
	return out, until
}

func checkProperties(t *testing.T, s *Set, a, b, c time.Time) {
	t.Helper()
	const most = 400
	fires, end := take(s, a, c, most)
	at := a
	for i, f := range fires {
		next, ok := s.Next(at)
		if !ok || next != f || !next.At.After(at) {
			t.Fatalf("Next(%v) = %v %v, Between gave %v", at, next, ok, f)
		}
		if mid := at.Add(f.At.Sub(at) / 2); mid.Before(f.At) {
			if again, _ := s.Next(mid); again != f {
				t.Fatalf("Next(%v) = %v, Next(%v) = %v", at, f, mid, again)
			}
		}
		prev, ok := s.Prev(f.At.Add(1))
		if !ok || prev != f {
			t.Fatalf("Prev after %v = %v %v", f, prev, ok)
		}
		if i > 0 {
			if prev, ok := s.Prev(f.At); !ok || prev != fires[i-1] {
				t.Fatalf("Prev(%v) = %v %v, want %v", f.At, prev, ok, fires[i-1])
			}
		}
		at = f.At
	}
	if n := s.Count(a, end); n != len(fires) {
		t.Fatalf("Count(%v, %v) = %d, Between gave %d", a, end, n, len(fires))
	}
	if b.After(end) {
		b = end
	}
	first, _ := take(s, a, b, most)
	second, _ := take(s, b, end, most)
	if !slices.Equal(append(first, second...), fires) {
		t.Fatalf("the fires of (%v, %v] differ when split at %v", a, end, b)
	}
	if n := s.Count(a, b) + s.Count(b, end); n != len(fires) {
		t.Fatalf("counts around %v add up to %d, want %d", b, n, len(fires))
	}
}

// checkExcluded compares with the same set without excluded dates, filtered.
func checkExcluded(t *testing.T, set, all *Set, o Options, a, c time.Time) {
	t.Helper()
	if len(set.parts) > 1 || len(o.Exclude) == 0 {
		return
	}
	fires, end := take(all, a, c, 400)
	loc := set.parts[0].zone.loc
	var want []Fire
	for _, f := range fires {
		y, m, d := f.At.In(loc).Date()
		nominal, err := ParseDate(f.Nominal[:len("2006-01-02")])
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(o.Exclude, Date{y, m, d}) && !slices.Contains(o.Exclude, nominal) {
			want = append(want, f)
		}
	}
	got, _ := take(set, a, end, 400)
	// A moved fire may carry the name of another one once that is excluded.
	same := slices.EqualFunc(got, want, func(x, y Fire) bool { return x.At.Equal(y.At) })
	if !same {
		t.Fatalf("excluding %v in %s from %v: got %v, want %v", o.Exclude, o.Zone, fires, got, want)
	}
}

// FuzzOddZones is TestOddZones without an end.
func FuzzOddZones(f *testing.F) {
	f.Add(uint64(1), int64(pageOrigin+pageSpan))
	f.Fuzz(func(t *testing.T, seed uint64, around int64) {
		const reach = 1 << 30 // made-up zones have 32-bit instants
		oddZone(t, rand.New(rand.NewPCG(seed, 11)), around%reach)
	})
}
