package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker/protocol"
)

// Handle answers one call of the worker protocol: the same bytes in and out for
// every transport. The actor is who the transport says is calling; empty leaves
// it to the claims.
func (v *Service) Handle(ctx context.Context, op, actor string, body []byte) []byte {
	began := time.Now()
	reply := v.dispatch(ctx, op, actor, body)
	v.metrics.calls.WithLabelValues(knownOp(op)).Observe(time.Since(began).Seconds())
	return reply
}

func (v *Service) dispatch(ctx context.Context, op, actor string, body []byte) []byte {
	switch op {
	case protocol.OpStart:
		return handle(body, func(q protocol.StartRequest) ([]protocol.StartResult, error) {
			if q.WorkerID == "" {
				return nil, &protocol.Error{Code: protocol.CodeInvalid, Message: "worker_id is missing"}
			}
			return itemwise(q.Items, func() ([]protocol.StartResult, error) { return v.Start(ctx, actor, q) })
		})
	case protocol.OpHeartbeat:
		return handle(body, func(q protocol.HeartbeatRequest) ([]protocol.HeartbeatResult, error) {
			return itemwise(q.Items, func() ([]protocol.HeartbeatResult, error) { return v.Heartbeat(ctx, q) })
		})
	case protocol.OpComplete:
		return handle(body, func(q protocol.CompleteRequest) ([]protocol.Result, error) {
			return itemwise(q.Items, func() ([]protocol.Result, error) { return v.Complete(ctx, actor, q) })
		})
	case protocol.OpFail:
		return handle(body, func(q protocol.FailRequest) ([]protocol.FailResult, error) {
			return itemwise(q.Items, func() ([]protocol.FailResult, error) { return v.Fail(ctx, actor, q) })
		})
	case protocol.OpSnooze:
		return handle(body, func(q protocol.SnoozeRequest) ([]protocol.Result, error) {
			return itemwise(q.Items, func() ([]protocol.Result, error) { return v.Snooze(ctx, actor, q) })
		})
	case protocol.OpRelease:
		return handle(body, func(q protocol.ReleaseRequest) ([]protocol.Result, error) {
			return itemwise(q.Items, func() ([]protocol.Result, error) { return v.Release(ctx, actor, q) })
		})
	case protocol.OpEnqueue:
		return handle(body, func(q protocol.EnqueueRequest) ([]protocol.EnqueueResult, error) {
			return itemwise(q.Items, func() ([]protocol.EnqueueResult, error) { return v.Enqueue(ctx, actor, q.Items) })
		})
	case protocol.OpPresence:
		var q protocol.PresenceRequest
		err := decode(body, &q)
		if err == nil {
			err = v.Presence(ctx, q)
		}
		return encode(protocol.PresenceReply{Error: fault(err)})
	case protocol.OpPoll:
		var q protocol.PollRequest
		err := decode(body, &q)
		var hints []protocol.Hint
		if err == nil {
			hints, err = v.Poll(ctx, q)
		}
		return encode(protocol.PollReply{Dispatches: hints, Error: fault(err)})
	}
	return encode(protocol.Reply[protocol.Result]{Error: &protocol.Error{Code: protocol.CodeUnknownOp, Message: fmt.Sprintf("unknown operation %q", op)}})
}

// knownOp keeps a caller's invention out of the metrics' labels.
func knownOp(op string) string {
	switch op {
	case protocol.OpStart, protocol.OpHeartbeat, protocol.OpComplete, protocol.OpFail, protocol.OpSnooze, protocol.OpRelease,
		protocol.OpEnqueue, protocol.OpPresence, protocol.OpPoll:
		return op
	}
	return "unknown"
}

func handle[Q, R any](body []byte, f func(Q) ([]R, error)) []byte {
	var q Q
	err := decode(body, &q)
	var results []R
	if err == nil {
		results, err = f(q)
	}
	return encode(protocol.Reply[R]{Results: results, Error: fault(err)})
}

func itemwise[I, R any](items []I, f func() ([]R, error)) ([]R, error) {
	switch n := len(items); {
	case n == 0:
		return nil, &protocol.Error{Code: protocol.CodeInvalid, Message: "items: want at least one"}
	case n > protocol.MaxItems:
		return nil, &protocol.Error{Code: protocol.CodeTooLarge, Message: fmt.Sprintf("items: %d, at most %d a request", n, protocol.MaxItems)}
	}
	return f()
}

func decode(body []byte, into any) error {
	if err := protocol.Decode(body, into); err != nil {
		return &protocol.Error{Code: protocol.CodeInvalid, Message: "the request cannot be read: " + err.Error()}
	}
	return nil
}

func encode(reply any) []byte {
	b, err := protocol.Encode(reply)
	if err != nil {
		b, _ = json.Marshal(protocol.PresenceReply{Error: &protocol.Error{Code: protocol.CodeInternal, Message: "the reply cannot be written: " + err.Error()}})
	}
	return b
}

// fault is the error reply: nothing was decided. Whatever is not the caller's
// fault is worth a repeat with the same token.
func fault(err error) *protocol.Error {
	var e *protocol.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, errBusy), errors.Is(err, errStopping), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), eventstore.IsTransient(err):
		return &protocol.Error{Code: protocol.CodeUnavailable, Message: err.Error()}
	}
	return &protocol.Error{Code: protocol.CodeInternal, Message: err.Error()}
}
