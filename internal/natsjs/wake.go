package natsjs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/worker/protocol"
)

// wakeInterval is the shortest time between two wake-ups of one queue.
const wakeInterval = time.Millisecond

// maxWakeQueues bounds the memory for queues: beyond it, idle ones are forgotten, which costs a coalescing at most.
const maxWakeQueues = 1024

// maxHinted keeps a hint far below what NATS carries in a message.
const maxHinted = 1000

// Waker tells the other engine replicas over core NATS that a queue has work, or that jobs have changed. A wake-up is
// a hint: it may be lost, and whoever waits for one polls as well.
type Waker struct {
	nc *nats.Conn
	id string // its own wake-ups come back to it and are left out

	mu     sync.Mutex
	states map[string]*wakeState // by subject
	closed bool
}

// Woken are called for the wake-ups of others, one at a time. They must not block: a wake-up that finds too many
// others waiting is dropped.
type Woken struct {
	Queue func(queue string)
	Jobs  func()
}

type wakeState struct {
	last  time.Time
	timer *time.Timer // nil unless a wake-up waits for the end of the interval
}

// NewWaker returns a Waker on nc. Close it before nc.
func NewWaker(nc *nats.Conn) *Waker {
	return &Waker{nc: nc, id: uuid.NewString(), states: make(map[string]*wakeState)}
}

// Wake sends a wake-up for queue, at most one a millisecond; what comes in between is one more at its end, so the
// last is never swallowed. It does not block and reports nothing: a wake-up that cannot be sent is lost.
func (w *Waker) Wake(queue string) {
	if protocol.ValidToken(queue) == nil {
		w.wake(protocol.WakeSubject(queue))
	}
}

// WakeJobs sends a wake-up for whoever decides instants, as Wake does for a queue.
func (w *Waker) WakeJobs() { w.wake(protocol.WakeJobsSubject) }

func (w *Waker) wake(subject string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	s := w.states[subject]
	if s == nil {
		if len(w.states) >= maxWakeQueues {
			w.forgetIdle()
		}
		s = &wakeState{}
		w.states[subject] = s
	}
	if s.timer != nil {
		return
	}
	if rest := wakeInterval - time.Since(s.last); rest > 0 {
		s.timer = time.AfterFunc(rest, func() { w.fire(subject, s) })
		return
	}
	w.send(subject, s)
}

// Cancelled tells workers that the runs were asked to end, so that they need not find out with their next heartbeat.
// Like a wake-up, it is lost if it cannot be sent.
func (w *Waker) Cancelled(runs ...uuid.UUID) {
	for part := range slices.Chunk(runs, maxHinted) {
		body, err := json.Marshal(protocol.CancelHint{RunIDs: part})
		if err != nil {
			return // ids can always be written
		}
		_ = w.nc.Publish(protocol.CancelSubject, body)
	}
}

func (w *Waker) fire(subject string, s *wakeState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.timer = nil
	if !w.closed {
		w.send(subject, s)
	}
}

func (w *Waker) send(subject string, s *wakeState) {
	s.last = time.Now()
	_ = w.nc.Publish(subject, []byte(w.id))
}

func (w *Waker) forgetIdle() {
	for subject, s := range w.states {
		if s.timer == nil && time.Since(s.last) >= wakeInterval {
			delete(w.states, subject)
		}
	}
}

// Subscribe calls woken for every wake-up of another Waker. stop ends the subscription.
func (w *Waker) Subscribe(woken Woken) (stop func(), err error) {
	sub, err := w.nc.Subscribe(protocol.WakeSubject("*"), func(m *nats.Msg) {
		switch {
		case string(m.Data) == w.id:
		case m.Subject == protocol.WakeJobsSubject:
			woken.Jobs()
		default:
			if queue := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]; protocol.ValidToken(queue) == nil {
				woken.Queue(queue)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to wake-ups: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// Close ends the sending of wake-ups; one that waits is lost.
func (w *Waker) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, s := range w.states {
		if s.timer != nil {
			s.timer.Stop()
		}
	}
}
