package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/daybookhq/daybook/worker/protocol"
)

// outcome is what a handler's return means on the wire: the operation and its item.
type outcome struct {
	op   string
	item any
}

// execute calls the handler; a panic, or a handler that ends its goroutine, still gives done an outcome.
func execute(ctx context.Context, h handlerFunc, claim protocol.Claim, run *RawRun, done func(outcome)) {
	var result any
	err := error(&panicError{kind: "exited", message: "the handler ended its goroutine"})
	began := time.Now()
	defer func() {
		ran := time.Since(began)
		if p := recover(); p != nil {
			err = &panicError{"panic", fmt.Sprintf("panic: %v", p), string(debug.Stack())}
		}
		done(decide(context.Cause(ctx), claim, run, result, err, ran))
	}()
	result, err = h(ctx, run)
}

// decide maps a handler's return to an outcome. cause is why the handler's context had ended, if it had; ran is how long
// the handler took, of which the engine hears the next whole millisecond: nothing shorter matters to it, and none means unknown.
func decide(cause error, claim protocol.Claim, run *RawRun, result any, err error, ran time.Duration) outcome {
	took := protocol.Duration((ran + time.Millisecond).Truncate(time.Millisecond))
	var bad error
	if err == nil {
		data, encErr := encodeResult(result)
		if encErr == nil {
			return outcome{protocol.OpComplete, protocol.CompleteItem{RunID: claim.RunID, ClaimID: claim.ClaimID, Result: data, Output: run.output, Ran: took}}
		}
		bad = &typedError{"bad_result", encErr}
	}
	var (
		fatal *fatalError
		later *laterError
		retry *retryError
	)
	item := protocol.FailItem{RunID: claim.RunID, ClaimID: claim.ClaimID, Retryable: true, Output: run.output, Ran: took}
	switch {
	case bad != nil:
		item.Error, item.Retryable = wireError(bad), false
	case errors.Is(cause, ErrCancelled):
		item.Error, item.Retryable = wireError(err), false
		item.Error.Type = "cancelled"
	case errors.As(err, &fatal):
		item.Error, item.Retryable = wireError(err), false
	case errors.As(err, &later):
		return outcome{protocol.OpSnooze, protocol.SnoozeItem{RunID: claim.RunID, ClaimID: claim.ClaimID, Delay: protocol.Duration(later.delay)}}
	case errors.Is(cause, ErrDraining):
		return outcome{protocol.OpRelease, protocol.ReleaseItem{RunID: claim.RunID, ClaimID: claim.ClaimID, Reason: "the worker stopped before the run ended"}}
	default:
		item.Error = wireError(err)
		if errors.Is(cause, ErrTimeout) {
			item.Error.Type = "timeout"
		}
		if errors.As(err, &retry) {
			// Zero would be left out and mean the policy's back-off.
			item.RetryAfter = protocol.Duration(max(retry.delay, time.Nanosecond))
		}
	}
	return outcome{protocol.OpFail, item}
}

func encodeResult(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	b, err := protocol.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("the result cannot be written as JSON: %w", err)
	}
	if len(b) > protocol.MaxResultBytes {
		return nil, fmt.Errorf("the result is %d bytes of JSON, at most %d are kept: store it elsewhere and return where", len(b), protocol.MaxResultBytes)
	}
	return b, nil
}

func wireError(err error) protocol.RunError {
	e := protocol.RunError{Type: errorType(err), Message: clip(err.Error(), protocol.MaxErrorBytes)}
	if p, ok := errors.AsType[*panicError](err); ok {
		e.Stack = clip(p.stack, protocol.MaxStackBytes)
	}
	return e
}

// errorType is what err calls itself, or the most telling Go type in its chain.
func errorType(err error) string {
	var named interface{ ErrorType() string }
	if errors.As(err, &named) {
		return named.ErrorType()
	}
	found := "error"
	for ; err != nil; err = errors.Unwrap(err) {
		switch name := fmt.Sprintf("%T", err); name {
		case "*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError", "*worker.fatalError", "*worker.retryError":
		default:
			found = strings.TrimPrefix(name, "*")
		}
	}
	return found
}

// clip makes s valid text of at most n bytes. NUL cannot be stored by PostgreSQL.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	if len(s) <= n {
		return s
	}
	const mark = "…"
	return strings.ToValidUTF8(s[:n-len(mark)], "") + mark
}
