package domain

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// DecideRun decides a command on a run. The time is the transaction's; an event
// may be dated later than that, see EventTime.
func DecideRun(r Run, command RunCommand, now time.Time) (Decision, error) {
	if c, ok := command.(ScheduleRun); ok {
		if r.Version > 0 {
			return refuse(r, CodeExists)
		}
		return Decision{Event: c.Event}, nil
	}
	if r.Version == 0 {
		return refuse(r, CodeUnknownRun)
	}
	switch c := command.(type) {
	case ClaimRun:
		return decideClaim(r, c, now)
	case StartRun:
		return decideStart(r, c, now)
	case SucceedRun:
		return decideOutcome(r, c.ClaimID, OpSucceed, func() RunEvent {
			return RunSucceeded{ClaimID: c.ClaimID, Attempt: r.Attempt}
		})
	case FailRun:
		return decideOutcome(r, c.ClaimID, OpFail, func() RunEvent {
			return failed(r, OpFail, c.Error, c.Retryable, c.RetryAfter, c.Policy, now)
		})
	case SnoozeRun:
		return decideOutcome(r, c.ClaimID, OpSnooze, func() RunEvent {
			if r.CancelRequested {
				return cancelled(r, OpSnooze)
			}
			return RunSnoozed{ClaimID: c.ClaimID, Attempt: r.Attempt, ReadyAt: now.Add(max(c.Delay, 0))}
		})
	case ReleaseRun:
		return decideRelease(r, c, now)
	case ExpireRun:
		return decideExpire(r, c, now)
	case CancelRun:
		return decideCancel(r, c)
	case SkipRun:
		switch {
		case r.State.Terminal():
			return refuse(r, CodeTerminal)
		case r.State != Pending || r.Claims > 0:
			return refuse(r, CodeStaleClaim)
		}
		return Decision{Event: RunSkipped(c)}, nil
	case ScheduleRun:
	}
	return Decision{}, fmt.Errorf("run %s: unknown command %T", r.ID, command)
}

// EventTime is the time to date an event with: the transaction's, but never
// before the stream's last event. A transaction that waited for a row began
// before the event it waited for.
func EventTime(changedAt, now time.Time) time.Time {
	if changedAt.After(now) {
		return changedAt
	}
	return now
}

func decideClaim(r Run, c ClaimRun, now time.Time) (Decision, error) {
	switch {
	case r.State.Terminal():
		return refuse(r, CodeTerminal)
	case r.State != Pending:
		return refuse(r, CodeStaleClaim)
	case r.ReadyAt.After(now):
		return refuse(r, CodeNotDue)
	}
	return Decision{Event: RunClaimed{ClaimID: c.ClaimID, LeaseUntil: now.Add(c.Lease), Dispatch: r.Dispatches + 1}}, nil
}

func decideStart(r Run, c StartRun, now time.Time) (Decision, error) {
	switch {
	case r.State == Cancelled:
		return refuse(r, CodeCancelled)
	case r.State.Terminal():
		return refuse(r, CodeTerminal)
	case !r.InHand() || r.ClaimID != c.ClaimID:
		return refuseClaim(r, c.ClaimID)
	case r.State == Running && r.Token != c.Token:
		return refuse(r, CodeAlreadyStarted)
	case !r.LeaseUntil.After(now):
		return refuse(r, CodeLeaseOver)
	case r.State == Running:
		return Decision{Event: r.started(), Repeat: true}, nil
	}
	e := RunStarted{ClaimID: c.ClaimID, Token: c.Token, Worker: c.Worker, Attempt: r.Attempt + 1}
	if c.Timeout > 0 {
		d := now.Add(c.Timeout)
		e.Deadline = &d
	}
	e.LeaseUntil = c.End(now, e.Deadline)
	return Decision{Event: e}, nil
}

// started rebuilds the RunStarted of the open claim.
func (r Run) started() RunStarted {
	if r.start != nil {
		return *r.start
	}
	return RunStarted{ClaimID: r.ClaimID, Token: r.Token, Worker: r.Worker, Attempt: r.Attempt, LeaseUntil: r.LeaseUntil, Deadline: r.Deadline}
}

// decideOutcome closes a started claim. A lapsed lease does not matter until the
// reaper has closed the claim.
func decideOutcome(r Run, claim uuid.UUID, op Op, event func() RunEvent) (Decision, error) {
	switch {
	case r.ClaimID == claim && r.State == Running:
		return Decision{Event: event()}, nil
	case r.ClaimID == claim && r.State == Claimed:
		return refuse(r, CodeNotStarted)
	}
	return repeat(r, claim, op)
}

// repeat answers a command of a claim that is not open: from the event that
// recorded it, if this claim and operation did.
func repeat(r Run, claim uuid.UUID, op Op) (Decision, error) {
	if by := r.closedBy(claim); by != nil && endedBy(by) == op {
		return Decision{Event: by, Repeat: true}, nil
	}
	if r.State.Terminal() {
		return refuse(r, CodeTerminal)
	}
	return refuseClaim(r, claim)
}

func endedBy(e RunEvent) Op {
	switch e := e.(type) {
	case RunSucceeded:
		return OpSucceed
	case RunFailed:
		return e.Op
	case RunRetryScheduled:
		return e.Op
	case RunSnoozed:
		return OpSnooze
	case RunInterrupted:
		return OpRelease
	case RunReleased:
		return e.Op
	case RunCancelled:
		return e.Op
	case RunScheduled, RunClaimed, RunStarted, RunCancelRequested, RunSkipped:
	}
	return ""
}

func failed(r Run, op Op, cause RunError, retryable bool, after time.Duration, p RetryPolicy, now time.Time) RunEvent {
	if r.CancelRequested {
		return cancelled(r, op)
	}
	cause = StorableError(cause)
	if !retryable || r.Attempt >= p.MaxAttempts {
		return RunFailed{ClaimID: r.ClaimID, Op: op, Attempt: r.Attempt, Error: cause}
	}
	if after <= 0 {
		after = p.Backoff(r.ID, r.Attempt)
	}
	return RunRetryScheduled{ClaimID: r.ClaimID, Op: op, Attempt: r.Attempt, ReadyAt: now.Add(after), Error: cause}
}

func cancelled(r Run, op Op) RunEvent {
	claim := r.ClaimID
	return RunCancelled{ClaimID: &claim, Op: op, Reason: r.CancelReason}
}

func decideRelease(r Run, c ReleaseRun, now time.Time) (Decision, error) {
	if r.ClaimID != c.ClaimID || !r.InHand() {
		return repeat(r, c.ClaimID, OpRelease)
	}
	switch {
	case r.State == Running && (c.Undeliverable || c.Token != uuid.Nil && c.Token != r.Token):
		return refuse(r, CodeAlreadyStarted) // the attempt is somebody else's, who is at work
	case r.CancelRequested:
		return Decision{Event: cancelled(r, OpRelease)}, nil
	case r.State == Running:
		return Decision{Event: RunInterrupted{ClaimID: c.ClaimID, Attempt: r.Attempt, Reason: storable(c.Reason, 1024), ReadyAt: now}}, nil
	}
	return Decision{Event: RunReleased{ClaimID: c.ClaimID, Op: OpRelease, Reason: storable(c.Reason, 1024), ReadyAt: now.Add(releaseDelay(r.Dispatches))}}, nil
}

// Reasons and error types that the reaper records.
const (
	ReasonNotStarted = "not_started"   // nobody started the run before its dispatch lease ended
	ReasonStreamLost = "stream_lost"   // its message went down with the broker's stream
	ErrorLeaseOver   = "lease_expired" // the worker fell silent
	ErrorTimeout     = "timeout"       // the attempt passed its deadline
)

func decideExpire(r Run, c ExpireRun, now time.Time) (Decision, error) {
	switch {
	case r.State.Terminal():
		return refuse(r, CodeTerminal)
	case !r.InHand():
		return refuse(r, CodeStaleClaim)
	case r.LeaseUntil.After(now):
		return refuse(r, CodeLeaseLive)
	}
	if r.State == Running {
		cause := RunError{Type: ErrorLeaseOver, Message: fmt.Sprintf("worker %s did not renew its lease; it ended at %s", r.Worker, r.LeaseUntil.UTC().Format(time.RFC3339Nano))}
		if r.Deadline != nil && !now.Before(*r.Deadline) {
			cause = RunError{Type: ErrorTimeout, Message: "the attempt passed its deadline of " + r.Deadline.UTC().Format(time.RFC3339Nano)}
		}
		return Decision{Event: failed(r, OpExpire, cause, true, 0, c.Policy, now)}, nil
	}
	e := RunReleased{ClaimID: r.ClaimID, Op: OpExpire, Reason: ReasonStreamLost, ReadyAt: now}
	if !c.Excused {
		e.Reason, e.ReadyAt = ReasonNotStarted, now.Add(releaseDelay(r.Dispatches))
	}
	return Decision{Event: e}, nil
}

func decideCancel(r Run, c CancelRun) (Decision, error) {
	reason := storable(c.Reason, 1024)
	switch {
	case r.State == Cancelled:
		return Decision{Event: r.Final, Repeat: true}, nil
	case r.State.Terminal():
		return refuse(r, CodeTerminal)
	case r.State == Running && r.CancelRequested:
		return Decision{Event: RunCancelRequested{ClaimID: r.ClaimID, Reason: r.CancelReason}, Repeat: true}, nil
	case r.State == Running:
		return Decision{Event: RunCancelRequested{ClaimID: r.ClaimID, Reason: reason}}, nil
	case r.State == Claimed:
		claim := r.ClaimID
		return Decision{Event: RunCancelled{ClaimID: &claim, Op: OpCancel, Reason: reason}}, nil
	}
	return Decision{Event: RunCancelled{Op: OpCancel, Reason: reason}}, nil
}

func refuse(r Run, code Code) (Decision, error) {
	return Decision{}, &Refusal{Code: code, Run: r.ID}
}

// refuseClaim refuses a claim that is not the open one.
func refuseClaim(r Run, claim uuid.UUID) (Decision, error) {
	known := r.closedBy(claim) != nil
	return Decision{}, &Refusal{Code: CodeStaleClaim, Run: r.ID, UnknownClaim: !known}
}
