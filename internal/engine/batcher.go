package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

// batcher gathers calls into transactions: each takes what waits, up to max
// items, and no call lingers for others to come. While one transaction is on its
// way the next fills up, so batches grow with the load by themselves.
type batcher[Q, A any] struct {
	name string
	in   chan call[Q, A]
	do   func(ctx context.Context, items []Q) ([]A, error)
	max  int
	size func(items int)
	turn chan struct{} // held by who gathers
	done chan struct{} // closed when nobody will take calls any more
	once sync.Once
}

type call[Q, A any] struct {
	items []Q
	reply chan<- answers[A]
}

type answers[A any] struct {
	items []A
	err   error
}

const (
	batchItems   = 2000
	batchWaiting = 4096
	batchTimeout = 15 * time.Second
	// batchWorkers is how many transactions of one kind are on their way at once.
	batchWorkers = 2
	// While a batch of many is on its way the next gathers, no longer than this.
	manyItems = 64
	batchPace = 50 * time.Millisecond
)

var (
	errBusy     = errors.New("too many calls are waiting")
	errStopping = errors.New("the engine is stopping")
)

func newBatcher[Q, A any](name string, m *metrics, do func(context.Context, []Q) ([]A, error)) *batcher[Q, A] {
	size := m.batchSize.WithLabelValues(name)
	return &batcher[Q, A]{
		name: name, in: make(chan call[Q, A], batchWaiting), do: do, max: batchItems, turn: make(chan struct{}, 1), done: make(chan struct{}),
		size: func(n int) { size.Observe(float64(n)) },
	}
}

// Do hands the items to the next transaction and waits for their answers, which
// are in the order of the items. A batch under way when ctx ends still happens.
func (b *batcher[Q, A]) Do(ctx context.Context, items []Q) ([]A, error) {
	if len(items) == 0 {
		return nil, nil
	}
	reply := make(chan answers[A], 1)
	select {
	case b.in <- call[Q, A]{items, reply}:
	default:
		return nil, errBusy
	}
	select {
	case a := <-reply:
		return a.items, a.err
	case <-b.done:
		select { // it may have been answered on the way out
		case a := <-reply:
			return a.items, a.err
		default:
			return nil, errStopping
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Run works until ctx ends; then it answers what still waits.
func (b *batcher[Q, A]) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			b.refuseRest(ctx.Err())
			return nil
		case b.turn <- struct{}{}:
		}
		var first call[Q, A]
		select {
		case <-ctx.Done():
			<-b.turn
			b.refuseRest(ctx.Err())
			return nil
		case first = <-b.in:
		}
		calls, n := b.gather(first)
		if n < manyItems {
			<-b.turn
			b.work(context.WithoutCancel(ctx), calls)
			continue
		}
		next := time.AfterFunc(batchPace, func() { <-b.turn })
		b.work(context.WithoutCancel(ctx), calls)
		if next.Stop() {
			<-b.turn
		}
	}
}

// gather adds to the first call whatever waits behind it.
func (b *batcher[Q, A]) gather(first call[Q, A]) (calls []call[Q, A], n int) {
	calls = []call[Q, A]{first}
	for n = len(first.items); n < b.max; {
		select {
		case c := <-b.in:
			calls = append(calls, c)
			n += len(c.items)
		default:
			return calls, n
		}
	}
	return calls, n
}

func (b *batcher[Q, A]) work(ctx context.Context, calls []call[Q, A]) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	items := calls[0].items
	if len(calls) > 1 {
		items = nil
		for _, c := range calls {
			items = append(items, c.items...)
		}
	}
	b.size(len(items))
	got, err := b.do(ctx, items)
	for _, c := range calls {
		if err != nil {
			c.reply <- answers[A]{err: err}
			continue
		}
		n := len(c.items)
		c.reply <- answers[A]{items: got[:n:n]}
		got = got[n:]
	}
}

// stop lets nobody wait any more. It is called when all Runs have ended: what
// they had taken is answered by then.
func (b *batcher[Q, A]) stop() {
	b.once.Do(func() { close(b.done) })
}

func (b *batcher[Q, A]) refuseRest(err error) {
	for {
		select {
		case c := <-b.in:
			c.reply <- answers[A]{err: err}
		default:
			return
		}
	}
}
