package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/projections"
	"github.com/daybookhq/daybook/projections/evidence"
	"github.com/daybookhq/daybook/projections/retention"
)

// Explain implements [Evidence].
func (h *HTTP) Explain(ctx context.Context, job string, at time.Time) (x evidence.Explanation, err error) {
	v := url.Values{}
	setTime(v, "at", at)
	return x, h.do(ctx, aboutJob(job, get(jobPath(job, "/explain"), v)), &x)
}

// Coverage implements [Evidence].
func (h *HTTP) Coverage(ctx context.Context, job string, from, to time.Time) (c evidence.Coverage, err error) {
	v := url.Values{}
	setTime(v, "from", from)
	setTime(v, "to", to)
	return c, h.do(ctx, aboutJob(job, get(jobPath(job, "/coverage"), v)), &c)
}

// Verify implements [Evidence].
func (h *HTTP) Verify(ctx context.Context, progress func(events int)) (r evidence.Report, err error) {
	return r, h.follow(ctx, post("/v1/audit/verify", nil), &r, func(p projections.Progress) {
		if progress != nil {
			progress(int(p.Events))
		}
	})
}

func asOf(at time.Time) url.Values {
	v := url.Values{}
	setTime(v, "as_of", at)
	return v
}

// Lineage implements [Evidence].
func (h *HTTP) Lineage(ctx context.Context, run uuid.UUID) (l evidence.Lineage, err error) {
	return l, h.do(ctx, aboutRun(run, get(runPath(run, "/lineage"), nil)), &l)
}

// JobAsOf implements [Evidence].
func (h *HTTP) JobAsOf(ctx context.Context, name string, at time.Time) (j Job, err error) {
	return j, h.do(ctx, aboutJob(name, get(jobPath(name, ""), asOf(at))), &j)
}

// RunAsOf implements [Evidence].
func (h *HTTP) RunAsOf(ctx context.Context, id uuid.UUID, at time.Time) (run projections.RunDetail, err error) {
	return run, h.do(ctx, aboutRun(id, get(runPath(id, ""), asOf(at))), &run)
}

// QueuesAsOf implements [Evidence].
func (h *HTTP) QueuesAsOf(ctx context.Context, at time.Time) ([]projections.QueueStats, error) {
	var got struct {
		Queues []projections.QueueStats `json:"queues"`
	}
	err := h.do(ctx, get("/v1/queues", asOf(at)), &got)
	return got.Queues, err
}

// Retention implements [Evidence].
func (h *HTTP) Retention(ctx context.Context) (p retention.Plan, err error) {
	return p, h.do(ctx, get("/v1/retention", nil), &p)
}

// Projections implements [Evidence].
func (h *HTTP) Projections(ctx context.Context) ([]ProjectionState, error) {
	var got struct {
		Projections []ProjectionState `json:"projections"`
	}
	err := h.do(ctx, get("/v1/projections", nil), &got)
	return got.Projections, err
}

// CheckProjection implements [Evidence].
func (h *HTTP) CheckProjection(ctx context.Context, name string, sample int) (r projections.CheckReport, err error) {
	q := ofProjection(name, "/check")
	q.query = url.Values{"sample": {strconv.Itoa(sample)}}
	return r, h.follow(ctx, q, &r, nil)
}

// RebuildProjection implements [Evidence].
func (h *HTTP) RebuildProjection(ctx context.Context, name string, progress func(projections.Progress)) error {
	return h.follow(ctx, ofProjection(name, "/rebuild"), nil, progress)
}

func ofProjection(name, below string) request {
	q := post("/v1/projections/"+url.PathEscape(name)+below, nil)
	q.about.projection = name
	return q
}
