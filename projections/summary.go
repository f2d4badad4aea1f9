package projections

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// RunSummary is one run as lists show it: the fold of its stream. Times are UTC
// and whole microseconds, as the database keeps them.
type RunSummary struct {
	RunID       uuid.UUID     `json:"run_id"`
	Version     int           `json:"version"` // of the last event folded in
	State       domain.State  `json:"state"`
	JobID       uuid.UUID     `json:"job_id"`
	Job         string        `json:"job"`
	JobVersion  int           `json:"job_version"`
	Queue       string        `json:"queue"`
	Kind        string        `json:"kind"`
	Priority    int           `json:"priority"`
	Origin      domain.Origin `json:"origin"`
	Key         string        `json:"key,omitempty"`
	CatchUp     bool          `json:"catch_up,omitempty"`
	RetryOf     *uuid.UUID    `json:"retry_of,omitempty"`
	ScheduledAt time.Time     `json:"scheduled_at"`
	ReadyAt     time.Time     `json:"ready_at"` // of the coming attempt, or of the last one

	Attempt         int        `json:"attempt"`    // attempts charged so far
	Dispatches      int        `json:"dispatches"` // claims since the last start
	Claims          int        `json:"claims"`     // claims in all
	ClaimID         *uuid.UUID `json:"claim_id,omitempty"`
	CancelRequested bool       `json:"cancel_requested,omitempty"`

	// Of the latest claim, which may have ended.
	Worker    string     `json:"worker,omitempty"`
	ClaimedAt *time.Time `json:"claimed_at,omitempty"`
	StartedAt *time.Time `json:"started_at,omitempty"`

	FirstStartedAt *time.Time `json:"first_started_at,omitempty"`
	FinishedAt     *time.Time `json:"finished_at,omitempty"`
	ChangedAt      time.Time  `json:"changed_at"`

	// Of the last failed attempt, until one succeeds. The message is cut to its
	// first KiB, the type to a quarter of that; the event has all of it.
	ErrorType    string `json:"error_type,omitempty"`
	ErrorMessage string `json:"error_message,omitempty"`

	Reason    string     `json:"reason,omitempty"` // of a cancel or a skip
	BlockedBy *uuid.UUID `json:"blocked_by,omitempty"`
}

// Duration is how long the last attempt ran; false unless the run is final and
// was started.
func (s RunSummary) Duration() (time.Duration, bool) {
	if s.FinishedAt == nil || s.StartedAt == nil {
		return 0, false
	}
	return s.FinishedAt.Sub(*s.StartedAt), true
}

// run is as much of the run's state as decides which events may follow.
func (s *RunSummary) run() domain.Run {
	r := domain.Run{
		ID: s.RunID, Version: s.Version, State: s.State,
		JobID: s.JobID, Job: s.Job, JobVersion: s.JobVersion, Origin: s.Origin,
		ScheduledAt: s.ScheduledAt, ReadyAt: s.ReadyAt, Queue: s.Queue, Kind: s.Kind, Priority: s.Priority,
		Key: s.Key, RetryOf: s.RetryOf,
		Attempt: s.Attempt, Dispatches: s.Dispatches, Claims: s.Claims, ChangedAt: s.ChangedAt,
		CancelRequested: s.CancelRequested,
	}
	if s.ClaimID != nil {
		r.ClaimID = *s.ClaimID
	}
	if s.CancelRequested {
		r.CancelReason = s.Reason
	}
	return r
}

// apply folds the event in, which must be the next of the stream. On an error
// nothing has changed.
func (s *RunSummary) apply(e domain.RunEvent, at time.Time) error {
	r, err := domain.EvolveRun(s.run(), e, at)
	if err != nil {
		return err
	}
	at = stored(at)
	s.Version, s.State, s.ChangedAt = r.Version, r.State, at
	s.Attempt, s.Dispatches, s.Claims = r.Attempt, r.Dispatches, r.Claims
	s.CancelRequested, s.Reason = r.CancelRequested, r.CancelReason
	s.ClaimID = nil
	if r.InHand() {
		s.ClaimID = new(r.ClaimID)
	}
	if !r.ReadyAt.IsZero() {
		s.ReadyAt = stored(r.ReadyAt)
	}
	if r.State.Terminal() {
		s.FinishedAt = &at
	}
	switch e := e.(type) {
	case domain.RunScheduled:
		s.JobID, s.Job, s.JobVersion = r.JobID, r.Job, r.JobVersion
		s.Origin, s.ScheduledAt = r.Origin, stored(r.ScheduledAt)
		s.Queue, s.Kind, s.Priority = r.Queue, r.Kind, r.Priority
		s.Key, s.RetryOf, s.CatchUp = r.Key, r.RetryOf, e.CatchUp
	case domain.RunClaimed:
		s.Worker, s.ClaimedAt, s.StartedAt = "", &at, nil
	case domain.RunStarted:
		s.Worker, s.StartedAt = e.Worker, &at
		if s.FirstStartedAt == nil {
			s.FirstStartedAt = &at
		}
	case domain.RunRetryScheduled:
		s.fail(e.Error)
	case domain.RunFailed:
		s.fail(e.Error)
	case domain.RunSucceeded:
		s.ErrorType, s.ErrorMessage = "", ""
	case domain.RunCancelled:
		s.Reason = e.Reason
	case domain.RunSkipped:
		s.Reason, s.BlockedBy = e.Reason, e.BlockedBy
	case domain.RunReleased, domain.RunSnoozed, domain.RunInterrupted, domain.RunCancelRequested:
	}
	return nil
}

func (s *RunSummary) fail(e domain.RunError) {
	s.ErrorType, s.ErrorMessage = cut(e.Type, 256), cut(e.Message, 1024) // an entry of an index holds both
}

// cut is the text's first bytes, whole characters.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return strings.Clone(s[:limit])
}

// stored is the time as the database gives it back.
func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// applyRecorded decodes the event, folds it in and counts it.
func (s *RunSummary) applyRecorded(rec eventstore.Recorded, t *traffic) error {
	e, err := runEvent(rec)
	if err != nil {
		return err
	}
	before := s.attemptState()
	if err := s.apply(e, rec.At); err != nil {
		return err
	}
	t.event(before, e, stored(rec.At), s)
	return nil
}
