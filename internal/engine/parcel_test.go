package engine

import (
	"testing"
	"time"

	"github.com/daybookhq/daybook/eventstore"
)

func TestHowManyRunsTravelTogether(t *testing.T) {
	for _, c := range []struct {
		what                       string
		runs, workers, slots, want int
	}{
		{"one run", 1, 1, 1000, 1},
		{"a few runs share a message", 3, 1, 1000, 3},
		{"a few runs for several workers are shared out", 12, 4, 1000, 3},
		{"a backlog for one worker", 2000, 1, 2000, maxParcel},
		{"many workers get several messages each", 100, 10, 100, 2},
		{"never more than a worker's slots", 2000, 1, 8, 8},
		{"nobody", 0, 0, 0, 1},
	} {
		if got := parcel(c.runs, c.workers, c.slots); got != c.want {
			t.Errorf("%s: %d in a message, want %d", c.what, got, c.want)
		}
	}
}

// A message fits into the smallest worker that may get it.
func TestServersOfALane(t *testing.T) {
	lane, other := eventstore.WorkerLane{Queue: "q", Kind: "k"}, eventstore.WorkerLane{Queue: "q", Kind: "other"}
	book := newLedger([]eventstore.Worker{
		{ID: "large", Slots: 50, Lanes: []eventstore.WorkerLane{lane}}, {ID: "small", Slots: 3, Lanes: []eventstore.WorkerLane{other, lane}},
		{ID: "middle", Slots: 10, Lanes: []eventstore.WorkerLane{lane}}, {ID: "elsewhere", Slots: 1, Lanes: []eventstore.WorkerLane{other}},
	}, nil)
	if workers, slots := book.servers(lane); workers != 3 || slots != 3 {
		t.Errorf("%d workers, the smallest with %d slots, want 3 and 3", workers, slots)
	}
}

func TestOnlyRunsKnownToBeShortTravelTogether(t *testing.T) {
	lane, now := eventstore.WorkerLane{Queue: "q", Kind: "k"}, time.Unix(1e9, 0)
	l := newLengths()
	if l.short(lane, now) {
		t.Error("nothing is known of the lane, and it counts as short")
	}
	l.note(lane, time.Millisecond, now)
	if !l.short(lane, now) || l.short(eventstore.WorkerLane{Queue: "q", Kind: "other"}, now) {
		t.Error("short runs of one lane: that lane must count as short, and no other")
	}
	if l.short(lane, now.Add(forgetLengths)) {
		t.Error("what ran long ago says nothing")
	}
	l.note(lane, time.Minute, now)
	if l.short(lane, now) {
		t.Error("a batch of long runs must be enough")
	}
}

func TestCreditBetweenTwoCounts(t *testing.T) {
	lane := eventstore.WorkerLane{Queue: "q", Kind: "k"}
	counted := time.Unix(1e9, 0)
	book := newLedger([]eventstore.Worker{{ID: "w", Slots: 10, Lanes: []eventstore.WorkerLane{lane}}},
		[]eventstore.Load{{Queue: "q", Kind: "k", Worker: "w", Claims: 6}})
	book.take(lane, 4)
	if got := book.credit(lane); got != 0 {
		t.Fatalf("credit %d with all slots spoken for", got)
	}
	closed := &tally{}
	closed.note(ended{lane, counted.Add(-time.Millisecond), 3}) // may be in the count
	closed.note(ended{lane, counted, 1})
	closed.note(ended{lane, counted.Add(time.Millisecond), 2})
	for _, e := range closed.take(counted) {
		book.end(e.lane, e.n)
	}
	if got := book.credit(lane); got != 2 {
		t.Errorf("credit %d, want that of the 2 claims closed after the count", got)
	}
	if left := closed.take(counted); len(left) > 0 {
		t.Errorf("told a second time: %v", left)
	}
}

// A lane with a few runs shares its worker with one that has no end of them: each
// time slots are free, some are for the small one.
func TestASmallLaneBesideALargeOne(t *testing.T) {
	large, small := eventstore.WorkerLane{Queue: "q", Kind: "large"}, eventstore.WorkerLane{Queue: "q", Kind: "small"}
	workers := []eventstore.Worker{{ID: "w", Slots: 8, Lanes: []eventstore.WorkerLane{large, small}}}
	for slots := 1; slots <= 8; slots++ {
		got := 0
		for turn := range 2 { // the claimer begins with another lane each time
			book := newLedger(workers, []eventstore.Load{{Queue: "q", Kind: "large", Worker: "w", Claims: 8 - slots}})
			for i := range 2 {
				lane := []eventstore.WorkerLane{large, small}[(turn+i)%2]
				n := book.share(lane, 1)
				book.take(lane, n)
				if lane == small {
					got += n
				}
			}
		}
		if got == 0 {
			t.Errorf("%d free slots, and in two turns none for the small lane", slots)
		}
	}
}
