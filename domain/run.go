package domain

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// State is where a run is in its life.
type State string

// The states of a run.
const (
	Pending   State = "pending"   // waits for its time, for credit or for a place
	Claimed   State = "claimed"   // in hand, on its way to a worker; the dispatch lease runs
	Running   State = "running"   // started; the execution lease runs, a crash costs an attempt
	Succeeded State = "succeeded" // final
	Failed    State = "failed"    // final
	Cancelled State = "cancelled" // final
	Skipped   State = "skipped"   // final: never claimed
)

// States lists every state, in the order of a run's life.
var States = []State{Pending, Claimed, Running, Succeeded, Failed, Cancelled, Skipped}

// Terminal reports whether nothing follows the state.
func (s State) Terminal() bool {
	switch s {
	case Succeeded, Failed, Cancelled, Skipped:
		return true
	case Pending, Claimed, Running:
	}
	return false
}

// Run is the state of a run: the fold of its stream. The zero Run is a stream
// without events. Where a live row carries the state, Closed is not loaded, and
// a command of another claim must be decided on the folded stream instead.
type Run struct {
	ID      uuid.UUID
	Version int // of the last event; 0 before the first
	State   State

	JobID       uuid.UUID
	Job         string
	JobVersion  int
	Origin      Origin
	ScheduledAt time.Time
	ReadyAt     time.Time
	Queue       string
	Kind        string
	Priority    int
	Key         string
	Args        json.RawMessage
	RetryOf     *uuid.UUID
	CatchUp     bool

	Attempt    int // attempts charged so far
	Dispatches int // claims since the last start
	Claims     int // claims in all
	ChangedAt  time.Time
	// WaitingSince is when the run was first set aside for a place; zero if it
	// was not. It is no event: it comes from the run's row and ends with a claim.
	WaitingSince time.Time

	ClaimID         uuid.UUID // of the open claim
	Token           uuid.UUID
	Worker          string
	StartedAt       time.Time
	LeaseUntil      time.Time
	Deadline        *time.Time
	CancelRequested bool
	CancelReason    string

	Closed []ClosedClaim // in their order
	Final  RunEvent      // the terminal event
	start  *RunStarted   // of the open claim, from the fold
}

// ClosedClaim is a claim that has ended, and what ended it.
type ClosedClaim struct {
	ClaimID uuid.UUID
	By      RunEvent
}

// closedBy is what ended the claim, nil if that is not known.
func (r Run) closedBy(claim uuid.UUID) RunEvent {
	for i := len(r.Closed) - 1; i >= 0; i-- {
		if r.Closed[i].ClaimID == claim {
			return r.Closed[i].By
		}
	}
	return nil
}

// InHand reports whether the run has an open claim.
func (r Run) InHand() bool { return r.State == Claimed || r.State == Running }

// FoldRun folds a run's events, which must be the stream from its first event.
// Each element pairs an event with its time.
func FoldRun(id uuid.UUID, events []Dated[RunEvent]) (Run, error) {
	r := Run{ID: id}
	for _, e := range events {
		var err error
		if r, err = EvolveRun(r, e.Event, e.At); err != nil {
			return r, err
		}
	}
	return r, nil
}

// Dated is an event and its time.
type Dated[E Event] struct {
	Event E
	At    time.Time
}

// IllegalEventError reports an event that cannot follow the state it met: the
// stream is not a legal path.
type IllegalEventError struct {
	Stream  uuid.UUID
	Version int // of the offending event
	State   string
	Event   string
	Why     string
}

func (e *IllegalEventError) Error() string {
	return fmt.Sprintf("stream %s version %d: %s cannot follow state %q: %s", e.Stream, e.Version, e.Event, e.State, e.Why)
}

// EvolveRun applies an event that happened at the given time. It fails on an
// event that no legal path has at that place.
func EvolveRun(r Run, event RunEvent, at time.Time) (Run, error) {
	illegal := func(why string) (Run, error) {
		return r, &IllegalEventError{Stream: r.ID, Version: r.Version + 1, State: string(r.State), Event: event.EventType(), Why: why}
	}
	if _, opening := event.(RunScheduled); opening != (r.Version == 0) {
		return illegal("RunScheduled opens a stream, and nothing else does")
	}
	if r.State.Terminal() {
		return illegal("the run is final")
	}
	next := r
	next.Version++
	next.ChangedAt = at
	switch e := event.(type) {
	case RunScheduled:
		next.State = Pending
		next.JobID, next.Job, next.JobVersion = e.JobID, e.Job, e.JobVersion
		next.Origin, next.ScheduledAt, next.ReadyAt = e.Origin, e.ScheduledAt, e.ReadyAt
		next.Queue, next.Kind, next.Priority = e.Queue, e.Kind, e.Priority
		next.Key, next.Args, next.RetryOf, next.CatchUp = e.Key, e.Args, e.RetryOf, e.CatchUp
	case RunClaimed:
		if r.State != Pending {
			return illegal("only a pending run is claimed")
		}
		if e.Dispatch != r.Dispatches+1 {
			return illegal("claims without a start are counted one by one")
		}
		next.State, next.ClaimID, next.LeaseUntil = Claimed, e.ClaimID, e.LeaseUntil
		next.Dispatches, next.Claims, next.WaitingSince = e.Dispatch, r.Claims+1, time.Time{}
	case RunStarted:
		if r.State != Claimed || r.ClaimID != e.ClaimID {
			return illegal("a start needs its own claim, not yet started")
		}
		if e.Attempt != r.Attempt+1 {
			return illegal("attempts are charged one by one")
		}
		next.State, next.Token, next.Worker, next.StartedAt = Running, e.Token, e.Worker, at
		next.Attempt, next.LeaseUntil, next.Deadline, next.Dispatches = e.Attempt, e.LeaseUntil, e.Deadline, 0
		next.start = &e
	case RunCancelRequested:
		if r.State != Running || r.ClaimID != e.ClaimID || r.CancelRequested {
			return illegal("a cancel is requested once, of a running claim")
		}
		next.CancelRequested, next.CancelReason = true, e.Reason
	case RunReleased:
		if r.State != Claimed || r.ClaimID != e.ClaimID {
			return illegal("a release needs its own claim, not yet started")
		}
		next = next.close(e.ClaimID, e, e.ReadyAt)
	case RunRetryScheduled:
		if why := r.cannotEnd(e.ClaimID, e.Attempt, true); why != "" {
			return illegal(why)
		}
		next = next.close(e.ClaimID, e, e.ReadyAt)
	case RunSnoozed:
		if why := r.cannotEnd(e.ClaimID, e.Attempt, true); why != "" {
			return illegal(why)
		}
		next = next.close(e.ClaimID, e, e.ReadyAt)
		next.Attempt = e.Attempt - 1
	case RunInterrupted:
		if why := r.cannotEnd(e.ClaimID, e.Attempt, true); why != "" {
			return illegal(why)
		}
		next = next.close(e.ClaimID, e, e.ReadyAt)
		next.Attempt = e.Attempt - 1
	case RunSucceeded:
		if why := r.cannotEnd(e.ClaimID, e.Attempt, false); why != "" {
			return illegal(why)
		}
		next = next.close(e.ClaimID, e, time.Time{}).end(Succeeded, e)
	case RunFailed:
		if why := r.cannotEnd(e.ClaimID, e.Attempt, true); why != "" {
			return illegal(why)
		}
		next = next.close(e.ClaimID, e, time.Time{}).end(Failed, e)
	case RunCancelled:
		if r.InHand() != (e.ClaimID != nil) || e.ClaimID != nil && *e.ClaimID != r.ClaimID {
			return illegal("a cancellation names the open claim, if there is one")
		}
		if e.ClaimID != nil {
			next = next.close(*e.ClaimID, e, time.Time{})
		}
		next = next.end(Cancelled, e)
	case RunSkipped:
		if r.State != Pending || r.Claims > 0 {
			return illegal("a run is skipped before its first claim")
		}
		next = next.end(Skipped, e)
	}
	return next, nil
}

// cannotEnd says why an attempt cannot end under the claim; flagged claims end
// as cancelled, except by success.
func (r Run) cannotEnd(claim uuid.UUID, attempt int, unflagged bool) string {
	switch {
	case r.State != Running || r.ClaimID != claim:
		return "an attempt ends under its own claim, after its start"
	case r.Attempt != attempt:
		return "it ends another attempt than the one that runs"
	case unflagged && r.CancelRequested:
		return "a claim whose cancel is requested ends as cancelled, or by success"
	}
	return ""
}

func (r Run) close(claim uuid.UUID, by RunEvent, ready time.Time) Run {
	closed := make([]ClosedClaim, len(r.Closed)+1) // its own: other states of the run share what was there
	closed[copy(closed, r.Closed)] = ClosedClaim{claim, by}
	r.Closed = closed
	r.State, r.ReadyAt = Pending, ready
	r.ClaimID, r.Token, r.Worker = uuid.Nil, uuid.Nil, ""
	r.StartedAt, r.LeaseUntil, r.Deadline = time.Time{}, time.Time{}, nil
	r.CancelRequested, r.CancelReason, r.start = false, "", nil
	return r
}

func (r Run) end(s State, by RunEvent) Run {
	r.State, r.Final = s, by
	return r
}
