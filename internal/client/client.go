// Package client is what the command line asks of a deployment, behind one
// interface with two implementations: [HTTP] talks to an engine's API, [Database]
// to the log's database itself. One suite of tests holds for both.
package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/eventstream"
	"github.com/daybookhq/daybook/projections"
)

// Client asks a deployment for what people want to know and do.
type Client interface {
	Jobs
	Runs
	Log
	Operations
	Evidence

	// Close gives the connections back.
	Close()
}

// Jobs are the definitions.
type Jobs interface {
	// Plan tells what Apply would do now, and changes nothing.
	Plan(ctx context.Context, c Change) (Plan, error)
	// Apply makes the jobs be as defined, all in one transaction. The error is a
	// *ConflictError if a job belongs to somebody else.
	Apply(ctx context.Context, c Change) (Plan, error)
	// ListJobs lists jobs by name, a page at a time.
	ListJobs(ctx context.Context, f JobFilter) (JobPage, error)
	// Job gives one job; eventstore.ErrNotFound if there is none of that name.
	Job(ctx context.Context, name string) (Job, error)
	// CommandJob pauses, resumes or archives. It is not an error if the job is
	// so already; changed tells.
	CommandJob(ctx context.Context, name string, do JobAction, reason string) (job Job, changed bool, err error)
	// JobHistory gives events of the job, the newest first: those before the
	// version, or with 0 the last ones.
	JobHistory(ctx context.Context, name string, before, limit int) ([]Event, error)
	// Backfill makes runs for past instants that have none, the oldest first, and
	// looks at no more instants than the limit. The error is a
	// *eventstore.BackfillError if the range cannot be filled.
	Backfill(ctx context.Context, b Backfill) (Backfilled, error)
}

// Runs are the executions.
type Runs interface {
	// Trigger asks for a run; the same key gives the same run.
	Trigger(ctx context.Context, t Trigger) (Triggered, error)
	// ListRuns lists from the projection, which tells how far it is behind.
	ListRuns(ctx context.Context, f projections.RunFilter) (projections.RunPage, error)
	// Run gives one run from the log itself.
	Run(ctx context.Context, id uuid.UUID) (projections.RunDetail, error)
	// AwaitRun gives the run as soon as it is final.
	AwaitRun(ctx context.Context, id uuid.UUID) (projections.RunDetail, error)
	// RunEvents gives the run's events in order.
	RunEvents(ctx context.Context, id uuid.UUID) ([]Event, error)
	// RunOutput gives what an attempt wrote, with 0 the last one that did.
	RunOutput(ctx context.Context, id uuid.UUID, attempt int) (Output, error)
	// CancelRun ends a run that has not started and asks one that has to end.
	CancelRun(ctx context.Context, id uuid.UUID, reason string) (Cancelled, error)
	// RetryRun makes a new run of a finished one, with the same arguments. The
	// error is a *NotFinishedError while it is not finished.
	RetryRun(ctx context.Context, id uuid.UUID, key, reason string) (Triggered, error)
}

// Log is everything that happened, in commit-safe order.
type Log interface {
	// Events reads a page. It may hold few events, or none, and more to come.
	Events(ctx context.Context, q EventQuery) (EventPage, error)
}

// Operations are what keeps the deployment going.
type Operations interface {
	// OutboxStatus tells what waits to be published, with up to limit packs.
	OutboxStatus(ctx context.Context, limit int) (Outbox, error)
	// ReplayOutbox makes failed and parked packs due at once and tells how many.
	ReplayOutbox(ctx context.Context, s Packs) (int, error)
	// Queues gives the depth of every lane.
	Queues(ctx context.Context) ([]projections.QueueStats, error)
	// Rates tells what happened minute by minute, Durations how long attempts
	// waited and ran.
	Rates(ctx context.Context, f projections.StatsFilter) (projections.Rates, error)
	Durations(ctx context.Context, f projections.StatsFilter) (projections.Durations, error)
	// Workers lists the workers that were heard of lately.
	Workers(ctx context.Context) ([]Worker, error)
	// Engines lists the engines that were heard of lately.
	Engines(ctx context.Context) ([]Engine, error)
	// Parked lists runs that were put aside, the newest first: those named, or
	// all.
	Parked(ctx context.Context, limit int, runs ...uuid.UUID) ([]Parked, error)
	// Unpark makes a parked run due again. The error says why it stays parked.
	Unpark(ctx context.Context, run uuid.UUID) (Unparked, error)
	// Status tells what the deployment is and what time it has.
	Status(ctx context.Context) (Status, error)
	// Eras lists the histories of the database, the present one last.
	Eras(ctx context.Context) ([]Era, error)
}

// MaxJobs is the size of a full page of jobs.
const MaxJobs = 500

// JobFilter selects a page of jobs.
type JobFilter struct {
	Archived bool   // archived ones, too
	Cursor   string // of the page before; empty: the first
}

// JobPage is a page of jobs, in the order of their names.
type JobPage struct {
	Jobs []Job  `json:"jobs"`
	Next string `json:"next,omitempty"` // cursor of the next page; empty at the end
}

// Job is a job as it stands.
type Job struct {
	Name                string                `json:"name"`
	ID                  uuid.UUID             `json:"id"`
	State               JobState              `json:"state"`
	Version             int                   `json:"version"`      // of its last event
	SpecVersion         int                   `json:"spec_version"` // of the event that set the definition
	PauseReason         string                `json:"pause_reason,omitempty"`
	NextFire            *time.Time            `json:"next_fire,omitempty"`
	MaterializedThrough time.Time             `json:"materialized_through,omitzero"` // every instant up to here is decided; not on record for the past
	CreatedAt           time.Time             `json:"created_at"`
	ChangedAt           time.Time             `json:"changed_at"`
	Spec                domain.JobSpec        `json:"spec"`
	Stats               *projections.JobStats `json:"stats,omitempty"` // none before the first run has finished
}

// JobState says whether a job's instants count.
type JobState string

// The states of a job.
const (
	Active   JobState = "active"
	Paused   JobState = "paused"
	Archived JobState = "archived"
)

// JobAction is a command on a job that needs no definition.
type JobAction string

// The actions.
const (
	Pause   JobAction = "pause"
	Resume  JobAction = "resume"
	Archive JobAction = "archive"
)

// Trigger asks for a run.
type Trigger struct {
	Job    string
	Key    string          // empty: one of its own
	At     time.Time       // zero: now
	Args   json.RawMessage // nil: the job's
	Reason string
}

// Triggered is what became of it.
type Triggered struct {
	RunID   uuid.UUID `json:"run_id"`
	Job     string    `json:"job"`
	Key     string    `json:"key,omitempty"` // as it was given
	Created bool      `json:"created"`       // false: the key had its run already
}

// Backfill asks for the runs of past instants.
type Backfill struct {
	Job      string
	From, To time.Time // both included
	Limit    int
	Reason   string
}

// Backfilled is what one call did.
type Backfilled struct {
	Seen    int       `json:"seen"`    // instants looked at
	Created int       `json:"created"` // of them without a run, which got one
	Through time.Time `json:"through"` // every instant up to here is dealt with
	Done    bool      `json:"done"`
}

// Cancelled is what became of a cancel.
type Cancelled struct {
	RunID uuid.UUID    `json:"run_id"`
	State domain.State `json:"state"` // cancelled, or running until its worker has ended it
	// Repeat tells that it was cancelled, or asked to end, before.
	Repeat bool `json:"repeat"`
}

// Event is an entry of the log.
type Event = eventstream.Event

// EventQuery selects a page of the log. Conditions that are set must all hold.
type EventQuery struct {
	From         Place
	Types        []string // as stored: RunFailed
	Streams      []uuid.UUID
	Job          string        // the job of this name and its runs
	Since, Until time.Time     // both included
	Limit        int           // events at most; 0: MaxEvents
	Wait         time.Duration // at the end of the log, wait about so long for an event
}

// MaxEvents is the size of the largest page of events.
const MaxEvents = eventstream.MaxLimit

// EventPage is a page of the log.
type EventPage struct {
	Events []Event
	Next   Place
	More   bool // it did not reach the end of the log
}

// Place is where a reader of the log is. The zero Place is its beginning; After
// and AtEnd begin elsewhere. Cursor goes on from a page, or from where an export
// ended, and is the same text whichever way the log is read.
type Place struct {
	After  int64 // a position
	AtEnd  bool
	Cursor string
}

// Output is what an attempt wrote and returned. Text that was not UTF-8 has
// replacement characters; Head and Tail hold the bytes.
type Output struct {
	RunID      uuid.UUID       `json:"run_id"`
	Attempt    int             `json:"attempt"`
	Text       string          `json:"text"`    // head and tail, with a line between that tells what is missing
	Omitted    int64           `json:"omitted"` // bytes between head and tail that were not kept
	TotalBytes int64           `json:"total_bytes"`
	Result     json.RawMessage `json:"result,omitempty"`
	Progress   *float32        `json:"progress,omitempty"`
	Message    string          `json:"message,omitempty"`
	UpdatedAt  time.Time       `json:"updated_at"`
	Head       []byte          `json:"-"`
	Tail       []byte          `json:"-"`
}

// Worker is a process that executes runs.
type Worker struct {
	ID        string    `json:"id"`
	Host      string    `json:"host"`
	Version   string    `json:"version"`
	Lanes     []Lane    `json:"lanes"`
	Slots     int       `json:"slots"` // 0: it drains
	Running   int       `json:"running"`
	FirstSeen time.Time `json:"first_seen"`
	SeenAt    time.Time `json:"seen_at"`
}

// Lane is a queue and a kind.
type Lane struct {
	Queue string `json:"queue"`
	Kind  string `json:"kind"`
}

// Engine is a replica of the engine.
type Engine struct {
	ID      string    `json:"id"`
	Roles   string    `json:"roles"`
	Version string    `json:"version"`
	Host    string    `json:"host"`
	SeenAt  time.Time `json:"seen_at"`
}

// Parked is a run that could not be processed and was put aside.
type Parked struct {
	RunID       uuid.UUID `json:"run_id"`
	Job         string    `json:"job"`
	Queue       string    `json:"queue"`
	Kind        string    `json:"kind"`
	ScheduledAt time.Time `json:"scheduled_at"`
	ParkedAt    time.Time `json:"parked_at"`
	Reason      string    `json:"reason"`
}

// Unparked is what became of a parked run.
type Unparked struct {
	RunID   uuid.UUID                `json:"run_id"`
	Outcome eventstore.UnparkOutcome `json:"outcome"` // due, cancelled (its job is archived), stale (it had gone on already) or none (it was not parked)
}
