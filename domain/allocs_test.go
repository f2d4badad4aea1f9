//go:build !race

package domain

import (
	"testing"
)

// Allocations are counted, not timed: the figures are the same on every machine.
// A path that became dearer fails here; one that became clearly cheaper asks for
// its new figure, or the next change could undo it unseen.
func TestAllocations(t *testing.T) {
	for _, c := range []struct {
		name      string
		committed float64
		op        func()
	}{
		{"a run's life: three commands decided, applied and encoded", 14, func() { life(t) }},
		{"id of a requested run", 0, func() { KeyID(benchID, "a key of some length", benchNow) }},
		{"claim event encoded", 2, func() { _, _ = EncodeEvent(RunClaimed{ClaimID: benchID, LeaseUntil: benchNow, Dispatch: 1}) }},
	} {
		if have := testing.AllocsPerRun(200, c.op); have > c.committed || have < 0.8*c.committed-1 {
			t.Errorf("%s: %.0f allocations an operation, committed are %.0f", c.name, have, c.committed)
		}
	}
}
