package worker

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestReservationsNeverExceedWhatIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var s *slots
		s = newSlots(4, func(*task) { <-release; s.done() })
		ctx := t.Context()
		a := s.reserve(ctx, 100, true)
		if a != 4 {
			t.Fatalf("reserved %d of 4 free slots", a)
		}
		var b atomic.Int64
		go func() { b.Store(int64(s.reserve(ctx, 100, true))) }()
		synctest.Wait()
		if n := b.Load(); n != 0 {
			t.Fatalf("reserved %d with all reserved", n)
		}
		// The pull brings three runs and ends: one slot is free again.
		s.add([]*task{{}, {}, {}})
		s.unreserve(a)
		synctest.Wait()
		if n := b.Load(); n != 1 {
			t.Fatalf("reserved %d, want the one free slot", n)
		}
		// Its one message brings six runs: five wait, unstarted, and count as taken.
		s.add([]*task{{}, {}, {}, {}, {}, {}})
		s.unreserve(1)
		if s.count() != 4 || s.free() != -5 {
			t.Errorf("%d running, %d free", s.count(), s.free())
		}
		late, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if n := s.reserve(late, 1, false); n != 0 {
			t.Errorf("reserved %d with a queue", n)
		}
		close(release)
		synctest.Wait()
		if n := s.reserve(ctx, 100, true); n != 4 {
			t.Errorf("reserved %d once all had ended, want 4: %+v", n, s)
		}
		s.close() // what waits for another task ends
	})
}

func TestReservationsAreServedInTurnAndShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(6, nil)
		all := s.reserve(t.Context(), 6, true)
		var got [3]atomic.Int64
		for i := range got {
			go func() { got[i].Store(int64(s.reserve(t.Context(), 6, true))) }()
			synctest.Wait()
		}
		s.unreserve(1)
		synctest.Wait()
		if got[0].Load() != 1 || got[1].Load() != 0 {
			t.Errorf("the first to wait is not served first: %d %d %d", got[0].Load(), got[1].Load(), got[2].Load())
		}
		s.unreserve(all - 1)
		synctest.Wait()
		if a, b := got[1].Load(), got[2].Load(); a != 3 || b != 2 {
			t.Errorf("five free slots were shared as %d and %d", a, b)
		}
	})
}

func TestAbandonedReservationIsGivenBack(t *testing.T) {
	s := newSlots(2, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // granted and cancelled at the same time, either may win
		if n := s.reserve(ctx, 2, true); n > 0 {
			s.unreserve(n)
		}
	}
	if n := s.reserve(t.Context(), 2, true); n != 2 || s.reserved != 2 || len(s.waiters) != 0 {
		t.Errorf("reserved %d, %+v", n, s)
	}
}

func TestClosedSlotsTakeNothing(t *testing.T) {
	release := make(chan struct{})
	var s *slots
	s = newSlots(1, func(*task) { <-release; s.done() })
	s.add([]*task{{}, {}})
	if q := s.close(); len(q) != 1 {
		t.Errorf("%d tasks had not started, want 1", len(q))
	}
	if s.add([]*task{{}}) {
		t.Error("took a task after close")
	}
	close(release)
	s.tasks.Wait()
}

func TestGoroutinesTakeAnotherTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *slots
		ran, exit := 0, false
		s = newSlots(1, func(*task) {
			ran++
			if s.done(); exit {
				runtime.Goexit()
			}
		})
		for i := range 6 {
			exit = i%3 == 2 // as a handler may
			s.add([]*task{{}})
			synctest.Wait()
			if want := (i + 1) % 3; ran != i+1 || min(want, 1) != s.idle {
				t.Fatalf("%d tasks ran and %d goroutines wait, want %d and %d", ran, s.idle, i+1, min(want, 1))
			}
		}
		s.add([]*task{{}})
		s.close()
	})
}

// No task waits for a handler: whatever those before it do, all are called.
func TestTasksDoNotWaitForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 90
		release := make(chan struct{})
		var s *slots
		var called atomic.Int64
		s = newSlots(n, func(*task) {
			defer s.done()
			switch called.Add(1) % 3 {
			case 0:
				<-release
			case 1:
				runtime.Goexit()
			}
		})
		for range 2 { // the second time some goroutines are there already
			called.Store(0)
			s.add(make([]*task, n))
			synctest.Wait()
			if got := called.Load(); got != n {
				t.Fatalf("%d of %d handlers were called while others block", got, n)
			}
			if s.taken != len(s.ready) || s.coming != 0 {
				t.Errorf("%d tasks and %d goroutines are left over", len(s.ready)-s.taken, s.coming)
			}
			close(release)
			synctest.Wait()
			release = make(chan struct{})
		}
		s.close()
	})
}

func TestHandlersThatReturnAtOnceShareGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *slots
		s = newSlots(1000, func(*task) { s.done() })
		s.add(make([]*task, 1000))
		synctest.Wait()
		if s.idle > 50 || s.count() != 0 {
			t.Errorf("a thousand handlers took %d goroutines; %d are not done", s.idle, s.count())
		}
		s.close()
	})
}

// Tasks that begin while the worker stops are carried out, too.
func TestClosedSlotsCarryOutWhatBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *slots
		begun, ran := []*task(nil), 0
		s = newSlots(10, func(*task) { ran++; s.done() })
		s.begin = func(tasks []*task) { begun = append(begun, tasks...) }
		s.add([]*task{{}, {}, {}, {}})
		s.execute(begun[0])
		synctest.Wait()
		s.close()
		for _, task := range begun[1:] {
			s.execute(task)
			synctest.Wait()
		}
		if ran != len(begun) {
			t.Errorf("%d of %d tasks ran", ran, len(begun))
		}
	})
}

func TestWaitOfIdlePulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(4, func(*task) {})
		for range 4 {
			s.join()
		}
		if w := s.wait(); w != idleWait {
			t.Errorf("a slot for every lane: wait %v, want %v", w, idleWait)
		}
		s.join()
		if w := s.wait(); w <= 0 || w > 10*time.Millisecond {
			t.Errorf("more lanes than slots: wait %v", w)
		}
		s.reserve(t.Context(), 4, true)
		ctx, cancel := context.WithCancel(t.Context())
		go s.reserve(ctx, 4, true)
		synctest.Wait()
		if w := s.wait(); w != 0 {
			t.Errorf("a lane with work waits: wait %v", w)
		}
		cancel()
	})
}
