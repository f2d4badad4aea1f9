//go:build !race

package protocol

import (
	"testing"
)

// Allocations are counted, not timed: the figures are the same on every machine.
// A path that became dearer fails here; one that became clearly cheaper asks for
// its new figure, or the next change could undo it unseen.
func TestAllocations(t *testing.T) {
	var r Reply[StartResult]
	for range 100 {
		r.Results = append(r.Results, hot()[6].(Reply[StartResult]).Results[0])
	}
	body, err := Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	hints := make([]Hint, 50)
	packet := AppendHints(nil, hints)
	for _, c := range []struct {
		name      string
		committed float64
		op        func()
	}{
		{"reply to 100 starts written", 5, func() { _, _ = Encode(r) }},
		{"reply to 100 starts read", 307, func() {
			var x Reply[StartResult]
			_ = Decode(body, &x)
		}},
		{"50 hints written", 15, func() { AppendHints(nil, hints) }},
		{"50 hints read", 4, func() { _, _ = DecodeHints(packet) }},
	} {
		if have := testing.AllocsPerRun(200, c.op); have > c.committed || have < 0.8*c.committed-1 {
			t.Errorf("%s: %.0f allocations an operation, committed are %.0f", c.name, have, c.committed)
		}
	}
}
