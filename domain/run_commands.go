package domain

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// RunCommand is something asked of a run.
//
//sumtype:decl
type RunCommand interface{ runCommand() }

// ScheduleRun opens the stream of a run.
type ScheduleRun struct {
	Event RunScheduled
}

// ClaimRun takes a pending run in hand.
type ClaimRun struct {
	ClaimID uuid.UUID
	Lease   time.Duration // dispatch lease
}

// StartRun is a worker's compare-and-set on the claim. A repeat with the same
// token is answered like the first.
type StartRun struct {
	ClaimID uuid.UUID
	Token   uuid.UUID
	Worker  string
	Timeout time.Duration // of the attempt; 0 is none
	ExecutionTerms
}

// SucceedRun records success.
type SucceedRun struct {
	ClaimID uuid.UUID
}

// FailRun records a failed attempt: another one follows unless the failure is
// final or the attempts are used up.
type FailRun struct {
	ClaimID    uuid.UUID
	Error      RunError
	Retryable  bool
	RetryAfter time.Duration // 0: the policy's back-off
	Policy     RetryPolicy
}

// SnoozeRun gives an attempt back, to run after the delay.
type SnoozeRun struct {
	ClaimID uuid.UUID
	Delay   time.Duration
}

// ReleaseRun gives a claim back, started or not. With a Token it speaks for the
// delivery whose start was sent with it, and is refused when another delivery of
// the claim has started. Undeliverable says that the broker refused the run's
// message: it counts like a claim nobody started, and is refused once somebody
// has, to whom the hint came another way.
type ReleaseRun struct {
	ClaimID       uuid.UUID
	Token         uuid.UUID // zero: whoever started may be meant
	Reason        string
	Undeliverable bool
}

// ExpireRun closes a claim whose lease is over. Excused says that the message
// was lost with its stream, so that a claim nobody started is not put off.
type ExpireRun struct {
	Policy  RetryPolicy
	Excused bool
}

// CancelRun ends a run that has not started and flags one that has.
type CancelRun struct {
	Reason string
}

// SkipRun decides against a run before its first claim.
type SkipRun struct {
	Reason    string
	BlockedBy *uuid.UUID
}

func (ScheduleRun) runCommand() {}
func (ClaimRun) runCommand()    {}
func (StartRun) runCommand()    {}
func (SucceedRun) runCommand()  {}
func (FailRun) runCommand()     {}
func (SnoozeRun) runCommand()   {}
func (ReleaseRun) runCommand()  {}
func (ExpireRun) runCommand()   {}
func (CancelRun) runCommand()   {}
func (SkipRun) runCommand()     {}

// Code names a refusal. The names are part of the worker protocol.
type Code string

// The codes of refusals.
const (
	CodeStaleClaim     Code = "stale_claim"
	CodeAlreadyStarted Code = "already_started"
	CodeNotStarted     Code = "not_started"
	CodeTerminal       Code = "terminal"
	CodeCancelled      Code = "cancelled"
	CodeUnknownRun     Code = "unknown_run"
	CodeLeaseOver      Code = "lease_over"
	CodeLeaseLive      Code = "lease_live" // internal: the reaper came too early
	CodeNotDue         Code = "not_due"    // internal: a claim came too early
	CodeExists         Code = "exists"     // internal: the stream is open already
)

// Refusal is the error of a command that the state does not allow. Nothing has
// changed and a repeat will be refused too.
type Refusal struct {
	Code Code
	Run  uuid.UUID
	// UnknownClaim marks a claim that the history has never seen: the command
	// comes from a future that a restore or a failover has undone.
	UnknownClaim bool
}

func (r *Refusal) Error() string { return fmt.Sprintf("run %s: %s", r.Run, r.Code) }

// Decision is the answer to a command that was not refused: the event to append,
// or the event that recorded the same command before.
type Decision struct {
	Event  RunEvent
	Repeat bool // Event is in the stream already
}

// StorableError makes an error storable: PostgreSQL's text and jsonb hold no
// NUL, and one attempt must not fill the log.
func StorableError(e RunError) RunError {
	const maxMessage, maxStack = 4 << 10, 16 << 10
	return RunError{
		Type:    storable(e.Type, 128),
		Message: storable(e.Message, maxMessage),
		Stack:   storable(e.Stack, maxStack),
	}
}

// CheckStorable reports why PostgreSQL could not store the value as jsonb, or
// not give it back.
func CheckStorable(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	if !json.Valid(raw) {
		return fmt.Errorf("not valid JSON")
	}
	if err := checkEscapes(raw); err != nil {
		return err
	}
	return checkNumbers(raw)
}
