package domain

import (
	"time"

	"github.com/google/uuid"
)

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

// RunsRetired says that the job's runs of a month have been exported for the log
// to let go of them, and keeps what must outlast their events. It counts once the
// log has dropped what the file with that checksum holds. Of several for one
// file, all but the last have ranges only.
type RunsRetired struct {
	Month  string `json:"month"` // of the runs' ids in UTC, such as 2025-10
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
	Last   bool   `json:"last"`

	Job            string     `json:"job,omitempty"`
	Runs           int        `json:"runs,omitempty"`
	Slots          int        `json:"slots,omitempty"` // of the runs, those at instants
	Succeeded      int        `json:"succeeded,omitempty"`
	Failed         int        `json:"failed,omitempty"`
	Cancelled      int        `json:"cancelled,omitempty"`
	Skipped        int        `json:"skipped,omitempty"`
	LastSuccessAt  *time.Time `json:"last_success_at,omitempty"`
	LastFailureAt  *time.Time `json:"last_failure_at,omitempty"`
	LastSuccessRun *uuid.UUID `json:"last_success_run,omitempty"`
	LastFinishedAt *time.Time `json:"last_finished_at,omitempty"`
	LastRun        *uuid.UUID `json:"last_run,omitempty"`

	Skips     []RetiredRange `json:"skips,omitempty"`     // instants whose run was skipped
	Backfills []RetiredRange `json:"backfills,omitempty"` // instants whose run was backfilled
}

// RetiredRange stands for as many slots of the job, one after the other, as it
// counts: what has no slot between From and To is not meant.
type RetiredRange struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"` // included
	Count  int       `json:"count"`
	Reason string    `json:"reason,omitempty"`
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
func (RunsRetired) EventType() string      { return "RunsRetired" }

func (JobCreated) jobEvent()       {}
func (JobUpdated) jobEvent()       {}
func (JobPaused) jobEvent()        {}
func (JobResumed) jobEvent()       {}
func (JobArchived) jobEvent()      {}
func (FiresSkipped) jobEvent()     {}
func (ZoneRulesChanged) jobEvent() {}
func (RunsRetired) jobEvent()      {}
