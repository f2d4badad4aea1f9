package domain

import "time"

// JobEvent is a fact of a job's stream.
//
//sumtype:decl
type JobEvent interface {
	Event
	jobEvent()
}

// JobCreated opens a job's stream, or opens it again after JobArchived.
type JobCreated struct {
	Spec   JobSpec `json:"spec"`
	Reason string  `json:"reason,omitempty"`
}

// JobUpdated replaces the definition. Instants up to the event's time belong to
// the definition before it.
type JobUpdated struct {
	Spec    JobSpec  `json:"spec"`
	Changed []string `json:"changed"` // names of the fields that differ
	Reason  string   `json:"reason,omitempty"`
}

// JobPaused stops instants, not runs.
type JobPaused struct {
	Reason string `json:"reason,omitempty"`
}

// JobResumed lets instants count again from the event's time on; what fell into
// the pause is not made up for.
type JobResumed struct {
	Reason string `json:"reason,omitempty"`
}

// JobArchived takes the job out of service; its history stays.
type JobArchived struct {
	Reason string `json:"reason,omitempty"`
}

// FiresSkipped is one decision about many instants: those of the schedule in
// force from From to To, both included, get no run.
type FiresSkipped struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Count  int       `json:"count"`
	Reason string    `json:"reason"`
}

// ZoneRulesChanged says that the rules of the job's time zone are others than
// those its next instant was computed with: new zone data, on all replicas or on
// one. Instants after the event's time follow the new rules.
type ZoneRulesChanged struct {
	Zone        string     `json:"zone"`
	Fingerprint string     `json:"fingerprint"`
	NextFire    *time.Time `json:"next_fire,omitempty"`
}

// Reasons of FiresSkipped.
const (
	SkipMisfire       = "misfire"        // the policy is skip, or latest and a later instant runs
	SkipCatchupWindow = "catchup_window" // older than the job's catch-up window
	SkipMaxCatchup    = "max_catchup"    // more were missed than the job makes up for
	SkipCivilTimeRan  = "civil_time_ran" // the same wall time has run, and new zone rules moved it here
)

// The names under which the events are stored.
func (JobCreated) EventType() string       { return "JobCreated" }
func (JobUpdated) EventType() string       { return "JobUpdated" }
func (JobPaused) EventType() string        { return "JobPaused" }
func (JobResumed) EventType() string       { return "JobResumed" }
func (JobArchived) EventType() string      { return "JobArchived" }
func (FiresSkipped) EventType() string     { return "FiresSkipped" }
func (ZoneRulesChanged) EventType() string { return "ZoneRulesChanged" }

func (JobCreated) jobEvent()       {}
func (JobUpdated) jobEvent()       {}
func (JobPaused) jobEvent()        {}
func (JobResumed) jobEvent()       {}
func (JobArchived) jobEvent()      {}
func (FiresSkipped) jobEvent()     {}
func (ZoneRulesChanged) jobEvent() {}
