package natsjs_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
)

func waker(t *testing.T, nc *nats.Conn) *natsjs.Waker {
	w := natsjs.NewWaker(nc)
	t.Cleanup(w.Close)
	return w
}

func TestWakeReachesTheOthersAndNotItself(t *testing.T) {
	s := natstest.New(t)
	a, b := waker(t, s.Conn(t)), waker(t, s.Conn(t))
	ownCalls, woken, jobs := atomic.Int64{}, make(chan string, 10), make(chan struct{}, 10)
	for _, sub := range []struct {
		w     *natsjs.Waker
		woken natsjs.Woken
	}{
		{a, natsjs.Woken{Queue: func(string) { ownCalls.Add(1) }, Jobs: func() { ownCalls.Add(1) }}},
		{b, natsjs.Woken{Queue: func(q string) { woken <- q }, Jobs: func() { jobs <- struct{}{} }}},
	} {
		stop, err := sub.w.Subscribe(sub.woken)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
	}
	eventually(t, "b hears a", func() bool {
		a.Wake("mail") // the subscription may not have reached the server yet
		select {
		case q := <-woken:
			if q != "mail" {
				t.Errorf("woken for %q", q)
			}
			return true
		default:
			return false
		}
	})
	a.WakeJobs()
	select {
	case <-jobs:
	case <-time.After(30 * time.Second):
		t.Error("nobody heard that jobs have changed")
	}
	if n := ownCalls.Load(); n != 0 {
		t.Errorf("a woke itself %d times", n)
	}
}

// However many wake-ups come in, a queue sends one a millisecond; and the last one is sent too, else the work that
// caused it would wait for the poll.
func TestWakesAreCoalescedAndTheLastIsSent(t *testing.T) {
	nc := natstest.New(t).Conn(t)
	w := waker(t, nc)
	begin := time.Now()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20_000 {
				w.Wake("mail")
			}
		})
	}
	wg.Wait()
	sent := nc.Stats().OutMsgs
	if elapsed := time.Since(begin); sent > uint64(elapsed/time.Millisecond)+2 {
		t.Errorf("%d wake-ups in %s", sent, elapsed)
	}
	w.Close()

	w = waker(t, nc)
	sent = nc.Stats().OutMsgs
	w.Wake("mail") // at once
	w.Wake("mail") // at the end of the millisecond
	w.Wake("not.a.token")
	w.Wake("*")
	eventually(t, "the last wake-up is sent", func() bool { return nc.Stats().OutMsgs == sent+2 })
	w.Wake("mail")
	w.Wake("reports") // waits for no other queue
	if n := nc.Stats().OutMsgs; n < sent+3 {
		t.Errorf("%d sent, want at least %d", n, sent+3)
	}
}
