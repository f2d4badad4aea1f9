package domain

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// RunEvent is a fact of a run's stream.
//
//sumtype:decl
type RunEvent interface {
	Event
	runEvent()
}

// Origin says why a run exists.
type Origin string

// The origins of runs. Scheduled and backfilled runs are keyed by their instant,
// requested ones by their key.
const (
	OriginSchedule Origin = "schedule"
	OriginBackfill Origin = "backfill"
	OriginRequest  Origin = "request"
	OriginRetry    Origin = "retry" // a request made to run a finished run again
)

// RunScheduled opens a run's stream. It pins the version of the job that all
// policies of the run come from.
type RunScheduled struct {
	JobID       uuid.UUID       `json:"job_id"`
	Job         string          `json:"job"`
	JobVersion  int             `json:"job_version"`
	Origin      Origin          `json:"origin"`
	ScheduledAt time.Time       `json:"scheduled_at"` // the nominal instant
	ReadyAt     time.Time       `json:"ready_at"`     // the earliest claim
	Nominal     string          `json:"nominal,omitempty"`
	CatchUp     bool            `json:"catch_up,omitempty"`
	Queue       string          `json:"queue"`
	Kind        string          `json:"kind"`
	Priority    int             `json:"priority"`
	Key         string          `json:"key,omitempty"`
	Args        json.RawMessage `json:"args,omitempty"` // only where the request gave its own
	RetryOf     *uuid.UUID      `json:"retry_of,omitempty"`
	Reason      string          `json:"reason,omitempty"`
}

// RunClaimed begins a claim: the run is in hand until the dispatch lease ends
// or a worker starts it.
type RunClaimed struct {
	ClaimID    uuid.UUID `json:"claim_id"`
	LeaseUntil time.Time `json:"lease_until"`
	Dispatch   int       `json:"dispatch"` // claims since the last start, this one included
}

// RunStarted charges an attempt and begins the execution lease.
type RunStarted struct {
	ClaimID    uuid.UUID  `json:"claim_id"`
	Token      uuid.UUID  `json:"token"`
	Worker     string     `json:"worker"`
	Attempt    int        `json:"attempt"`
	LeaseUntil time.Time  `json:"lease_until"`
	Deadline   *time.Time `json:"deadline,omitempty"`
}

// Op names the operation that closed a claim, so that its repeat can be
// answered from the stream.
type Op string

// The operations that close claims.
const (
	OpSucceed Op = "succeed"
	OpFail    Op = "fail"
	OpSnooze  Op = "snooze"
	OpRelease Op = "release"
	OpExpire  Op = "expire" // the reaper, after the lease
	OpCancel  Op = "cancel"
)

// RunReleased ends a claim that never started. Nothing is charged.
type RunReleased struct {
	ClaimID uuid.UUID `json:"claim_id"`
	Op      Op        `json:"op"`
	Reason  string    `json:"reason"`
	ReadyAt time.Time `json:"ready_at"`
}

// RunRetryScheduled ends a failed attempt that is tried again.
type RunRetryScheduled struct {
	ClaimID uuid.UUID `json:"claim_id"`
	Op      Op        `json:"op"`
	Attempt int       `json:"attempt"`
	ReadyAt time.Time `json:"ready_at"`
	Error   RunError  `json:"error"`
}

// RunSnoozed ends an attempt that asked to run later. The attempt is refunded.
type RunSnoozed struct {
	ClaimID uuid.UUID `json:"claim_id"`
	Attempt int       `json:"attempt"` // the attempt that is refunded
	ReadyAt time.Time `json:"ready_at"`
}

// RunInterrupted ends an attempt that its worker gave back, for example because
// it drains. The attempt is refunded.
type RunInterrupted struct {
	ClaimID uuid.UUID `json:"claim_id"`
	Attempt int       `json:"attempt"` // the attempt that is refunded
	Reason  string    `json:"reason"`
	ReadyAt time.Time `json:"ready_at"`
}

// RunCancelRequested flags the claim of a running run; the run ends with the
// worker or with its lease.
type RunCancelRequested struct {
	ClaimID uuid.UUID `json:"claim_id"`
	Reason  string    `json:"reason,omitempty"`
}

// RunSucceeded is final.
type RunSucceeded struct {
	ClaimID uuid.UUID `json:"claim_id"`
	Attempt int       `json:"attempt"`
}

// RunFailed is final.
type RunFailed struct {
	ClaimID uuid.UUID `json:"claim_id"`
	Op      Op        `json:"op"`
	Attempt int       `json:"attempt"`
	Error   RunError  `json:"error"`
}

// RunCancelled is final. It has no claim when the run was not in hand.
type RunCancelled struct {
	ClaimID *uuid.UUID `json:"claim_id,omitempty"`
	Op      Op         `json:"op"` // what ended the claim, or OpCancel
	Reason  string     `json:"reason,omitempty"`
}

// RunSkipped is final: the run was decided against before its first claim.
type RunSkipped struct {
	Reason    string     `json:"reason"`
	BlockedBy *uuid.UUID `json:"blocked_by,omitempty"` // the run that held the place
}

// RunError is what went wrong in an attempt.
type RunError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
}

// The names under which the events are stored.
func (RunScheduled) EventType() string       { return "RunScheduled" }
func (RunClaimed) EventType() string         { return "RunClaimed" }
func (RunStarted) EventType() string         { return "RunStarted" }
func (RunReleased) EventType() string        { return "RunReleased" }
func (RunRetryScheduled) EventType() string  { return "RunRetryScheduled" }
func (RunSnoozed) EventType() string         { return "RunSnoozed" }
func (RunInterrupted) EventType() string     { return "RunInterrupted" }
func (RunCancelRequested) EventType() string { return "RunCancelRequested" }
func (RunSucceeded) EventType() string       { return "RunSucceeded" }
func (RunFailed) EventType() string          { return "RunFailed" }
func (RunCancelled) EventType() string       { return "RunCancelled" }
func (RunSkipped) EventType() string         { return "RunSkipped" }

func (RunScheduled) runEvent()       {}
func (RunClaimed) runEvent()         {}
func (RunStarted) runEvent()         {}
func (RunReleased) runEvent()        {}
func (RunRetryScheduled) runEvent()  {}
func (RunSnoozed) runEvent()         {}
func (RunInterrupted) runEvent()     {}
func (RunCancelRequested) runEvent() {}
func (RunSucceeded) runEvent()       {}
func (RunFailed) runEvent()          {}
func (RunCancelled) runEvent()       {}
func (RunSkipped) runEvent()         {}
