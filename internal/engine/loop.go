package engine

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// step does one piece of a loop's work, without goroutines of its own. It tells
// how long to wait for the next, unless it is woken; did says that there was
// something to do.
type step func(ctx context.Context) (did bool, next time.Duration, err error)

// loop runs a step again and again. It survives whatever the step meets: an
// error is logged when it begins, and the step is tried again with growing
// pauses for as long as it takes.
type loop struct {
	name string
	step step
	wake chan struct{} // nil: never woken
	log  *slog.Logger
	seen *watchdog
}

const (
	retryFirst = 50 * time.Millisecond
	retryMax   = 5 * time.Second
	// stepTimeout bounds one step, so that a connection that went silent cannot
	// hold up a loop for good.
	stepTimeout = 30 * time.Second
)

// Run returns nil when ctx ends.
func (l *loop) Run(ctx context.Context) error {
	pause := retryFirst
	failing := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, err := l.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if !failing {
				l.log.WarnContext(ctx, "loop is failing", "loop", l.name, "error", err)
			}
			failing = true
			next = pause/2 + rand.N(pause/2+1)
			pause = min(pause*2, retryMax)
		default:
			if failing {
				l.log.InfoContext(ctx, "loop works again", "loop", l.name)
			}
			failing, pause = false, retryFirst
		}
		timer.Reset(max(next, 0))
		woken := l.wake
		if err != nil {
			woken = nil // a wake-up must not turn the pause into a busy loop
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-woken:
		}
	}
}

func (l *loop) once(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	_, next, err := l.step(ctx)
	if err == nil {
		l.seen.succeeded(l.name)
	}
	return next, err
}

// poke wakes a loop without waiting for it.
func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// watchdog remembers when each loop last succeeded.
type watchdog struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func newWatchdog() *watchdog { return &watchdog{last: map[string]time.Time{}} }

func (w *watchdog) expect(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[name] = time.Now()
}

func (w *watchdog) succeeded(name string) { w.expect(name) }

// LoopAges tells how long ago each loop last succeeded.
func (w *watchdog) ages() map[string]time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	ages := make(map[string]time.Duration, len(w.last))
	for name, t := range w.last {
		ages[name] = time.Since(t)
	}
	return ages
}
