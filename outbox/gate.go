package outbox

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// backoff is how long to wait after the n-th failure in a row, counted from 0: 100 ms doubling up to 5 s, of which up
// to half is left out at random.
func backoff(n int) time.Duration {
	d := min(firstBackoff<<min(n, 10), maxBackoff)
	return d - rand.N(d/2+1)
}

// gate holds a relay back from a broker that takes nothing. One pack that fails as a whole closes nothing: the reason
// may lie in its lane. After two in a row single packs try, with growing pauses, until something goes through.
type gate struct {
	mu       sync.Mutex
	failures int // packs in a row of which nothing was taken
	closed   time.Time
	probing  bool
}

const tolerated = 1

// enter reports whether a pack may be tried, or else when to ask again. Who enters must leave.
func (g *gate) enter() (wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch left := time.Until(g.closed); {
	case g.failures <= tolerated:
		return 0, true
	case g.probing:
		return maxBackoff, false // the probe wakes everyone
	case left > 0:
		return left, false
	}
	g.probing = true
	return 0, true
}

// outcome is what publishing a pack has told about the broker.
type outcome int

const (
	nothing outcome = iota // not asked
	taken                  // it answered, if only with a refusal
	refused                // it took no message, for reasons that pass
)

// leave notes the outcome and reports whether the gate has closed or opened by it.
func (g *gate) leave(o outcome) (changed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.failures > tolerated
	switch o {
	case taken:
		g.failures = 0
	case refused:
		if time.Now().Before(g.closed) {
			return false // was on its way when the gate closed
		}
		g.failures++
		if g.failures > tolerated {
			g.closed = time.Now().Add(backoff(g.failures - tolerated - 1))
		}
	}
	g.probing = false
	return was != (g.failures > tolerated)
}

func (g *gate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failures > tolerated
}
