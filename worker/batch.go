package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookhq/daybook/worker/protocol"
)

// maxFlights is how many requests of one operation may be under way: a second one, so that a slow engine does not hold up what
// arrives meanwhile. While one is under way the rest gathers, no longer than its pace: each request costs the engine a commit.
const (
	maxFlights = 2
	manyItems  = 64
	manyPace   = 50 * time.Millisecond // of a request of so many items
	fewPace    = 5 * time.Millisecond  // of any other
	outcomeGap = 10 * time.Millisecond // between outcomes, while slots are free: so long, nobody waits for theirs
)

var errClosed = errors.New("the worker has stopped")

// batcher gathers the items of one operation into requests: a request takes what waits, and nothing waits for company.
// Under load the requests grow by themselves.
type batcher[R any] struct {
	caller *caller
	group  *group
	ctx    context.Context // of the requests; they outlive the interest in single items
	op     string
	prefix string // of the request, up to the items

	mu      sync.Mutex
	waiting []*entry[R]
	flights int
	second  time.Time     // when another request may leave beside the one that is under way
	gap     time.Duration // between requests that are not large,
	patient func() bool   // while this holds
	next    time.Time     // no request leaves before
	held    bool          // a timer launches then
}

type entry[R any] struct {
	item      []byte
	abandoned atomic.Bool
	done      chan answer[R]
	then      func(i int, a answer[R]) // instead of done
	place     int                      // i
}

type answer[R any] struct {
	result R
	sent   time.Time // before the request that was answered
	err    error
}

func newBatcher[R any](ctx context.Context, g *group, c *caller, op, prefix string) *batcher[R] {
	return &batcher[R]{caller: c, group: g, ctx: ctx, op: op, prefix: prefix}
}

// do sends one encoded item and waits for its result, or until ctx ends.
func (b *batcher[R]) do(ctx context.Context, item []byte) answer[R] {
	if ctx.Err() != nil {
		return answer[R]{err: context.Cause(ctx)}
	}
	e := &entry[R]{item: item, done: make(chan answer[R], 1)}
	b.mu.Lock()
	b.waiting = append(b.waiting, e)
	b.launch()
	b.mu.Unlock()
	select {
	case a := <-e.done:
		return a
	case <-ctx.Done():
		e.abandoned.Store(true)
		return answer[R]{err: context.Cause(ctx)}
	}
}

// post sends encoded items and has then called with the number and the result of each, on a goroutine of the batcher's,
// which must not be held up. Nothing waits meanwhile: thousands of runs begin and end together, and a goroutine that
// waits for each costs more than the request.
func (b *batcher[R]) post(items [][]byte, then func(i int, a answer[R])) {
	b.mu.Lock()
	before := len(b.waiting)
	entries := make([]entry[R], len(items))
	for i, item := range items {
		e := &entries[i]
		e.item, e.then, e.place = item, then, i
		b.waiting = append(b.waiting, e)
	}
	b.launch()
	refused := b.flights == 0 && !b.held // the group takes nothing more
	if refused {
		clear(b.waiting[before:])
		b.waiting = b.waiting[:before]
	}
	b.mu.Unlock()
	if refused {
		for i := range items {
			then(i, answer[R]{err: errClosed})
		}
	}
}

// launch begins a flight if there may be one more. The caller holds mu.
func (b *batcher[R]) launch() {
	if len(b.waiting) == 0 || b.flights == maxFlights || b.flights > 0 && time.Now().Before(b.second) || b.hold() {
		return
	}
	if b.group.start(b.fly) {
		b.flights++
	}
}

// hold reports whether it is too early for a request, and sees to it that it is made. The caller holds mu.
func (b *batcher[R]) hold() bool {
	wait := time.Until(b.next)
	if wait <= 0 || len(b.waiting) >= manyItems || !b.patient() {
		return false
	}
	if !b.held {
		b.held = true
		time.AfterFunc(wait, func() {
			b.mu.Lock()
			b.held = false
			b.launch()
			var refused []*entry[R]
			if b.flights == 0 && !b.held { // the group takes nothing more
				refused, b.waiting = b.waiting, nil
			}
			b.mu.Unlock()
			for _, e := range refused {
				e.answer(answer[R]{err: errClosed})
			}
		})
	}
	return true
}

func (b *batcher[R]) fly() {
	runtime.Gosched() // the runs of one message begin together: let the others have their say
	for {
		batch := b.take()
		if batch == nil {
			return
		}
		b.send(batch)
	}
}

// take removes the next batch; nil ends the flight.
func (b *batcher[R]) take() []*entry[R] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 && b.hold() {
		b.flights--
		return nil
	}
	var batch []*entry[R]
	size, n := len(b.prefix), 0
	for _, e := range b.waiting {
		if !e.abandoned.Load() {
			if len(batch) == protocol.MaxItems || len(batch) > 0 && size+len(e.item) > protocol.MaxRequest-16 {
				break
			}
			batch = append(batch, e)
			size += len(e.item) + 1
		}
		n++
	}
	rest := copy(b.waiting, b.waiting[n:])
	clear(b.waiting[rest:])
	b.waiting = b.waiting[:rest]
	if len(batch) == 0 {
		b.flights--
		return nil
	}
	b.next = time.Now().Add(b.gap)
	pace := fewPace
	if len(batch) >= manyItems {
		pace = manyPace
	}
	b.second = time.Now().Add(pace)
	time.AfterFunc(pace, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.launch()
	})
	return batch
}

// send makes one request of a batch, and two of half the size if it, or its reply, does not fit.
func (b *batcher[R]) send(batch []*entry[R]) {
	items := make([][]byte, len(batch))
	for i, e := range batch {
		items[i] = e.item
	}
	results, sent, err := callItems[R](b.ctx, b.caller, b.op, b.prefix, items, 0)
	if len(batch) > 1 && errorCode(err) == protocol.CodeTooLarge {
		b.send(batch[:len(batch)/2])
		b.send(batch[len(batch)/2:])
		return
	}
	for i, e := range batch {
		a := answer[R]{sent: sent, err: err}
		if err == nil {
			a.result = results[i]
		}
		e.answer(a)
	}
}

func (e *entry[R]) answer(a answer[R]) {
	if e.then != nil {
		e.then(e.place, a)
	} else {
		e.done <- a
	}
}

// callItems makes one request of encoded items and returns one result for each. limit bounds a single try, 0 is the transport's own.
func callItems[R any](ctx context.Context, c *caller, op, prefix string, items [][]byte, limit time.Duration) ([]R, time.Time, error) {
	size := len(prefix) + 2
	for _, it := range items {
		size += len(it) + 1
	}
	req := append(make([]byte, 0, size), prefix...)
	for i, it := range items {
		if i > 0 {
			req = append(req, ',')
		}
		req = append(req, it...)
	}
	req = append(req, "]}"...)
	var reply protocol.Reply[R]
	sent, err := c.do(ctx, op, req, limit, func(b []byte) error {
		reply = protocol.Reply[R]{}
		if err := protocol.Decode(b, &reply); err != nil {
			return fmt.Errorf("reply to %s: %w", op, err)
		}
		if reply.Error != nil {
			return reply.Error
		}
		if len(reply.Results) != len(items) {
			return fmt.Errorf("reply to %s: %d results for %d items", op, len(reply.Results), len(items))
		}
		return nil
	})
	return reply.Results, sent, err
}

// errorCode is the code of an error reply in err, or empty.
func errorCode(err error) protocol.ErrorCode {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return e.Code
	}
	return ""
}
