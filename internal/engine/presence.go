package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker/protocol"
)

// Presence notes that a worker lives and what it can do.
func (v *Service) Presence(ctx context.Context, q protocol.PresenceRequest) error {
	if q.WorkerID == "" || len(q.WorkerID) > 200 {
		return &protocol.Error{Code: protocol.CodeInvalid, Message: "worker_id: want 1 to 200 bytes"}
	}
	if q.Slots < 0 || len(q.Lanes) > 1000 {
		return &protocol.Error{Code: protocol.CodeInvalid, Message: fmt.Sprintf("slots %d must not be negative, lanes at most 1000 (have %d)", q.Slots, len(q.Lanes))}
	}
	lanes := make([]eventstore.WorkerLane, len(q.Lanes))
	for i, l := range q.Lanes {
		if err := errors.Join(protocol.ValidToken(l.Queue), protocol.ValidToken(l.Kind)); err != nil {
			return &protocol.Error{Code: protocol.CodeInvalid, Message: fmt.Sprintf("lanes[%d]: %v", i, err)}
		}
		lanes[i] = eventstore.WorkerLane{Queue: l.Queue, Kind: l.Kind}
	}
	err := v.outOfTheWay(ctx, func() error {
		return v.store.SeeWorker(ctx, eventstore.Worker{ID: q.WorkerID, Lanes: lanes, Slots: q.Slots, Version: q.Version, Host: q.Host})
	})
	if err != nil {
		return err
	}
	v.declared()
	return nil
}

// outOfTheWay asks the database for what may wait: however many workers ask, the
// connections of those that report are not touched.
func (v *Service) outOfTheWay(ctx context.Context, f func() error) error {
	select {
	case v.aside <- struct{}{}:
		defer func() { <-v.aside }()
		return f()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// How often a waiting poll looks again.
const (
	pollEvery   = 25 * time.Millisecond // at first, then ever more rarely
	pollSlowest = 400 * time.Millisecond
	pollMaxWait = 30 * time.Second
)

// Poll gives a worker without the broker what it may start. The claims come from
// the database, never from the broker.
func (v *Service) Poll(ctx context.Context, q protocol.PollRequest) ([]protocol.Hint, error) {
	lanes := make([]eventstore.WorkerLane, len(q.Lanes))
	for i, l := range q.Lanes {
		lanes[i] = eventstore.WorkerLane{Queue: l.Queue, Kind: l.Kind}
	}
	pause := pollEvery
	deadline := time.Now().Add(min(q.Wait.Std(), pollMaxWait))
	for {
		var hints []eventstore.Hint
		err := v.outOfTheWay(ctx, func() (err error) {
			hints, err = v.store.Unstarted(ctx, lanes, min(max(q.Max, 1), protocol.MaxHints))
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(hints) > 0 || !time.Now().Before(deadline) {
			out := make([]protocol.Hint, len(hints))
			for i, h := range hints {
				out[i] = protocol.Hint{RunID: h.RunID, ClaimID: h.ClaimID, LeaseUntil: protocol.At(h.LeaseUntil)}
			}
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
			pause = min(2*pause, pollSlowest)
		}
	}
}

// Enqueue makes runs that programs ask for.
func (v *Service) Enqueue(ctx context.Context, actor string, items []protocol.EnqueueItem) ([]protocol.EnqueueResult, error) {
	requests := make([]eventstore.RunRequest, len(items))
	for i, it := range items {
		requests[i] = eventstore.RunRequest{Job: it.Job, Key: it.Key, At: it.At.Time, Args: it.Args, Reason: it.Reason, Meta: eventstore.Meta{Actor: actor}}
	}
	got, err := v.requests.Do(ctx, requests)
	if err != nil {
		return nil, err
	}
	out := make([]protocol.EnqueueResult, len(got))
	for i, r := range got {
		if r.Err != nil {
			out[i].Error = requestError(r.Err)
			continue
		}
		out[i] = protocol.EnqueueResult{RunID: r.RunID, Created: r.Created}
		if r.Waits {
			v.due(r.Queue)
		}
	}
	return out, nil
}

func requestError(err error) *protocol.Error {
	var job *domain.JobRefusal
	var field *eventstore.RequestError
	switch {
	case errors.As(err, &job) && job.Code == domain.JobUnknown:
		return &protocol.Error{Code: protocol.CodeNotFound, Message: job.Error()}
	case errors.As(err, &job):
		return &protocol.Error{Code: protocol.CodeConflict, Message: job.Error()}
	case errors.As(err, &field):
		return &protocol.Error{Code: protocol.CodeInvalid, Message: field.Error()}
	}
	return &protocol.Error{Code: protocol.CodeInternal, Message: err.Error()}
}
