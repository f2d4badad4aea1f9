//go:build !race

package schedule

import (
	"testing"
)

// Allocations are counted, not timed: the figures are the same on every machine.
// A path that became dearer fails here; one that became clearly cheaper asks for
// its new figure, or the next change could undo it unseen.
func TestAllocations(t *testing.T) {
	s, err := Parse("30 2 * * *", Options{Zone: "America/New_York"})
	if err != nil {
		t.Fatal(err)
	}
	every, err := Parse("@every 90m", Options{Zone: "America/New_York"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		committed float64
		op        func()
	}{
		{"next fire in a zone", 1, func() { s.Next(benchFrom) }},
		{"next fire of an interval", 1, func() { every.Next(benchFrom) }},
		{"a year of fires counted", 0, func() { s.Count(benchFrom, benchFrom.AddDate(1, 0, 0)) }},
		{"expression parsed", 13, func() { _, _ = Parse("*/5 9-17 * * MON-FRI", Options{Zone: "America/New_York"}) }},
	} {
		if have := testing.AllocsPerRun(200, c.op); have > c.committed || have < 0.8*c.committed-1 {
			t.Errorf("%s: %.0f allocations an operation, committed are %.0f", c.name, have, c.committed)
		}
	}
}
