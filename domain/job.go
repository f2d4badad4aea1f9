package domain

import (
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Job is the state of a job: the fold of its stream.
type Job struct {
	ID          uuid.UUID
	Version     int // of the last event; 0 before the first
	Spec        JobSpec
	SpecVersion int // of the event that set Spec; runs pin it
	Paused      bool
	PauseReason string
	Archived    bool
	ChangedAt   time.Time
}

// Active reports whether the job's instants count.
func (j Job) Active() bool { return j.Version > 0 && !j.Paused && !j.Archived }

// FoldJob folds a job's events, which must be the stream from its first event.
func FoldJob(id uuid.UUID, events []Dated[JobEvent]) (Job, error) {
	j := Job{ID: id}
	for _, e := range events {
		var err error
		if j, err = EvolveJob(j, e.Event, e.At); err != nil {
			return j, err
		}
	}
	return j, nil
}

// EvolveJob applies an event that happened at the given time. It fails on an
// event that no legal path has at that place.
func EvolveJob(j Job, event JobEvent, at time.Time) (Job, error) {
	illegal := func(why string) (Job, error) {
		return j, &IllegalEventError{Stream: j.ID, Version: j.Version + 1, State: j.phase(), Event: event.EventType(), Why: why}
	}
	// An archived job's runs are let go of like any other's.
	_, retiring := event.(RunsRetired)
	if _, opening := event.(JobCreated); opening != (j.Version == 0 || j.Archived) && !(retiring && j.Version > 0) {
		return illegal("JobCreated opens a stream that is new or archived, and nothing else does")
	}
	next := j
	next.Version++
	next.ChangedAt = at
	switch e := event.(type) {
	case JobCreated:
		next.Spec, next.SpecVersion = e.Spec, next.Version
		next.Archived, next.Paused, next.PauseReason = false, false, ""
	case JobUpdated:
		if e.Spec.Name != j.Spec.Name {
			return illegal("a job keeps its name")
		}
		next.Spec, next.SpecVersion = e.Spec, next.Version
	case JobPaused:
		if j.Paused {
			return illegal("the job is paused")
		}
		next.Paused, next.PauseReason = true, e.Reason
	case JobResumed:
		if !j.Paused {
			return illegal("the job is not paused")
		}
		next.Paused, next.PauseReason = false, ""
	case JobArchived:
		next.Archived = true
	case FiresSkipped:
		if j.Paused {
			return illegal("a paused job has no instants to skip")
		}
	case ZoneRulesChanged, RunsRetired:
	}
	return next, nil
}

func (j Job) phase() string {
	switch {
	case j.Version == 0:
		return "new"
	case j.Archived:
		return "archived"
	case j.Paused:
		return "paused"
	}
	return "active"
}

// JobCommand is something asked of a job.
//
//sumtype:decl
type JobCommand interface{ jobCommand() }

// ApplyJob makes the job be as defined: created, updated or left alone.
type ApplyJob struct {
	Spec   JobSpec
	Paused bool // whether a job that is created starts paused
	Reason string
}

// PauseJob stops the job's instants.
type PauseJob struct{ Reason string }

// ResumeJob lets instants count again from now on.
type ResumeJob struct{ Reason string }

// ArchiveJob takes the job out of service.
type ArchiveJob struct{ Reason string }

func (ApplyJob) jobCommand()   {}
func (PauseJob) jobCommand()   {}
func (ResumeJob) jobCommand()  {}
func (ArchiveJob) jobCommand() {}

// JobRefusal is the error of a command that the job's state does not allow.
type JobRefusal struct {
	Name string
	Code JobCode
}

// JobCode names why a job refused a command.
type JobCode string

// The codes of job refusals.
const (
	JobUnknown  JobCode = "unknown_job"
	JobIsGone   JobCode = "job_archived"
	JobConflict JobCode = "job_changed" // the caller's expected version is not current
)

func (e *JobRefusal) Error() string {
	switch e.Code {
	case JobUnknown:
		return fmt.Sprintf("job %q does not exist", e.Name)
	case JobIsGone:
		return fmt.Sprintf("job %q is archived", e.Name)
	case JobConflict:
		return fmt.Sprintf("job %q has changed since it was read", e.Name)
	}
	return fmt.Sprintf("job %q: %s", e.Name, e.Code)
}

// DecideJob decides a command on a job. No events and no error mean that the
// job is already as asked for.
func DecideJob(j Job, command JobCommand) ([]JobEvent, error) {
	if c, ok := command.(ApplyJob); ok {
		return decideApply(j, c), nil
	}
	switch {
	case j.Version == 0:
		return nil, &JobRefusal{Name: j.Spec.Name, Code: JobUnknown}
	case j.Archived:
		if _, again := command.(ArchiveJob); again {
			return nil, nil
		}
		return nil, &JobRefusal{Name: j.Spec.Name, Code: JobIsGone}
	}
	switch c := command.(type) {
	case PauseJob:
		if j.Paused {
			return nil, nil
		}
		return []JobEvent{JobPaused{Reason: storable(c.Reason, 1024)}}, nil
	case ResumeJob:
		if !j.Paused {
			return nil, nil
		}
		return []JobEvent{JobResumed{Reason: storable(c.Reason, 1024)}}, nil
	case ArchiveJob:
		return []JobEvent{JobArchived{Reason: storable(c.Reason, 1024)}}, nil
	case ApplyJob:
	}
	return nil, fmt.Errorf("job %q: unknown command %T", j.Spec.Name, command)
}

func decideApply(j Job, c ApplyJob) []JobEvent {
	reason := storable(c.Reason, 1024)
	if j.Version == 0 || j.Archived {
		events := []JobEvent{JobCreated{Spec: c.Spec, Reason: reason}}
		if c.Paused {
			events = append(events, JobPaused{Reason: "created paused"})
		}
		return events
	}
	changed := j.Spec.Changed(c.Spec)
	if len(changed) == 0 {
		return nil
	}
	return []JobEvent{JobUpdated{Spec: c.Spec, Changed: changed, Reason: reason}}
}
