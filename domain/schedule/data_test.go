package schedule

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"time"
	_ "time/tzdata"
)

type dataCase struct {
	ID, Kind, Expr, Zone string
	After, Until         time.Time
	Want                 []time.Time
	Class                Class
	Count                int
	MinGap               int64 `json:"min_gap_s"`
	MaxGap               int64 `json:"max_gap_s"`
}

func readJSON(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

func TestCases(t *testing.T) {
	var cases []dataCase
	readJSON(t, "schedule_cases.json", &cases)
	if len(cases) < 140 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			s, err := Parse(c.Expr, Options{Zone: c.Zone})
			if err != nil {
				t.Fatal(err)
			}
			if s.Class() != c.Class {
				t.Errorf("class %s, want %s", s.Class(), c.Class)
			}
			at := c.After
			for i, want := range c.Want {
				f, ok := s.Next(at)
				if !ok || !f.At.Equal(want) {
					t.Fatalf("fire %d: %v %v, want %v", i, f, ok, want)
				}
				if p, ok := s.Prev(want.Add(1)); !ok || p != f {
					t.Fatalf("fire %d: Prev gives %v, Next gave %v", i, p, f)
				}
				at = f.At
			}
			if c.Kind != "property" {
				return
			}
			until := c.Until.Add(-1) // the file counts what lies strictly between
			fires := slices.Collect(s.Between(c.After, until))
			if len(fires) != c.Count {
				t.Errorf("%d fires, want %d", len(fires), c.Count)
			}
			if n := s.Count(c.After, until); n != c.Count {
				t.Errorf("Count = %d, want %d", n, c.Count)
			}
			low, high := int64(1<<62), int64(0)
			for i := 1; i < len(fires); i++ {
				gap := fires[i].At.Unix() - fires[i-1].At.Unix()
				low, high = min(low, gap), max(high, gap)
			}
			if low != c.MinGap || high != c.MaxGap {
				t.Errorf("gaps %d to %d s, want %d to %d", low, high, c.MinGap, c.MaxGap)
			}
		})
	}
}

func TestSyntax(t *testing.T) {
	var cases []struct {
		Expr string
		OK   bool
		Code Code
	}
	readJSON(t, "schedule_syntax.json", &cases)
	if len(cases) < 80 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Expr, func(t *testing.T) {
			_, err := Parse(c.Expr, Options{})
			if c.OK {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an error %s", err, c.Code)
			}
			if e.Code != c.Code {
				t.Errorf("code %s, want %s (%v)", e.Code, c.Code, e)
			}
			if e.Message == "" || e.Field == "" {
				t.Errorf("error without message or field: %+v", e)
			}
		})
	}
}
