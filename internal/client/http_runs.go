package client

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

func runPath(id uuid.UUID, below string) string { return "/v1/runs/" + id.String() + below }

func aboutRun(id uuid.UUID, q request) request {
	q.about.run = id
	return q
}

// Trigger implements [Runs].
func (h *HTTP) Trigger(ctx context.Context, t Trigger) (got Triggered, err error) {
	body := struct {
		Key    string          `json:"key,omitempty"`
		At     *time.Time      `json:"at,omitempty"`
		Args   json.RawMessage `json:"args,omitempty"`
		Reason string          `json:"reason,omitempty"`
	}{Key: t.Key, Args: t.Args, Reason: t.Reason}
	if !t.At.IsZero() {
		body.At = new(t.At.UTC())
	}
	q := aboutJob(t.Job, post(jobPath(t.Job, "/runs"), body))
	q.about.invalid = func(field, why string) error { return &eventstore.RequestError{Field: field, Why: why} }
	return got, h.do(ctx, q, &got)
}

// ListRuns implements [Runs].
func (h *HTTP) ListRuns(ctx context.Context, f projections.RunFilter) (p projections.RunPage, err error) {
	v := url.Values{}
	for name, value := range map[string]string{"job": f.Job, "queue": f.Queue, "kind": f.Kind, "tag": f.Tag, "text": f.Text, "cursor": f.Cursor} {
		setText(v, name, value)
	}
	states := ""
	for i, s := range f.States {
		if i > 0 {
			states += ","
		}
		states += string(s)
	}
	setText(v, "state", states)
	setTime(v, "since", f.Since)
	setTime(v, "until", f.Until)
	if f.Limit != 0 {
		v.Set("limit", strconv.Itoa(f.Limit))
	}
	q := get("/v1/runs", v)
	q.about.invalid = func(field, why string) error { return &projections.FilterError{Field: field, Why: why} }
	return p, h.do(ctx, q, &p)
}

// Run implements [Runs].
func (h *HTTP) Run(ctx context.Context, id uuid.UUID) (run projections.RunDetail, err error) {
	return run, h.do(ctx, aboutRun(id, get(runPath(id, ""), nil)), &run)
}

// AwaitRun implements [Runs]. The engine holds each request until the run is
// final, or for a while.
func (h *HTTP) AwaitRun(ctx context.Context, id uuid.UUID) (run projections.RunDetail, err error) {
	for {
		run = projections.RunDetail{}
		q := aboutRun(id, get(runPath(id, "/outcome"), url.Values{"wait": {waitAtATime.String()}}))
		q.waits = waitAtATime
		began := time.Now()
		if err := h.do(ctx, q, &run); err != nil || run.State.Terminal() {
			return run, err
		}
		// An engine that stops answers at once.
		if err := atLeast(ctx, began, pauseFirst); err != nil {
			return run, err
		}
	}
}

// atLeast waits until so much time has gone by.
func atLeast(ctx context.Context, began time.Time, d time.Duration) error {
	left := d - time.Since(began)
	if left <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(left):
		return nil
	}
}

// RunEvents implements [Runs].
func (h *HTTP) RunEvents(ctx context.Context, id uuid.UUID) ([]Event, error) {
	var got struct {
		Events []Event `json:"events"`
	}
	err := h.do(ctx, aboutRun(id, get(runPath(id, "/events"), nil)), &got)
	return got.Events, err
}

// RunOutput implements [Runs].
func (h *HTTP) RunOutput(ctx context.Context, id uuid.UUID, attempt int) (Output, error) {
	v := url.Values{"bytes": {"true"}}
	if attempt > 0 {
		v.Set("attempt", strconv.Itoa(attempt))
	}
	var got struct {
		Output
		Head []byte `json:"head"`
		Tail []byte `json:"tail"`
	}
	err := h.do(ctx, aboutRun(id, get(runPath(id, "/output"), v)), &got)
	got.Output.Head, got.Output.Tail = got.Head, got.Tail
	return got.Output, err
}

// CancelRun implements [Runs].
func (h *HTTP) CancelRun(ctx context.Context, id uuid.UUID, reason string) (got Cancelled, err error) {
	return got, h.do(ctx, aboutRun(id, post(runPath(id, "/cancel"), map[string]string{"reason": reason})), &got)
}

// RetryRun implements [Runs].
func (h *HTTP) RetryRun(ctx context.Context, id uuid.UUID, key, reason string) (got Triggered, err error) {
	body := map[string]string{"reason": reason}
	if key != "" {
		body["key"] = key
	}
	q := aboutRun(id, post(runPath(id, "/retry"), body))
	q.about.invalid = func(field, why string) error { return &eventstore.RequestError{Field: field, Why: why} }
	return got, h.do(ctx, q, &got)
}

// Events implements [Log].
func (h *HTTP) Events(ctx context.Context, q EventQuery) (EventPage, error) {
	v := url.Values{"format": {"record"}, "type": q.Types}
	switch {
	case q.From.Cursor != "":
		v.Set("after", q.From.Cursor)
	case q.From.AtEnd:
		v.Set("after", "now")
	case q.From.After > 0:
		v.Set("after", strconv.FormatInt(q.From.After, 10))
	}
	for _, id := range q.Streams {
		v.Add("stream", id.String())
	}
	setText(v, "job", q.Job)
	setTime(v, "since", q.Since)
	setTime(v, "until", q.Until)
	limit := MaxEvents
	if q.Limit > 0 {
		limit = min(q.Limit, MaxEvents)
	}
	v.Set("limit", strconv.Itoa(limit))
	req := get("/v1/events", v)
	req.about.invalid = func(field, _ string) error {
		if field == "cursor" && q.From.Cursor != "" {
			return &PlaceError{q.From.Cursor}
		}
		return nil
	}
	if q.Wait > 0 {
		req.waits = min(q.Wait, waitAtATime)
		v.Set("wait", req.waits.String())
	}
	var got struct {
		Events []Event `json:"events"`
		Next   string  `json:"next"`
		More   bool    `json:"more"`
	}
	began := time.Now()
	err := h.do(ctx, req, &got)
	if err == nil && q.Wait > 0 && len(got.Events) == 0 && !got.More {
		err = atLeast(ctx, began, pauseFirst)
	}
	return EventPage{Events: got.Events, Next: Place{Cursor: got.Next}, More: got.More}, err
}
