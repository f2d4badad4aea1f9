package worker

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	idleWait = 500 * time.Millisecond // of a pull while there is a slot for every lane
	turnWait = 20 * time.Millisecond  // shared by the pulls that take turns at the free slots, see slots.wait
)

// slots counts what the worker may take. Pulls reserve free slots before they ask for messages, so that what was asked for
// never exceeds what could start now; reservations are granted in the order they were asked for, which keeps
// the lanes in rotation. Tasks beyond the slots (a message may carry several runs) wait in a queue, unstarted.
type slots struct {
	begin func([]*task) // called when tasks got their slots; execute by default
	run   func(*task)   // called by execute, on a goroutine that is the task's alone

	mu       sync.Mutex
	total    int
	running  int
	reserved int
	pullers  int // lanes that pull at present
	queue    []*task
	waiters  []*waiter
	closed   bool
	tasks    sync.WaitGroup

	// Tasks with a slot wait here for a goroutine, never for a handler: whoever takes
	// one sees to it that another is on its way for the next. Handlers that return at
	// once are so called one after the other, on goroutines whose stacks have grown to
	// what they need; of thousands that begin together each had cost a goroutine.
	ready  []*task
	taken  int           // of those, the first
	coming int           // goroutines on their way to a task
	idle   int           // goroutines that wait to be woken
	wake   chan struct{} // holds one for each of them
}

const maxIdle = 512 // goroutines that wait for tasks

type waiter struct {
	want int
	hot  bool // its lane had messages a moment ago
	got  chan int
}

func newSlots(total int, run func(*task)) *slots {
	s := &slots{total: total, run: run, wake: make(chan struct{}, maxIdle)}
	s.begin = func(tasks []*task) {
		for _, t := range tasks {
			s.execute(t)
		}
	}
	return s
}

// join and leave count the lanes that share the slots.
func (s *slots) join() {
	s.mu.Lock()
	s.pullers++
	s.mu.Unlock()
}

func (s *slots) leave() {
	s.mu.Lock()
	s.pullers--
	s.mu.Unlock()
}

// alone reports whether one lane has all slots to itself.
func (s *slots) alone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pullers == 1
}

// plenty reports whether half of the slots are free.
func (s *slots) plenty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 2*s.running <= s.total
}

// reserve waits for free slots and takes 1 to want of them, a fair share if others wait too; 0 when ctx ends.
func (s *slots) reserve(ctx context.Context, want int, hot bool) int {
	w := &waiter{max(want, 1), hot, make(chan int, 1)}
	s.mu.Lock()
	s.waiters = append(s.waiters, w)
	s.grant()
	s.mu.Unlock()
	select {
	case n := <-w.got:
		return n
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case n := <-w.got:
		s.reserved -= n
		s.grant()
	default:
		s.waiters = slices.DeleteFunc(s.waiters, func(o *waiter) bool { return o == w })
	}
	return 0
}

// unreserve gives a reservation back after its pull has ended; the runs it brought are counted by then.
func (s *slots) unreserve(n int) {
	s.mu.Lock()
	s.reserved -= n
	s.grant()
	s.mu.Unlock()
}

func (s *slots) free() int { return s.total - s.running - len(s.queue) }

// grant serves waiting pulls. The caller holds mu.
func (s *slots) grant() {
	for len(s.waiters) > 0 {
		free := s.free() - s.reserved
		if free < 1 {
			return
		}
		w := s.waiters[0]
		share := (free + len(s.waiters) - 1) / len(s.waiters)
		n := min(w.want, share)
		s.reserved += n
		s.waiters = slices.Delete(s.waiters, 0, 1)
		w.got <- n
	}
}

// wait is how long a pull of a lane without recent messages may hold its reservation. With a slot for every lane it may
// wait; otherwise it is the others' turn soon, at once if one of them has work.
func (s *slots) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := max(s.free(), 1)
	if s.pullers <= free {
		return idleWait
	}
	if slices.ContainsFunc(s.waiters, func(w *waiter) bool { return w.hot }) {
		return 0
	}
	return min(max(turnWait*time.Duration(free)/time.Duration(s.pullers), 2*time.Millisecond), 10*time.Millisecond)
}

// add takes tasks in hand: started while there are slots, queued otherwise. It refuses them all once closed.
func (s *slots) add(tasks []*task) bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	s.queue = append(s.queue, tasks...)
	next := s.next()
	s.mu.Unlock()
	s.begin(next)
	return true
}

// done frees the slot of a task.
func (s *slots) done() {
	s.mu.Lock()
	s.running--
	next := s.next()
	s.grant()
	s.mu.Unlock()
	if len(next) > 0 {
		s.begin(next)
	}
	s.tasks.Done()
}

// next takes queued tasks while there are slots. The caller holds mu, and begins them once it does not.
func (s *slots) next() []*task {
	n := min(len(s.queue), s.total-s.running)
	if n == 0 {
		return nil
	}
	next := slices.Clone(s.queue[:n])
	s.queue = slices.Delete(s.queue, 0, n)
	s.running += n
	s.tasks.Add(n)
	return next
}

// execute runs a task that has a slot.
func (s *slots) execute(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, t)
	s.send()
}

// send sends a goroutine if a task waits for one and none is coming. The caller
// holds mu.
func (s *slots) send() {
	if s.taken == len(s.ready) || s.coming > 0 {
		return
	}
	s.coming++
	if s.idle > 0 && !s.closed {
		s.idle--
		s.wake <- struct{}{} // there is room for one for each that is idle
		return
	}
	go s.work()
}

// work runs tasks one after the other. A handler that ends its goroutine ends it
// here, too.
func (s *slots) work() {
	for ok := true; ok; {
		s.mu.Lock()
		s.coming--
		for s.taken < len(s.ready) {
			t := s.ready[s.taken]
			s.ready[s.taken] = nil
			if s.taken++; s.taken == len(s.ready) {
				s.ready, s.taken = s.ready[:0], 0
			}
			s.send()
			s.mu.Unlock()
			s.run(t)
			s.mu.Lock()
		}
		if s.closed || s.idle == cap(s.wake) {
			s.mu.Unlock()
			return
		}
		s.idle++
		s.mu.Unlock()
		_, ok = <-s.wake
	}
}

// close stops starting tasks and returns those that never were.
func (s *slots) close() []*task {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		close(s.wake)
	}
	s.closed = true
	q := s.queue
	s.queue = nil
	return q
}

// count is how many tasks have a slot.
func (s *slots) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}
