package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/eventstream"
	"github.com/daybookhq/daybook/projections"
)

// Trigger implements [Runs].
func (d *Database) Trigger(ctx context.Context, t Trigger) (Triggered, error) {
	return d.request(ctx, eventstore.RunRequest{Job: t.Job, Key: t.Key, At: t.At, Args: t.Args, Reason: t.Reason, Meta: d.meta})
}

func (d *Database) request(ctx context.Context, r eventstore.RunRequest) (Triggered, error) {
	got, err := d.store.Request(ctx, []eventstore.RunRequest{r})
	if err != nil {
		return Triggered{}, err
	}
	if got[0].Err != nil {
		return Triggered{}, got[0].Err
	}
	if got[0].Created && !r.At.After(time.Now()) { // a clock that is wrong costs a hint
		d.wake.queues(got[0].Queue)
	}
	return Triggered{RunID: got[0].RunID, Job: r.Job, Key: r.Key, Created: got[0].Created}, nil
}

// RetryRun implements [Runs].
func (d *Database) RetryRun(ctx context.Context, id uuid.UUID, key, reason string) (Triggered, error) {
	run, err := d.read.GetRun(ctx, id)
	if err != nil {
		return Triggered{}, err
	}
	if !run.State.Terminal() {
		return Triggered{}, &NotFinishedError{Run: id, State: run.State}
	}
	return d.request(ctx, eventstore.RunRequest{Job: run.Job, Key: key, Args: run.Args, RetryOf: &id, Reason: reason, Meta: d.meta})
}

// CancelRun implements [Runs].
func (d *Database) CancelRun(ctx context.Context, id uuid.UUID, reason string) (Cancelled, error) {
	answers, err := d.store.Execute(ctx, []eventstore.Command{{RunID: id, Do: domain.CancelRun{Reason: reason}, Meta: d.meta}})
	if err != nil {
		return Cancelled{}, err
	}
	a := answers[0]
	refused, ok := errors.AsType[*domain.Refusal](a.Err)
	switch {
	case ok && refused.Code == domain.CodeTerminal:
		return Cancelled{}, &FinishedError{Run: id, State: a.Run.State}
	case a.Err != nil:
		return Cancelled{}, a.Err
	}
	if !a.Run.State.Terminal() {
		d.wake.cancelled(id)
	}
	return Cancelled{RunID: id, State: a.Run.State, Repeat: a.Repeat}, nil
}

// ListRuns implements [Runs].
func (d *Database) ListRuns(ctx context.Context, f projections.RunFilter) (projections.RunPage, error) {
	return d.read.ListRuns(ctx, f)
}

// Run implements [Runs].
func (d *Database) Run(ctx context.Context, id uuid.UUID) (projections.RunDetail, error) {
	return d.read.GetRun(ctx, id)
}

// Pauses between looks at a run that is waited for.
const (
	awaitFirst = 20 * time.Millisecond
	awaitMax   = 500 * time.Millisecond
)

// AwaitRun implements [Runs].
func (d *Database) AwaitRun(ctx context.Context, id uuid.UUID) (projections.RunDetail, error) {
	for pause := awaitFirst; ; pause = min(pause*3/2, awaitMax) {
		run, err := d.read.GetRun(ctx, id)
		if err != nil || run.State.Terminal() {
			return run, err
		}
		select {
		case <-ctx.Done():
			return run, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// RunEvents implements [Runs].
func (d *Database) RunEvents(ctx context.Context, id uuid.UUID) ([]Event, error) {
	recs, err := d.store.ReadStream(ctx, domain.CategoryRun, id)
	if errors.Is(err, eventstore.ErrNotFound) {
		if gone := d.store.Retired(ctx, domain.InstantOf(id)); gone != nil {
			err = gone
		}
	}
	if err != nil {
		return nil, err
	}
	out := make([]Event, len(recs))
	for i, r := range recs {
		out[i] = eventstream.NewEvent(r)
	}
	return out, nil
}

// RunOutput implements [Runs].
func (d *Database) RunOutput(ctx context.Context, id uuid.UUID, attempt int) (Output, error) {
	found, err := d.read.RunOutput(ctx, id, attempt)
	if err != nil {
		return Output{}, err
	}
	o := Output{
		RunID: id, Attempt: found.Attempt, TotalBytes: found.TotalBytes, Progress: found.Progress, Message: found.Message,
		UpdatedAt: found.UpdatedAt, Head: found.Head, Tail: found.Tail,
		Omitted: max(found.TotalBytes-int64(len(found.Head))-int64(len(found.Tail)), 0),
	}
	if len(found.Result) > 0 {
		o.Result = found.Result
	}
	o.Text = strings.ToValidUTF8(string(found.Head), "\ufffd") + o.gap() + strings.ToValidUTF8(string(found.Tail), "\ufffd")
	return o, nil
}

func (o Output) gap() string {
	if o.Omitted == 0 {
		return ""
	}
	return fmt.Sprintf("\n[%d bytes were not kept]\n", o.Omitted)
}
