package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// reaper closes claims whose lease is over. A worker that lives and is slow may
// be overtaken by it: the fence then refuses that worker's outcome, but cannot
// undo what it did outside.
type reaper struct {
	store   *eventstore.Store
	batch   int
	every   time.Duration
	due     func(queue string)
	log     *slog.Logger
	metrics *metrics
	nudged  string // the key that the last look at waiting runs ended at
	swept   string // the same for idle keys
}

// ReapInterval is how often the reaper looks.
const ReapInterval = time.Second

const reapBatch = 500

// Step closes one batch.
func (r *reaper) Step(ctx context.Context) (did bool, next time.Duration, err error) {
	closed, err := r.store.ExpireClaims(ctx, r.batch)
	if parked, ok := errors.AsType[*eventstore.ParkedError](err); ok {
		r.metrics.parked.Inc()
		r.log.ErrorContext(ctx, "claim cannot be closed, tried again in a minute", "run_id", parked.Run, "error", parked.Reason)
		return true, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	for _, e := range closed {
		r.metrics.reaped(e)
		r.due(e.Run.Queue)
		level := slog.LevelInfo
		if e.Run.Dispatches >= domain.AlertDispatches {
			level = slog.LevelError
		}
		r.log.Log(ctx, level, "lease is over", "run_id", e.Run.ID, "event", e.Event.EventType(), "state", e.Run.State,
			"attempt", e.Run.Attempt, "dispatches", e.Run.Dispatches, "late", e.Held)
	}
	if len(closed) == r.batch {
		return true, 0, nil
	}
	return len(closed) > 0, r.every, nil
}

const nudgeEvery = 5 * time.Second

// nudge gives runs that wait for a place another chance, in case it was freed
// where nobody saw it.
func (r *reaper) nudge(ctx context.Context) (did bool, next time.Duration, err error) {
	n, after, err := r.store.NudgeWaiting(ctx, r.batch, r.nudged)
	r.nudged = after
	if n > 0 {
		r.due("")
	}
	return n > 0, nudgeEvery, err
}

// Idle keys are looked at a page at a time: a few thousand a second when there
// are many, so that they cannot become more for ever.
const (
	sweepPage  = 1000
	sweepPause = 200 * time.Millisecond
	sweepEvery = 10 * time.Second
)

// sweep removes keys of limits that nobody uses any more.
func (r *reaper) sweep(ctx context.Context) (did bool, next time.Duration, err error) {
	n, after, err := r.store.SweepKeys(ctx, sweepPage, r.swept)
	r.swept = after
	if err != nil || after == "" {
		return n > 0, sweepEvery, err
	}
	return n > 0, sweepPause, nil
}
