package schedule

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func mustSet(t testing.TB, o Options, exprs ...string) *Set {
	t.Helper()
	s, err := ParseSet(exprs, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func instants(s *Set, after, until string) []string {
	a, _ := time.Parse(time.RFC3339, after)
	u, _ := time.Parse(time.RFC3339, until)
	var out []string
	for f := range s.Between(a, u) {
		out = append(out, f.At.Format("01-02T15:04:05.999"))
	}
	return out
}

func TestSetMergesInstants(t *testing.T) {
	// Berlin is at +01:00: 12:00 there is 11:00Z, which three of four name.
	s := mustSet(t, Options{Zone: "Europe/Berlin"}, "0 12 * * *", "0 */6 * * *", "@at 2026-01-10T11:00:00Z", "@every 8h")
	a, b := "2026-01-10T00:00:00Z", "2026-01-11T00:00:00Z"
	want := []string{"01-10T05:00:00", "01-10T08:00:00", "01-10T11:00:00", "01-10T16:00:00", "01-10T17:00:00", "01-10T23:00:00", "01-11T00:00:00"}
	if got := instants(s, a, b); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	from, _ := time.Parse(time.RFC3339, a)
	if n := s.Count(from, from.AddDate(0, 0, 1)); n != len(want) {
		t.Errorf("Count = %d, want %d", n, len(want))
	}
}

func TestSetKeepsTheShownTime(t *testing.T) {
	at := time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC)
	for _, exprs := range [][]string{{"30 2 * * *", "30 3 * * *"}, {"30 3 * * *", "30 2 * * *"}} {
		s := mustSet(t, Options{Zone: "America/New_York"}, exprs...)
		f, _ := s.Next(at)
		if f.Nominal != "2026-03-08T03:30" || f.Shift != 0 {
			t.Errorf("%v: Next %+v", exprs, f)
		}
		if p, _ := s.Prev(f.At.Add(1)); p != f {
			t.Errorf("%v: Prev %+v", exprs, p)
		}
		if g, _ := s.Next(f.At); g.At.Equal(f.At) {
			t.Errorf("%v: %v fires again", exprs, f.At)
		}
	}
}

func TestSetErrorsNameTheExpression(t *testing.T) {
	_, err := ParseSet([]string{"@daily", "0 24 * * *"}, Options{})
	var e *Error
	if !errors.As(err, &e) || e.Index != 1 || e.Expression != "0 24 * * *" || e.Code != CodeRange ||
		e.Error() != "expression 2 (0 24 * * *): hour: 24 is out of range 0-23 (midnight is 0)" {
		t.Errorf("got %+v", err)
	}
	if _, err := ParseSet([]string{"0 24 * * *"}, Options{}); err == nil || strings.Contains(err.Error(), "expression") {
		t.Errorf("a lone expression needs no number: %v", err)
	}
	if _, err := ParseSet(nil, Options{}); !errors.As(err, &e) || e.Code != CodeEmpty {
		t.Errorf("no expressions: %v", err)
	}
	if _, err := ParseSet(slices.Repeat([]string{"@daily"}, MaxExpressions+1), Options{}); !errors.As(err, &e) || e.Code != CodeLength {
		t.Errorf("too many expressions: %v", err)
	}
}

func TestBounds(t *testing.T) {
	start := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	o := Options{Start: start, End: start.Add(48 * time.Hour)}
	// The start fires, the end does not.
	if got, want := instants(mustSet(t, o, "0 9 * * *"), "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"), []string{"12-01T09:00:00", "12-02T09:00:00"}; !slices.Equal(got, want) {
		t.Errorf("daily: got %v, want %v", got, want)
	}
	if got, want := instants(mustSet(t, o, "@every 20h"), "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"), []string{"12-01T09:00:00", "12-02T05:00:00", "12-03T01:00:00"}; !slices.Equal(got, want) {
		t.Errorf("interval: got %v, want %v", got, want)
	}
	s := mustSet(t, o, "@daily")
	if f, ok := s.Next(o.End); ok {
		t.Errorf("fires at %v after its end", f.At)
	}
	if f, ok := s.Prev(start); ok {
		t.Errorf("fires at %v before its start", f.At)
	}
	if f, ok := s.Prev(o.End.AddDate(10, 0, 0)); !ok || !f.At.Equal(time.Date(2026, 12, 3, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("last fire %v", f.At)
	}
	// A start within a second keeps its fraction for intervals and rounds up
	// for civil times.
	o = Options{Start: start.Add(250 * time.Millisecond)}
	if got, want := instants(mustSet(t, o, "@every 20h", "0 9 * * *"), "2026-12-01T09:00:00Z", "2026-12-02T10:00:00Z"), []string{"12-01T09:00:00.25", "12-02T05:00:00.25", "12-02T09:00:00"}; !slices.Equal(got, want) {
		t.Errorf("fraction: got %v, want %v", got, want)
	}
}

func TestExcludedDates(t *testing.T) {
	o := Options{Zone: "America/New_York", Exclude: []Date{{2026, 12, 26}, {2026, 12, 25}, {2026, 12, 25}}}
	a, b := "2026-12-24T12:00:00Z", "2026-12-28T00:00:00Z"
	if got, want := instants(mustSet(t, o, "0 20 * * *"), a, b), []string{"12-25T01:00:00", "12-28T01:00:00"}; !slices.Equal(got, want[:1]) {
		t.Errorf("daily: got %v, want %v", got, want[:1])
	}
	// Dates are the zone's: 25 and 26 December last from 05:00Z to 05:00Z.
	if got, want := instants(mustSet(t, o, "@every 12h"), a, b), []string{"12-25T00:00:00", "12-27T12:00:00", "12-28T00:00:00"}; !slices.Equal(got, want) {
		t.Errorf("interval: got %v, want %v", got, want)
	}
	if s := mustSet(t, o, "@at 2026-12-25T12:00:00Z"); len(instants(s, a, b)) != 0 {
		t.Error("an instant on an excluded date fires")
	}
	// A fire that a gap moves over midnight belongs to both dates.
	for _, d := range []int{28, 29} {
		s := mustSet(t, Options{Zone: "America/Nuuk", Exclude: []Date{{2026, 3, d}}}, "30 23 * * *")
		if f, _ := s.Next(time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)); f.Shift != 0 {
			t.Errorf("excluding 2026-03-%d leaves %+v", d, f)
		}
	}
}

// TestPrevDoesNotWalk: the last fire before an instant is found from there,
// also when years lie between.
func TestPrevDoesNotWalk(t *testing.T) {
	s := mustSet(t, Options{End: time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)}, "* * * * *", "@every 1s")
	if n := testing.AllocsPerRun(1, func() {
		if f, ok := s.Prev(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); !ok || f.At.Year() != 1989 {
			t.Errorf("got %v", f)
		}
	}); n > 10 {
		t.Errorf("%v allocations", n)
	}
}

func TestExtremeInstants(t *testing.T) {
	for _, expr := range []string{"* * * * *", "0 0 29 2 *", "@every 1h", "@at 2026-01-01T00:00:00Z"} {
		s := mustSet(t, Options{Zone: "Asia/Tokyo"}, expr)
		for _, at := range []time.Time{{}, time.Unix(-1<<62, 0), time.Unix(1<<62, 0), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
			if f, ok := s.Next(at); ok && (!f.At.After(at) || len(f.Nominal) > 19) {
				t.Errorf("%s: Next(%v) = %v", expr, at, f)
			}
			if f, ok := s.Prev(at); ok && !f.At.Before(at) {
				t.Errorf("%s: Prev(%v) = %v", expr, at, f)
			}
			s.Count(at, at)
		}
		if _, ok := s.Next(time.Unix(1<<62, 0)); ok {
			t.Errorf("%s fires after the year 9999", expr)
		}
		a, b := time.Unix(10, 0), time.Unix(0, 0)
		if n := s.Count(a, b); n != 0 {
			t.Errorf("%s: %d fires in a range that ends before it starts", expr, n)
		}
		for f := range s.Between(a, b) {
			t.Errorf("%s: %v in a range that ends before it starts", expr, f.At)
		}
	}
}
