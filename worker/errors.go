package worker

import (
	"errors"
	"fmt"
	"time"
)

// Causes for which the context of a handler ends; context.Cause(ctx) is one of them.
var (
	// ErrLeaseLost: the engine gave the run away, or could not be reached until the lease was over. Nothing the
	// handler returns is recorded; the run may already be executing elsewhere.
	ErrLeaseLost = errors.New("worker: lease lost")
	// ErrCancelled: somebody asked to cancel the run.
	ErrCancelled = errors.New("worker: run cancelled")
	// ErrTimeout: the job's timeout has passed. ctx.Err() is context.DeadlineExceeded.
	ErrTimeout = errors.New("worker: run timed out")
	// ErrDraining: the worker stops and the handler did not end within Config.DrainTimeout. The attempt is refunded.
	ErrDraining = errors.New("worker: draining")
)

// ErrUnauthorized is returned by Run when an engine refused the worker's token or permissions.
var ErrUnauthorized = errors.New("worker: not authorized")

// Fatal marks err as not worth retrying: the run fails now, whatever attempts are left. Fatal(nil) is nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &fatalError{err}
}

type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// Later is returned by a handler to have the same run executed again after d, without counting the attempt. It is no
// error of the run: use it when something the run needs is not there yet.
func Later(d time.Duration) error { return &laterError{max(d, 0)} }

type laterError struct{ delay time.Duration }

func (e *laterError) Error() string { return fmt.Sprintf("run again in %v", e.delay) }

// RetryAfter marks err as worth retrying after d instead of the back-off of the job's retry policy. The attempt counts.
// RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryError{err, max(d, 0)}
}

type retryError struct {
	err   error
	delay time.Duration
}

func (e *retryError) Error() string { return e.err.Error() }
func (e *retryError) Unwrap() error { return e.err }

// panicError is a recovered panic, or a handler that ended its goroutine.
type panicError struct {
	kind, message, stack string
}

func (e *panicError) Error() string     { return e.message }
func (e *panicError) ErrorType() string { return e.kind }

// typedError gives an error of the SDK's own a stable type on the wire.
type typedError struct {
	kind string
	err  error
}

func (e *typedError) Error() string     { return e.err.Error() }
func (e *typedError) Unwrap() error     { return e.err }
func (e *typedError) ErrorType() string { return e.kind }
