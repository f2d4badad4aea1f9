package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/projections"
)

// OutboxStatus implements [Operations].
func (h *HTTP) OutboxStatus(ctx context.Context, limit int) (o Outbox, err error) {
	return o, h.do(ctx, get("/v1/outbox", limited(limit)), &o)
}

func limited(n int) url.Values { return url.Values{"limit": {strconv.Itoa(n)}} }

// ReplayOutbox implements [Operations].
func (h *HTTP) ReplayOutbox(ctx context.Context, s Packs) (int, error) {
	if !s.All && s.IDs == nil && s.Since.IsZero() && s.Until.IsZero() {
		return 0, outbox.ErrNothingSelected
	}
	if !s.Since.IsZero() {
		s.Since = s.Since.UTC()
	}
	if !s.Until.IsZero() {
		s.Until = s.Until.UTC()
	}
	var got struct {
		Replayed int `json:"replayed"`
	}
	err := h.do(ctx, post("/v1/outbox/replay", s), &got)
	return got.Replayed, err
}

// Rates implements [Operations].
func (h *HTTP) Rates(ctx context.Context, f projections.StatsFilter) (r projections.Rates, err error) {
	return r, h.do(ctx, aboutStats("rates", f), &r)
}

// Durations implements [Operations].
func (h *HTTP) Durations(ctx context.Context, f projections.StatsFilter) (d projections.Durations, err error) {
	return d, h.do(ctx, aboutStats("durations", f), &d)
}

func aboutStats(what string, f projections.StatsFilter) request {
	v := url.Values{}
	setText(v, "job", f.Job)
	setText(v, "queue", f.Queue)
	setText(v, "kind", f.Kind)
	setTime(v, "from", f.From)
	setTime(v, "to", f.To)
	if f.Step != 0 && what == "rates" {
		v.Set("step", f.Step.String())
	}
	q := get("/v1/stats/"+what, v)
	q.about.invalid = func(field, why string) error { return &projections.FilterError{Field: field, Why: why} }
	return q
}

// Queues implements [Operations].
func (h *HTTP) Queues(ctx context.Context) ([]projections.QueueStats, error) {
	var got struct {
		Queues []projections.QueueStats `json:"queues"`
	}
	err := h.do(ctx, get("/v1/queues", nil), &got)
	return got.Queues, err
}

// Workers implements [Operations].
func (h *HTTP) Workers(ctx context.Context) ([]Worker, error) {
	var got struct {
		Workers []Worker `json:"workers"`
	}
	err := h.do(ctx, get("/v1/workers", nil), &got)
	return got.Workers, err
}

// Engines implements [Operations].
func (h *HTTP) Engines(ctx context.Context) ([]Engine, error) {
	var got struct {
		Engines []Engine `json:"engines"`
	}
	err := h.do(ctx, get("/v1/engines", nil), &got)
	return got.Engines, err
}

// Parked implements [Operations].
func (h *HTTP) Parked(ctx context.Context, limit int, runs ...uuid.UUID) ([]Parked, error) {
	v := limited(limit)
	for _, id := range runs {
		v.Add("run", id.String())
	}
	var got struct {
		Parked []Parked `json:"parked"`
	}
	err := h.do(ctx, get("/v1/parked-runs", v), &got)
	return got.Parked, err
}

// Unpark implements [Operations].
func (h *HTTP) Unpark(ctx context.Context, run uuid.UUID) (u Unparked, err error) {
	return u, h.do(ctx, aboutRun(run, post(runPath(run, "/unpark"), nil)), &u)
}

// Status implements [Operations].
func (h *HTTP) Status(ctx context.Context) (s Status, err error) {
	return s, h.do(ctx, get("/v1/status", nil), &s)
}

// Eras implements [Operations].
func (h *HTTP) Eras(ctx context.Context) ([]Era, error) {
	var got struct {
		Eras []Era `json:"eras"`
	}
	err := h.do(ctx, get("/v1/eras", nil), &got)
	return got.Eras, err
}

// Tokens lists the tokens of the deployment.
func (h *HTTP) Tokens(ctx context.Context) ([]Token, error) {
	var got struct {
		Tokens []Token `json:"tokens"`
	}
	err := h.do(ctx, get("/v1/tokens", nil), &got)
	return got.Tokens, err
}

// RevokeToken ends a token.
func (h *HTTP) RevokeToken(ctx context.Context, name string) error {
	return h.do(ctx, request{method: http.MethodDelete, path: "/v1/tokens/" + url.PathEscape(name)}, nil)
}

// Ready tells whether the engine says that it can do its work; the error tells
// why not.
func (h *HTTP) Ready(ctx context.Context) error {
	a, err := h.send(ctx, get("/readyz", nil), nil, "")
	if err != nil {
		return (&trying{n: 1}).failed(h.base, get("/readyz", nil), false, err)
	}
	if a.status == http.StatusOK {
		return nil
	}
	return h.problem(get("/readyz", nil), a.status, a.header, a.media(), a.body)
}
