package worker

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 2 * time.Second
)

// backoff doubles from firstBackoff to maxBackoff, with half of it random so that workers do not return in step.
type backoff struct{ last time.Duration }

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, firstBackoff), maxBackoff)
	return b.last/2 + rand.N(b.last/2)
}

func (b *backoff) reset() { b.last = 0 }

// sleep waits for the next pause or the end of ctx.
func (b *backoff) sleep(ctx context.Context) {
	t := time.NewTimer(b.next())
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
