package protocol

import (
	"encoding/json"

	"github.com/google/uuid"
)

// Limits of a request. Both sides enforce them; an engine may be configured lower and then answers CodeTooLarge.
const (
	MaxItems       = 2000       // items in one request
	MaxResultBytes = 256 << 10  // JSON result of one run
	MaxOutputBytes = 64 << 10   // head and tail together, before encoding
	MaxErrorBytes  = 8 << 10    // message of an error
	MaxStackBytes  = 16 << 10   // stack of an error
	MaxRequest     = 1000 << 10 // request body over NATS, whose default payload limit is 1 MiB
)

// Lane is a (queue, kind): what a worker declares and what a consumer serves.
type Lane struct {
	Queue string `json:"queue"`
	Kind  string `json:"kind"`
}

// Claim names a run in hand. The claim id fences it.
type Claim struct {
	RunID   uuid.UUID `json:"run_id"`
	ClaimID uuid.UUID `json:"claim_id"`
}

// PollRequest asks for unstarted claims over HTTP, waiting up to Wait for the first one.
type PollRequest struct {
	WorkerID string   `json:"worker_id"`
	Lanes    []Lane   `json:"lanes"`
	Max      int      `json:"max"`
	Wait     Duration `json:"wait,omitzero"`
}

// PollReply holds at most Max hints. The same claim may be handed out again until it is started.
type PollReply struct {
	Dispatches []Hint `json:"dispatches"`
	Error      *Error `json:"error,omitempty"`
}

// StartRequest asks for permission to execute.
type StartRequest struct {
	WorkerID string      `json:"worker_id"`
	Items    []StartItem `json:"items"`
}

// StartItem is one run to start. Token is random per delivery; a repeat of the same token gets the same answer.
type StartItem struct {
	RunID   uuid.UUID `json:"run_id"`
	ClaimID uuid.UUID `json:"claim_id"`
	Token   uuid.UUID `json:"token"`
}

// StartResult brings what there is to do, or the refusal.
type StartResult struct {
	Status         Status          `json:"status,omitempty"` // StatusStarted or StatusRefused
	Code           RefusalCode     `json:"code,omitempty"`
	Error          *Error          `json:"error,omitempty"` // not decided: repeat with the same token
	RunID          uuid.UUID       `json:"run_id,omitzero"`
	Job            string          `json:"job,omitempty"`
	JobID          uuid.UUID       `json:"job_id,omitzero"`
	Kind           string          `json:"kind,omitempty"`
	Origin         string          `json:"origin,omitempty"` // why the run exists: a schedule, a request, …
	Args           json.RawMessage `json:"args,omitempty"`
	Target         json.RawMessage `json:"target,omitempty"` // kinds exec and http: what to execute
	Attempt        int             `json:"attempt,omitempty"`
	MaxAttempts    int             `json:"max_attempts,omitempty"`
	ScheduledAt    Time            `json:"scheduled_at,omitzero"`
	Timeout        Duration        `json:"timeout,omitzero"`         // as the job defines it; absent: none
	Deadline       Duration        `json:"deadline,omitzero"`        // what remains of the timeout; absent: none
	LeaseRemaining Duration        `json:"lease_remaining,omitzero"` // measured by the database
	Traceparent    string          `json:"traceparent,omitempty"`
}

// HeartbeatRequest renews execution leases.
type HeartbeatRequest struct {
	Items []HeartbeatItem `json:"items"`
}

// HeartbeatItem renews one lease. Progress and Message replace what was said before; absent leaves it.
type HeartbeatItem struct {
	RunID    uuid.UUID `json:"run_id"`
	ClaimID  uuid.UUID `json:"claim_id"`
	Progress *float64  `json:"progress,omitempty"` // 0 to 1
	Message  string    `json:"message,omitempty"`
}

// CancelHint says that the runs were asked to end. It may be lost, be late or be made up: a worker that has one of them
// renews its lease now instead of later, and the answer says whether to stop.
type CancelHint struct {
	RunIDs []uuid.UUID `json:"run_ids"`
}

// HeartbeatResult has no status when the lease was renewed. Cancel asks the worker to stop the run; the claim stays
// until the worker reports an end.
type HeartbeatResult struct {
	Status         Status      `json:"status,omitempty"`
	Code           RefusalCode `json:"code,omitempty"`
	Error          *Error      `json:"error,omitempty"`
	LeaseRemaining Duration    `json:"lease_remaining,omitzero"`
	Cancel         bool        `json:"cancel"`
}

// CompleteRequest records successes.
type CompleteRequest struct {
	Items []CompleteItem `json:"items"`
}

// CompleteItem is one success, with what it returned and wrote.
type CompleteItem struct {
	RunID   uuid.UUID       `json:"run_id"`
	ClaimID uuid.UUID       `json:"claim_id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Output  *Output         `json:"output,omitempty"`
	Ran     Duration        `json:"ran,omitzero"` // how long the handler took; absent: not measured
}

// FailRequest records failed attempts.
type FailRequest struct {
	Items []FailItem `json:"items"`
}

// FailItem is one failed attempt. RetryAfter, if set, replaces the back-off of the job's retry policy.
type FailItem struct {
	RunID      uuid.UUID `json:"run_id"`
	ClaimID    uuid.UUID `json:"claim_id"`
	Error      RunError  `json:"error"`
	Retryable  bool      `json:"retryable"`
	RetryAfter Duration  `json:"retry_after,omitzero"`
	Output     *Output   `json:"output,omitempty"`
	Ran        Duration  `json:"ran,omitzero"` // as in CompleteItem
}

// RunError is why an attempt failed.
type RunError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
}

// FailResult says what comes next for the run, or the refusal.
type FailResult struct {
	Status Status      `json:"status,omitempty"`
	Code   RefusalCode `json:"code,omitempty"`
	Error  *Error      `json:"error,omitempty"`
	Next   Next        `json:"next,omitempty"`
	At     Time        `json:"at,omitzero"` // of NextRetry
}

// SnoozeRequest puts started runs off; the attempt is refunded.
type SnoozeRequest struct {
	Items []SnoozeItem `json:"items"`
}

// SnoozeItem is one run to run again after Delay.
type SnoozeItem struct {
	RunID   uuid.UUID `json:"run_id"`
	ClaimID uuid.UUID `json:"claim_id"`
	Delay   Duration  `json:"delay"`
}

// ReleaseRequest gives runs back; an attempt that had started is refunded.
type ReleaseRequest struct {
	Items []ReleaseItem `json:"items"`
}

// ReleaseItem is one run given back. Token is that of an unanswered start.
type ReleaseItem struct {
	RunID   uuid.UUID `json:"run_id"`
	ClaimID uuid.UUID `json:"claim_id"`
	Token   uuid.UUID `json:"token,omitzero"`
	Reason  string    `json:"reason"`
}

// Result answers an item of complete, snooze and release.
type Result struct {
	Status Status      `json:"status,omitempty"`
	Code   RefusalCode `json:"code,omitempty"`
	Error  *Error      `json:"error,omitempty"`
}

// Reply is the reply to a request with items: one result per item, in the order of the items, or an error and no results.
type Reply[R any] struct {
	Results []R    `json:"results,omitempty"`
	Error   *Error `json:"error,omitempty"`
}

// PresenceRequest tells engines that a worker lives. A worker that drains declares no lanes.
type PresenceRequest struct {
	WorkerID string `json:"worker_id"`
	Lanes    []Lane `json:"lanes"`
	Slots    int    `json:"slots"`
	Version  string `json:"version,omitempty"`
	Host     string `json:"host,omitempty"`
}

// PresenceReply is {} or an error.
type PresenceReply struct {
	Error *Error `json:"error,omitempty"`
}

// EnqueueRequest asks for runs.
type EnqueueRequest struct {
	Items []EnqueueItem `json:"items"`
}

// EnqueueItem is one run asked for. The body of POST /v1/jobs/{name}/runs is the same without job.
type EnqueueItem struct {
	Job  string          `json:"job,omitempty"`
	Key  string          `json:"key,omitempty"` // the same key gives the same run; absent: one is generated
	At   Time            `json:"at,omitzero"`   // absent: now
	Args json.RawMessage `json:"args,omitempty"`

	Reason string `json:"reason,omitempty"` // for the record
}

// EnqueueResult names the run. Created is false if its key had one already.
type EnqueueResult struct {
	RunID   uuid.UUID `json:"run_id,omitzero"`
	Created bool      `json:"created"`
	Error   *Error    `json:"error,omitempty"`
}
