package outbox

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// Deletions of finished packs wait this long for a claim to ride along with. Both together are less than freshFor, so
// that a finished pack is gone before some other relay thinks it was left behind.
const (
	rideFor = time.Second            // for the first claim
	loanFor = 500 * time.Millisecond // for a claim that took the deletion to commit
)

const maxRiders = 500 // deletions a claim takes along

// desk is what a relay has in memory. Its bounds are the hand-over's; leased packs are bounded by what a poll takes,
// finished ones by what was in memory within the last second or two.
type desk struct {
	wake chan struct{}

	ride, loan time.Duration // rideFor and loanFor

	mu       sync.Mutex
	bound    int
	fresh    []*pack // handed over after the commit
	leased   []*pack // from the table
	turn     bool    // whose turn is next if there are both
	flight   map[uuid.UUID]struct{}
	finished map[uuid.UUID]*deletion
	nextPoll time.Time
	lastPoll time.Time
	overflow uint64
}

// deletion is what is left to do for a published pack.
type deletion struct {
	due  time.Time // without a claim
	lent bool      // to a claim's transaction, of which only success is ever heard
}

func newDesk(bound, workers int) *desk {
	return &desk{
		wake:     make(chan struct{}, workers),
		ride:     rideFor,
		loan:     loanFor,
		bound:    bound,
		flight:   map[uuid.UUID]struct{}{},
		finished: map[uuid.UUID]*deletion{},
	}
}

// handOver takes a committed pack, or leaves it to the table when there is no room.
func (d *desk) handOver(p *pack) {
	d.mu.Lock()
	full := len(d.fresh) >= d.bound
	if full {
		d.overflow++
	} else {
		d.fresh = append(d.fresh, p)
	}
	d.mu.Unlock()
	if !full {
		d.poke()
	}
}

// poke wakes one worker; if all are awake, one that has not gone to sleep yet looks again.
func (d *desk) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// pokeAll wakes every worker.
func (d *desk) pokeAll() {
	for range cap(d.wake) {
		d.poke()
	}
}

// take gives the next pack to publish, nil if there is none, and counts it as in flight. Fresh and leased packs take
// turns. Packs that may be somebody else's by now are forgotten: they are in the table.
func (d *desk) take() *pack {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		from := &d.fresh
		if len(d.fresh) == 0 || d.turn && len(d.leased) > 0 {
			from = &d.leased
		}
		if len(*from) == 0 {
			return nil
		}
		d.turn = !d.turn
		p := (*from)[0]
		(*from)[0] = nil
		*from = (*from)[1:]
		if !p.over() {
			d.flight[p.id] = struct{}{}
			return p
		}
	}
}

// landed ends a pack's flight. If it is finished its row is to be deleted.
func (d *desk) landed(p *pack, finished bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.flight, p.id)
	if finished {
		d.finished[p.id] = &deletion{due: time.Now().Add(d.ride)}
	}
}

// put adds leased packs.
func (d *desk) put(packs []*pack) {
	d.mu.Lock()
	d.leased = append(d.leased, packs...)
	d.mu.Unlock()
	for range min(len(packs), cap(d.wake)) {
		d.poke()
	}
}

// counts are the packs waiting or in flight, and those that found no room so far.
func (d *desk) counts() (held int, overflow uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.fresh) + len(d.leased) + len(d.flight), d.overflow
}

// lend gives deletions to a transaction about to commit. Each goes to one at a time: two claims deleting the same row
// would wait for one another.
func (d *desk) lend() []uuid.UUID {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []uuid.UUID
	for id, f := range d.finished {
		if len(ids) == maxRiders {
			break
		}
		if !f.lent {
			f.lent, f.due = true, time.Now().Add(d.loan)
			ids = append(ids, id)
		}
	}
	return ids
}

// overdue gives deletions that no claim has carried out in time.
func (d *desk) overdue(all bool) []uuid.UUID {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []uuid.UUID
	now := time.Now()
	for id, f := range d.finished {
		if all || !f.due.After(now) {
			f.lent, f.due = true, now.Add(d.loan) // so that nobody else tries, and again if this fails
			ids = append(ids, id)
		}
	}
	return ids
}

// settle forgets deletions that are done.
func (d *desk) settle(ids []uuid.UUID) {
	if len(ids) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		delete(d.finished, id)
	}
}

// startPoll reports whether it is time to look into the table, for one caller at a time, and names the packs that
// must not be leased because they are here.
func (d *desk) startPoll(every time.Duration) (here []uuid.UUID, due bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if len(d.leased) > 0 || now.Before(d.nextPoll) {
		return nil, false
	}
	d.lastPoll, d.nextPoll = now, now.Add(every)
	here = make([]uuid.UUID, 0, len(d.flight)+len(d.finished))
	for id := range d.flight {
		here = append(here, id)
	}
	for id := range d.finished {
		here = append(here, id)
	}
	return here, true
}

const minPollPause = 50 * time.Millisecond

// pollBy makes the next poll come no later than at, but not at once after the last.
func (d *desk) pollBy(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if soonest := d.lastPoll.Add(minPollPause); at.Before(soonest) {
		at = soonest
	}
	if at.Before(d.nextPoll) {
		d.nextPoll = at
	}
}

// rest is how long there is nothing to do.
func (d *desk) rest() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.nextPoll
	for _, f := range d.finished {
		if f.due.Before(next) {
			next = f.due
		}
	}
	return max(time.Until(next), 0)
}
