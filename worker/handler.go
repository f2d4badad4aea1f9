package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/worker/protocol"
)

// Run is one attempt of a run, as its handler sees it.
type Run[A any] struct {
	ID          string // the same in all attempts: the idempotency key for what the handler does
	Job         string // name of the job
	JobID       string
	Kind        string
	Origin      string // why the run exists: its schedule, a request, a backfill, …
	Attempt     int    // 1 for the first
	MaxAttempts int
	ScheduledAt time.Time     // the instant the run is for, UTC
	Timeout     time.Duration // as the job defines it; 0: none
	Deadline    time.Time     // when the context ends with ErrTimeout; zero: never
	Traceparent string        // W3C trace context of the run, or empty
	Args        A

	progress func(float64, string)
}

// Progress tells people how far the run is: fraction from 0 to 1, and a short message. It does not block; what is said
// in quick succession is replaced by what is said last.
func (r Run[A]) Progress(fraction float64, message string) {
	if fraction != fraction { // NaN has no JSON
		fraction = 0
	}
	if r.progress != nil {
		r.progress(min(max(fraction, 0), 1), message)
	}
}

// RawRun is a run with undecoded arguments, for executors that serve many jobs with one handler.
type RawRun struct {
	Run[json.RawMessage]
	Target json.RawMessage // what to execute, for the kinds exec and http

	output *protocol.Output
}

// SetOutput records the beginning and the end of what the run wrote, with truncated bytes left out between them. It is
// kept for every outcome but Later. Beyond protocol.MaxOutputBytes the inner parts of head and tail are dropped too.
func (r *RawRun) SetOutput(head, tail []byte, truncated int64) {
	const half = protocol.MaxOutputBytes / 2
	if over := len(head) + len(tail) - protocol.MaxOutputBytes; over > 0 {
		cut := min(over, max(0, len(head)-half))
		head, over = head[:len(head)-cut], over-cut
		tail = tail[over:]
		truncated += int64(cut + over)
	}
	o := protocol.NewOutput(head, tail, truncated)
	r.output = &o
}

type handlerFunc func(ctx context.Context, run *RawRun) (any, error)

// Handle registers f for a kind. The arguments are decoded from JSON; a run whose arguments do not decode fails without a retry.
//
// nil means done. Fatal(err) fails the run, Later(d) runs it again without counting the attempt, any other error is
// retried with back-off while attempts are left. A panic is an error with its stack.
//
// ctx ends when the lease is lost, the run is cancelled or times out, or the worker stops; context.Cause(ctx) says which.
// A run may be executed more than once: make the effect idempotent, with Run.ID as the key.
//
// Handle panics if the kind is no valid token, is registered already, or the worker runs.
func Handle[A any](w *Worker, kind string, f func(ctx context.Context, run Run[A]) error) {
	HandleFunc(w, kind, func(ctx context.Context, raw *RawRun) (any, error) {
		run, err := decodeRun[A](raw)
		if err != nil {
			return nil, err
		}
		return nil, f(ctx, run)
	})
}

// HandleResult is Handle for handlers that return a value, which is kept as the run's result in JSON
// (at most protocol.MaxResultBytes).
func HandleResult[A, R any](w *Worker, kind string, f func(ctx context.Context, run Run[A]) (R, error)) {
	HandleFunc(w, kind, func(ctx context.Context, raw *RawRun) (any, error) {
		run, err := decodeRun[A](raw)
		if err != nil {
			return nil, err
		}
		return f(ctx, run)
	})
}

// HandleFunc registers a handler that decodes the arguments itself. Errors mean what they mean for Handle; a nil result
// is none.
func HandleFunc(w *Worker, kind string, f func(ctx context.Context, run *RawRun) (result any, err error)) {
	if err := protocol.ValidToken(kind); err != nil {
		panic(fmt.Sprintf("worker: kind: %v", err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.used {
		panic(fmt.Sprintf("worker: kind %q registered after Run was called", kind))
	}
	if _, ok := w.handlers[kind]; ok {
		panic(fmt.Sprintf("worker: kind %q is registered twice", kind))
	}
	w.handlers[kind] = f
}

func decodeRun[A any](raw *RawRun) (Run[A], error) {
	r := raw.Run
	run := Run[A]{
		ID: r.ID, Job: r.Job, JobID: r.JobID, Kind: r.Kind, Origin: r.Origin, Attempt: r.Attempt, MaxAttempts: r.MaxAttempts,
		ScheduledAt: r.ScheduledAt, Timeout: r.Timeout, Deadline: r.Deadline, Traceparent: r.Traceparent, progress: r.progress,
	}
	if len(r.Args) > 0 {
		if err := json.Unmarshal(r.Args, &run.Args); err != nil {
			return run, Fatal(&typedError{"bad_args", fmt.Errorf("arguments of job %q do not fit %T: %w", r.Job, run.Args, err)})
		}
	}
	return run, nil
}
