package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/worker/protocol"
)

const complainEvery = 10 * time.Second

// task is one run in hand, from its hint to its recorded outcome.
type task struct {
	claim  protocol.Claim
	token  uuid.UUID                    // of this delivery
	parcel *parcel                      // nil if polled
	answer answer[protocol.StartResult] // to its start
}

func newTask(h protocol.Hint, p *parcel) *task {
	return &task{claim: protocol.Claim{RunID: h.RunID, ClaimID: h.ClaimID}, token: uuid.New(), parcel: p}
}

// begin asks for permission to start tasks that got their slots.
func (s *session) begin(tasks []*task) {
	items := make([][]byte, len(tasks))
	for i, t := range tasks {
		items[i] = t.startItem()
	}
	s.starts.post(items, func(i int, a answer[protocol.StartResult]) {
		tasks[i].answer = a
		s.slots.execute(tasks[i])
	})
}

func (t *task) startItem() []byte {
	item, _ := protocol.Encode(protocol.StartItem{RunID: t.claim.RunID, ClaimID: t.claim.ClaimID, Token: t.token}) // ids only
	return item
}

// work carries a task from the answer to its start to the report of its outcome. It has a goroutine to itself, in a slot.
func (s *session) work(t *task) {
	a, ok := s.start(t)
	if !ok {
		s.slots.done()
		return
	}
	r := a.result
	if !time.Now().Before(a.sent.Add(r.LeaseRemaining.Std())) {
		s.log.Warn("the lease was over before the run began here", "run", t.claim.RunID)
		s.settle(t, false)
		s.slots.done()
		return
	}
	l := s.keeper.hold(t.claim, a.sent, r.LeaseRemaining.Std())
	ctx, stop := context.WithCancelCause(l.ctx)
	run := newRawRun(r, l)
	cancel := func() {}
	if left := cmp.Or(r.Deadline, r.Timeout); left != 0 {
		run.Deadline = a.sent.Add(left.Std())
		ctx, cancel = context.WithDeadlineCause(ctx, run.Deadline, ErrTimeout)
	}
	l.onStop(stop)
	if s.stopping.Load() {
		// stopAll may have passed before onStop.
		stop(ErrDraining)
	}
	// The rest runs deferred, so that a handler that ends its goroutine (runtime.Goexit) still settles.
	execute(ctx, s.handler(r.Kind), t.claim, run, func(o outcome) {
		cancel()
		stop(nil)
		s.report(t, l, o)
	})
}

func newRawRun(r protocol.StartResult, l *lease) *RawRun {
	run := &RawRun{Target: r.Target}
	run.Run = Run[json.RawMessage]{
		ID: r.RunID.String(), Job: r.Job, Kind: r.Kind, Origin: r.Origin, Attempt: r.Attempt, MaxAttempts: r.MaxAttempts,
		ScheduledAt: r.ScheduledAt.Time, Timeout: r.Timeout.Std(), Traceparent: r.Traceparent, Args: r.Args, progress: l.progress,
	}
	if r.RunID == uuid.Nil {
		run.ID = l.claim.RunID.String()
	}
	if r.JobID != uuid.Nil {
		run.JobID = r.JobID.String()
	}
	return run
}

// start repeats the question until there is an answer. With ok false the task has been settled.
func (s *session) start(t *task) (a answer[protocol.StartResult], ok bool) {
	var retry backoff
	for a = t.answer; ; a = s.starts.do(s.rpc, t.startItem()) {
		if a.err == nil && a.result.Error != nil {
			a.err = a.result.Error
		}
		switch {
		case a.err == nil && a.result.Status == protocol.StatusStarted:
			if s.draining() {
				s.release(t, "the worker stopped before the run began")
				return a, false
			}
			return a, true
		case a.err == nil && a.result.Status == protocol.StatusRefused && a.result.Code != protocol.Unauthorized:
			s.refused(t, protocol.OpStart, a.result.Code)
			s.settle(t, true)
			return a, false
		case a.err == nil && a.result.Status == protocol.StatusRefused, errorCode(a.err) == protocol.CodeUnauthorized:
			s.unauthorized(protocol.OpStart, a.err)
			s.settle(t, false)
			return a, false
		case a.err == nil:
			a.err = fmt.Errorf("status %q", a.result.Status)
		}
		if s.rpc.Err() != nil {
			s.settle(t, false)
			return a, false
		}
		s.unanswered(protocol.OpStart, a.err)
		retry.sleep(s.pulling)
		if s.draining() {
			// It may have been recorded all the same.
			s.release(t, "the worker stopped before it knew whether the run had started")
			return a, false
		}
	}
}

// report sends the outcome until it is answered or the lease is over, and finishes the task. Only an outcome that has
// to be repeated keeps a goroutine. One that is under way when the lease ends is still waited for: the fence decides.
func (s *session) report(t *task, l *lease, o outcome) {
	l.report()
	item, ok := s.encode(t, o)
	if !ok || !l.alive() {
		s.finish(t, l, o, false)
		return
	}
	s.post(o.op, item, func(status protocol.Status, code protocol.RefusalCode, err error) {
		if s.answered(l.ctx, t, o.op, status, code, err) {
			s.finish(t, l, o, true)
			return
		}
		go func() { s.finish(t, l, o, s.repeat(l.ctx, t, o.op, item)) }()
	})
}

// finish settles a task that was started, and frees its slot.
func (s *session) finish(t *task, l *lease, o outcome, answered bool) {
	if refused := l.end(); !answered {
		if !refused {
			s.log.Warn("lease lost; the outcome is not recorded", "run", t.claim.RunID, "op", o.op)
		}
		answered = refused
	}
	s.settle(t, answered)
	s.slots.done()
}

// release gives a run back that the worker will not execute.
func (s *session) release(t *task, reason string) {
	item := protocol.ReleaseItem{RunID: t.claim.RunID, ClaimID: t.claim.ClaimID, Token: t.token, Reason: reason}
	s.settle(t, s.send(s.rpc, t, outcome{protocol.OpRelease, item}))
}

func (s *session) encode(t *task, o outcome) (item []byte, ok bool) {
	item, err := protocol.Encode(o.item)
	if err != nil {
		s.log.Error("outcome cannot be written", "run", t.claim.RunID, "op", o.op, "error", err)
	}
	return item, err == nil
}

// send sends an outcome until it has an answer (true) or ctx ends (false).
func (s *session) send(ctx context.Context, t *task, o outcome) bool {
	item, ok := s.encode(t, o)
	if !ok {
		return false
	}
	status, code, err := s.sendOnce(ctx, o.op, item)
	return s.answered(ctx, t, o.op, status, code, err) || s.repeat(ctx, t, o.op, item)
}

// repeat is send for an outcome that had no answer.
func (s *session) repeat(ctx context.Context, t *task, op string, item []byte) bool {
	var retry backoff
	for {
		retry.sleep(ctx)
		if ctx.Err() != nil {
			return false
		}
		status, code, err := s.sendOnce(ctx, op, item)
		if s.answered(ctx, t, op, status, code, err) {
			return true
		}
	}
}

// answered takes in what came back for an outcome; false if that was no answer.
func (s *session) answered(ctx context.Context, t *task, op string, status protocol.Status, code protocol.RefusalCode, err error) bool {
	switch {
	case err == nil && status == protocol.StatusRefused && code == protocol.Unauthorized, errorCode(err) == protocol.CodeUnauthorized:
		// The work is done; a permission that comes back before the lease is over still saves it.
		s.unauthorized(op, err)
		return false
	case err == nil && status == protocol.StatusRefused:
		s.refused(t, op, code)
		return true
	case err == nil:
		return true
	case ctx.Err() == nil:
		s.unanswered(op, err)
	}
	return false
}

func (s *session) sendOnce(ctx context.Context, op string, item []byte) (protocol.Status, protocol.RefusalCode, error) {
	if op == protocol.OpFail {
		a := s.fails.do(ctx, item)
		return a.result.Status, a.result.Code, itemError(a.err, a.result.Error)
	}
	a := s.outcomes(op).do(ctx, item)
	return a.result.Status, a.result.Code, itemError(a.err, a.result.Error)
}

// post is sendOnce for an outcome that nothing waits for.
func (s *session) post(op string, item []byte, then func(protocol.Status, protocol.RefusalCode, error)) {
	if op == protocol.OpFail {
		s.fails.post([][]byte{item}, func(_ int, a answer[protocol.FailResult]) {
			then(a.result.Status, a.result.Code, itemError(a.err, a.result.Error))
		})
		return
	}
	s.outcomes(op).post([][]byte{item}, func(_ int, a answer[protocol.Result]) {
		then(a.result.Status, a.result.Code, itemError(a.err, a.result.Error))
	})
}

func (s *session) outcomes(op string) *batcher[protocol.Result] {
	switch op {
	case protocol.OpSnooze:
		return s.snoozes
	case protocol.OpRelease:
		return s.releases
	}
	return s.completes
}

func itemError(err error, item *protocol.Error) error {
	if err == nil && item != nil {
		return item
	}
	return err
}

func (s *session) refused(t *task, op string, code protocol.RefusalCode) {
	level := s.log.Info
	if code == protocol.UnknownRun {
		level = s.log.Warn // the database was restored to before this claim
	}
	level("refused", "op", op, "run", t.claim.RunID, "code", code)
}

// unanswered says now and then that requests are being repeated; every run in hand may be repeating one.
func (s *session) unanswered(op string, err error) {
	now := time.Now().UnixNano()
	if last := s.complained.Load(); now-last > int64(complainEvery) && s.complained.CompareAndSwap(last, now) {
		s.log.Warn("no answer; repeating the request", "op", op, "error", err)
	}
}

func (s *session) unauthorized(op string, err error) {
	if err == nil {
		err = errors.New("refused as unauthorized")
	}
	s.fail(fmt.Errorf("%w: %s: %w", ErrUnauthorized, op, err))
}

// handler finds the handler of a kind. A run of a kind that was never declared means that a message was put on
// the wrong lane.
func (s *session) handler(kind string) handlerFunc {
	if h, ok := s.handlers[kind]; ok {
		return h
	}
	return func(context.Context, *RawRun) (any, error) {
		return nil, RetryAfter(&typedError{"unknown_kind", fmt.Errorf("this worker does not handle the kind %q", kind)}, time.Second)
	}
}
