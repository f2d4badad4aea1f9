package protocol

import "fmt"

// Worker operations.
const (
	OpPoll      = "poll" // HTTP only
	OpStart     = "start"
	OpHeartbeat = "heartbeat"
	OpComplete  = "complete"
	OpFail      = "fail"
	OpSnooze    = "snooze"
	OpRelease   = "release"
	OpPresence  = "presence"
	OpEnqueue   = "enqueue" // for programs that ask for runs; they need not be workers
)

// Status says what became of one item of a request.
type Status string

// The statuses. A heartbeat that was accepted has none.
const (
	StatusStarted   Status = "started"
	StatusRefused   Status = "refused"   // decided and final for this claim; see the code
	StatusRecorded  Status = "recorded"  // the outcome is in the log
	StatusUnchanged Status = "unchanged" // this claim had recorded that very outcome before
	StatusFailed    Status = "failed"    // of a complete: its result could not be stored, and the run was failed for that
)

// Next is where a failed attempt leaves its run.
type Next string

// The values of Next.
const (
	NextRetry     Next = "retry"     // again at the time given
	NextFailed    Next = "failed"    // no attempt is left, or the error allows none
	NextCancelled Next = "cancelled" // cancelling was asked for before the attempt ended
)

// RefusalCode is why an item was refused. A refusal is an answer: repeating the item cannot change it.
type RefusalCode string

// The refusals. Every worker acknowledges the message on each of them except Unauthorized.
const (
	StaleClaim     RefusalCode = "stale_claim"     // the run has a newer claim, or none
	AlreadyStarted RefusalCode = "already_started" // this claim was started by another delivery
	NotStarted     RefusalCode = "not_started"     // an outcome for a claim that never started
	Terminal       RefusalCode = "terminal"        // the run is over
	Cancelled      RefusalCode = "cancelled"       // the run was cancelled
	UnknownRun     RefusalCode = "unknown_run"     // no such run: a message from the future after a restore
	LeaseOver      RefusalCode = "lease_over"      // the lease has lapsed
	Unauthorized   RefusalCode = "unauthorized"    // the worker may not do this: stop pulling, do not acknowledge
)

// ErrorCode is why a request, or an item, was not decided at all.
type ErrorCode string

// The error codes. Unavailable and Internal are worth repeating.
const (
	CodeUnavailable  ErrorCode = "unavailable"  // the database cannot be reached, or the engine is stopping
	CodeInternal     ErrorCode = "internal"     // a fault of the engine
	CodeInvalid      ErrorCode = "invalid"      // the request cannot be read
	CodeUnauthorized ErrorCode = "unauthorized" // no or an insufficient token
	CodeTooLarge     ErrorCode = "too_large"    // request or reply exceed what the transport carries: send fewer items
	CodeUnknownOp    ErrorCode = "unknown_op"   // the engine does not know the operation
	CodeNotFound     ErrorCode = "not_found"    // enqueue: no such job
	CodeConflict     ErrorCode = "conflict"     // enqueue: the job is archived, say
)

// Error is an error reply: nothing was decided.
type Error struct {
	Code    ErrorCode `json:"code"`
	Message string    `json:"message"`
}

// Error is "message (code)".
func (e *Error) Error() string { return fmt.Sprintf("%s (%s)", e.Message, e.Code) }

// Temporary reports whether the same request may succeed later.
func (e *Error) Temporary() bool { return e.Code == CodeUnavailable || e.Code == CodeInternal }
