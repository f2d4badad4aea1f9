package worker

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/worker/protocol"
)

const (
	progressGap = 2 * time.Second // between heartbeats that only carry news
	minRetry    = 100 * time.Millisecond
)

// lease is the right to execute one run. Its fields below keeper are guarded by keeper.mu.
type lease struct {
	claim  protocol.Claim
	keeper *keeper
	ctx    context.Context // ends with the lease
	lose   context.CancelCauseFunc
	stop   context.CancelCauseFunc // ends the handler's context only

	// deadline is the monotonic time before the request that was last answered plus the remaining lease of the
	// answer. The database granted at least that much, whatever the two clocks say.
	deadline  time.Time
	span      time.Duration // remaining lease of the last answer
	due       time.Time     // next renewal
	renewed   time.Time     // last answered request
	timer     *time.Timer
	renewing  bool
	again     bool // renew once more: what asked for it came while a renewal was under way
	reporting bool // the handler has returned; the outcome is under way
	refused   bool // an answer said that the lease is gone
	ended     bool
	failures  int
	fraction  *float64 // progress not sent yet
	message   string
}

// keeper renews the leases of all running runs, many in one request, and ends what it could not renew in time.
type keeper struct {
	caller *caller
	log    *slog.Logger
	fail   func(error) // called when an engine says that the worker is not authorized
	parent context.Context

	mu     sync.Mutex
	leases map[*lease]struct{}
	next   time.Time // when the loop wakes
	wake   chan struct{}
}

func newKeeper(parent context.Context, c *caller, log *slog.Logger, fail func(error)) *keeper {
	return &keeper{caller: c, log: log, fail: fail, parent: parent, leases: make(map[*lease]struct{}), wake: make(chan struct{}, 1)}
}

// hold begins a lease that an answer to a request sent at sent said has remaining left.
func (k *keeper) hold(claim protocol.Claim, sent time.Time, remaining time.Duration) *lease {
	l := &lease{claim: claim, keeper: k, stop: func(error) {}}
	l.ctx, l.lose = context.WithCancelCause(k.parent)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leases[l] = struct{}{}
	l.extend(sent, remaining)
	l.timer = time.AfterFunc(time.Until(l.deadline), l.expire)
	k.expect(l.due)
	return l
}

// end gives the lease up; refused says whether an answer took it away before.
func (l *lease) end() (refused bool) {
	k := l.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	l.ended = true
	l.timer.Stop()
	delete(k.leases, l)
	l.lose(nil)
	return l.refused
}

// extend notes an answer. The caller holds keeper.mu.
func (l *lease) extend(sent time.Time, remaining time.Duration) {
	l.span, l.renewed, l.failures = remaining, sent, 0
	l.deadline = sent.Add(remaining)
	l.due = sent.Add(remaining / 3)
}

// alive is false from the deadline on, also when this process was stopped over it and the timer has yet to fire.
func (l *lease) alive() bool {
	l.keeper.mu.Lock()
	defer l.keeper.mu.Unlock()
	return l.ctx.Err() == nil && time.Now().Before(l.deadline)
}

func (l *lease) expire() {
	k := l.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.ended {
		return
	}
	if left := time.Until(l.deadline); left > 0 {
		l.timer.Reset(left)
		return
	}
	l.lose(ErrLeaseLost)
}

// report marks that the outcome is being sent: from here its own answer decides, not that of a heartbeat which
// crossed it.
func (l *lease) report() {
	l.keeper.mu.Lock()
	l.reporting = true
	l.keeper.mu.Unlock()
}

// onStop sets what ends the handler's context.
func (l *lease) onStop(stop context.CancelCauseFunc) {
	l.keeper.mu.Lock()
	l.stop = stop
	l.keeper.mu.Unlock()
}

// progress is said with the next heartbeat, which it brings forward.
func (l *lease) progress(fraction float64, message string) {
	k := l.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	l.fraction, l.message = &fraction, message
	if soon := l.renewed.Add(progressGap); soon.Before(l.due) {
		l.due = soon
		k.expect(soon)
	}
}

// expect wakes the loop if it would sleep beyond at. The caller holds mu.
func (k *keeper) expect(at time.Time) {
	if k.next.IsZero() || at.Before(k.next) {
		k.next = at
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// cancelHinted renews the leases of runs that are said to have been asked to end, now instead of later.
func (k *keeper) cancelHinted(runs []uuid.UUID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for l := range k.leases {
		switch {
		case !slices.Contains(runs, l.claim.RunID):
		case l.renewing:
			// That renewal may have been answered before the run was asked to end.
			l.again = true
		default:
			l.due = now
			k.expect(now)
		}
	}
}

// stopAll ends the context of every handler.
func (k *keeper) stopAll(cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for l := range k.leases {
		l.stop(cause)
	}
}

func (k *keeper) run(ctx context.Context, g *group) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-k.wake:
		}
		due, next := k.collect(time.Now())
		for len(due) > 0 {
			n := min(len(due), protocol.MaxItems)
			part := due[:n]
			due = due[n:]
			if !g.start(func() { k.renew(ctx, part) }) {
				return
			}
		}
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// collect takes the leases to renew now, those due within a sixth of their span included: one request instead of many.
func (k *keeper) collect(now time.Time) (due []*lease, next time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	anyDue := false
	for l := range k.leases {
		if !l.renewing && l.ctx.Err() == nil && !l.due.After(now) {
			anyDue = true
			break
		}
	}
	for l := range k.leases {
		if l.renewing || l.ctx.Err() != nil {
			continue
		}
		if anyDue && !l.due.After(now.Add(l.span/6)) {
			l.renewing = true
			due = append(due, l)
		} else if next.IsZero() || l.due.Before(next) {
			next = l.due
		}
	}
	k.next = next
	return due, next
}

func (k *keeper) renew(ctx context.Context, due []*lease) {
	items := make([][]byte, len(due))
	limit := k.caller.timing.nats
	k.mu.Lock()
	for i, l := range due {
		it := protocol.HeartbeatItem{RunID: l.claim.RunID, ClaimID: l.claim.ClaimID, Progress: l.fraction, Message: clip(l.message, 1<<10)}
		items[i], _ = json.Marshal(it) // ids, a finite number and text
		l.fraction, l.message = nil, ""
		// Two tries over each transport fit into the lease that is left.
		limit = min(limit, max(l.span/6, minRetry))
	}
	k.mu.Unlock()
	results, sent, err := callItems[protocol.HeartbeatResult](ctx, k.caller, protocol.OpHeartbeat, `{"items":[`, items, limit)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		k.log.Warn("leases not renewed", "runs", len(due), "error", err)
		if errorCode(err) == protocol.CodeUnauthorized {
			k.fail(err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, l := range due {
		l.renewing = false
		if l.ctx.Err() != nil {
			continue
		}
		if err != nil {
			l.retry()
		} else {
			l.answered(results[i], sent)
		}
		if l.again {
			l.again, l.due = false, time.Now()
		}
		k.expect(l.due)
	}
}

// retry plans another renewal soon. The caller holds keeper.mu.
func (l *lease) retry() {
	l.failures++
	l.due = time.Now().Add(min(max(l.span/20, minRetry)*time.Duration(min(l.failures, 4)), 5*time.Second))
}

// answered applies the result of a heartbeat. The caller holds keeper.mu.
func (l *lease) answered(r protocol.HeartbeatResult, sent time.Time) {
	switch {
	case r.Error != nil:
		l.retry()
	case r.Status == protocol.StatusRefused && r.Code == protocol.Unauthorized:
		l.keeper.fail(&protocol.Error{Code: protocol.CodeUnauthorized, Message: "heartbeat refused"})
		l.retry()
	case r.Status == protocol.StatusRefused:
		if l.reporting {
			l.due = time.Now().Add(l.span)
			return
		}
		l.refused = true
		cause := ErrLeaseLost
		if r.Code == protocol.Cancelled {
			cause = ErrCancelled
		}
		l.keeper.log.Warn("lease taken away", "run", l.claim.RunID, "code", r.Code)
		l.lose(cause)
	default:
		l.extend(sent, r.LeaseRemaining.Std())
		l.timer.Reset(time.Until(l.deadline))
		if r.Cancel {
			l.stop(ErrCancelled)
		}
	}
}
