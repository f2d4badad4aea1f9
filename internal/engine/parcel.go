package engine

import (
	"sync"
	"time"

	"github.com/daybookhq/daybook/eventstore"
)

// A message may carry several runs, which saves the broker and the worker most
// of what a message costs. They travel to one worker and are acknowledged
// together, so that is done only while it cannot matter: the lane's runs are short,
// and of a backlog every worker still gets several messages. A few that come due
// together are begun together, too: each message begins a transaction of its own.
const (
	maxParcel     = 50
	parcelsEach   = 4                      // messages a worker, if the runs suffice
	fewTogether   = 12                     // so many share their messages among the workers, one for each
	shortRun      = 100 * time.Millisecond // longer ones travel alone
	forgetLengths = time.Minute            // of a lane that ended no run since
)

// lengths remembers how long the runs of each lane took lately, as far as this
// engine recorded their ends.
type lengths struct {
	mu    sync.Mutex
	lanes map[eventstore.WorkerLane]length
}

type length struct {
	mean time.Duration // moving, the latest batch weighs a quarter
	at   time.Time
}

func newLengths() *lengths { return &lengths{lanes: map[eventstore.WorkerLane]length{}} }

// note takes in the mean of runs that have ended.
func (l *lengths) note(lane eventstore.WorkerLane, mean time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, ok := l.lanes[lane]
	if ok && now.Sub(was.at) < forgetLengths {
		mean = was.mean + (mean-was.mean)/4
	}
	if len(l.lanes) > 10_000 {
		clear(l.lanes) // lanes come and go; they are learned again
	}
	l.lanes[lane] = length{mean, now}
}

// short reports whether the lane's runs are known to be short.
func (l *lengths) short(lane eventstore.WorkerLane, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, ok := l.lanes[lane]
	return ok && was.mean < shortRun && now.Sub(was.at) < forgetLengths
}

// parcel is how many of n runs of a lane may travel together to so many workers,
// the smallest of which has so many slots.
func parcel(n, workers, slots int) int {
	workers = max(workers, 1)
	few := divideUp(min(n, fewTogether), workers)
	return max(1, min(max(n/(parcelsEach*workers), few), slots, maxParcel))
}
