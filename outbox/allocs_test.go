//go:build !race

package outbox

import (
	"testing"

	"github.com/daybookhq/daybook/eventstore"
)

// Allocations are counted, not timed: the figures are the same on every machine.
// A path that became dearer fails here; one that became clearly cheaper asks for
// its new figure, or the next change could undo it unseen.
func TestAllocations(t *testing.T) {
	messages := make([]eventstore.Message, 10)
	for i := range messages {
		messages[i] = eventstore.Message{Queue: "default", Kind: "noop", Hints: make([]eventstore.Hint, 50)}
	}
	packed, err := encodePack(messages)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		committed float64
		op        func()
	}{
		{"pack of 10 parcels of 50 written", 1, func() { _, _ = encodePack(messages) }},
		{"pack of 10 parcels of 50 read", 15, func() { _, _ = decodePack(packed) }},
	} {
		if have := testing.AllocsPerRun(200, c.op); have > c.committed || have < 0.8*c.committed-1 {
			t.Errorf("%s: %.0f allocations an operation, committed are %.0f", c.name, have, c.committed)
		}
	}
}
