package executor

import (
	"encoding/json"
	"time"
)

// Defaults of Options.
const (
	DefaultGrace     = 10 * time.Second
	DefaultWaitDelay = 5 * time.Second
)

// Options describes the run to its command, and how the command is ended.
type Options struct {
	RunID       string
	Job         string
	Attempt     int             // from 1
	ScheduledAt time.Time       // zero for a run without an instant
	Args        json.RawMessage // the run's arguments; empty or null means none
	// Grace lies between SIGTERM and SIGKILL once the context has ended; 0 means DefaultGrace.
	Grace time.Duration
	// WaitDelay is how long a command that has ended may keep Run waiting because a process it left behind
	// holds the output open; 0 means DefaultWaitDelay.
	WaitDelay time.Duration
}

// Result is how a command went. Err is nil if and only if it exited with status 0 before its context ended.
type Result struct {
	// ExitCode is the exit status, or -1 if the command did not start or was ended by a signal.
	ExitCode int
	Output   Output
	Err      *Error
	Started  time.Time
	Ended    time.Time
	// UserTime and SystemTime are the processor time of the command and of the children it waited for.
	UserTime, SystemTime time.Duration
}

// Duration is the wall time from start to end, by the monotonic clock.
func (r Result) Duration() time.Duration { return r.Ended.Sub(r.Started) }

// Types of Error.
const (
	TypeInvalidTarget   = "invalid_target"    // the target cannot be run as written
	TypeEnvironment     = "environment"       // a from_env variable is not set on this worker
	TypeUser            = "user"              // this worker cannot become the target's user
	TypeDirectory       = "directory"         // the working directory cannot be entered
	TypeCommandNotFound = "command_not_found" // no such program, or not an executable one
	TypeStart           = "start"             // the system refused to start it: no memory, too many processes
	TypeExitStatus      = "exit_status"       // ended with a status other than 0
	TypeSignal          = "signal"            // ended by a signal that was not ours
	TypeTimeout         = "timeout"           // the context's deadline
	TypeCancelled       = "cancelled"         // the context ended for another reason
)

// Verdict is what a failure means for the next attempt.
type Verdict int

// The verdicts.
const (
	Retry Verdict = iota // charge the attempt and retry with back-off
	Later                // the command asked to be run later
	Fatal                // no retry would help
)

func (v Verdict) String() string {
	return [...]string{"retry", "later", "fatal"}[v]
}

// Error is why a run of a command failed, worded for the person who reads the run.
type Error struct {
	Type    string
	Message string
	Verdict Verdict
	cause   error
}

func (e *Error) Error() string { return e.Message }

// Unwrap gives the context's cause for TypeTimeout and TypeCancelled, and the system's error where there is one.
func (e *Error) Unwrap() error { return e.cause }
