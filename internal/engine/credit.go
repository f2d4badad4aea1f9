package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/daybookhq/daybook/eventstore"
)

// lanes are the distinct lanes that live workers declare, sorted.
func lanes(workers []eventstore.Worker) []eventstore.WorkerLane {
	var all []eventstore.WorkerLane
	for _, w := range workers {
		all = append(all, w.Lanes...)
	}
	slices.SortFunc(all, compareLanes)
	return slices.Compact(all)
}

func compareLanes(a, b eventstore.WorkerLane) int {
	if a.Queue != b.Queue {
		return compareStrings(a.Queue, b.Queue)
	}
	return compareStrings(a.Kind, b.Kind)
}

func compareStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// ledger says how many runs may still be claimed. Claims never run ahead of the
// workers: a run in hand that no slot is free for would wait in the broker for an
// unknown time, and its lease would run out there.
type ledger struct {
	workers   []eventstore.Worker
	free      map[string]int                    // slots without a started run, by worker
	unstarted map[eventstore.WorkerLane]int     // claims on their way, by lane
	sharing   map[eventstore.WorkerLane]laneSet // lanes of the workers that serve the lane
}

type laneSet map[eventstore.WorkerLane]bool

func newLedger(workers []eventstore.Worker, loads []eventstore.Load) *ledger {
	l := &ledger{workers: workers, free: map[string]int{}, unstarted: map[eventstore.WorkerLane]int{}, sharing: map[eventstore.WorkerLane]laneSet{}}
	for _, w := range workers {
		l.free[w.ID] = w.Slots
		for _, lane := range w.Lanes {
			if l.sharing[lane] == nil {
				l.sharing[lane] = laneSet{}
			}
			for _, other := range w.Lanes {
				l.sharing[lane][other] = true
			}
		}
	}
	for _, load := range loads {
		if load.Worker == "" {
			l.unstarted[eventstore.WorkerLane{Queue: load.Queue, Kind: load.Kind}] += load.Claims
		} else if _, ok := l.free[load.Worker]; ok {
			l.free[load.Worker] -= load.Claims
		}
	}
	return l
}

// credit is how many runs of the lane may be claimed: the free slots of the
// workers that serve it, less what is on its way to any lane of those workers.
func (l *ledger) credit(lane eventstore.WorkerLane) int {
	n := 0
	for _, w := range l.workers {
		if slices.Contains(w.Lanes, lane) {
			n += max(l.free[w.ID], 0)
		}
	}
	for other := range l.sharing[lane] {
		n -= l.unstarted[other]
	}
	return max(n, 0)
}

// share is what one of the engines may claim of the lane now: its part of the
// credit, and of that the lane's part beside the lanes that compete for the same
// slots. Rounded up: a surplus of one run an engine does no harm.
func (l *ledger) share(lane eventstore.WorkerLane, engines int) int {
	mine := divideUp(l.credit(lane), max(engines, 1))
	return divideUp(mine, max(len(l.sharing[lane]), 1))
}

// servers are how many workers serve the lane, and how many slots the smallest
// of them has.
func (l *ledger) servers(lane eventstore.WorkerLane) (workers, slots int) {
	for _, w := range l.workers {
		if slices.Contains(w.Lanes, lane) {
			if workers == 0 || w.Slots < slots {
				slots = w.Slots
			}
			workers++
		}
	}
	return workers, slots
}

// end notes that n claims of the lane were closed since the loads were counted.
func (l *ledger) end(lane eventstore.WorkerLane, n int) { l.unstarted[lane] -= n }

// take notes that n runs of the lane were claimed.
func (l *ledger) take(lane eventstore.WorkerLane, n int) { l.unstarted[lane] += n }

func divideUp(a, b int) int { return (a + b - 1) / b }

// Counting the claims is much of what a small claim costs. Between two counts the
// claimer goes on with the last one, less what it claimed since, plus what was
// closed since: claims that others made meanwhile are within their own shares.
// An engine that is alone sees all that is closed, and counts less often where
// counting takes long.
const (
	countEvery    = 100 * time.Millisecond
	maxCountEvery = time.Second
	countRest     = 50 // times what the last count took
)

// tally gathers the claims that were closed here, for the ledger.
type tally struct {
	mu    sync.Mutex
	ended []ended
}

// ended is claims of a lane that a transaction closed, which began at a time by
// the database's clock.
type ended struct {
	lane eventstore.WorkerLane
	at   time.Time
	n    int
}

func (t *tally) note(e ended) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Without a claimer nobody asks. What is left out is found by the next count.
	if len(t.ended) < 10_000 {
		t.ended = append(t.ended, e)
	}
}

// take gives what was closed by transactions that began after a time: what began
// before may be in a count of that time already.
func (t *tally) take(after time.Time) []ended {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.ended
	t.ended = nil
	return slices.DeleteFunc(all, func(e ended) bool { return !e.at.After(after) })
}
