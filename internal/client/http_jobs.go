package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/daybookhq/daybook/domain"
)

func jobPath(name, below string) string { return "/v1/jobs/" + url.PathEscape(name) + below }

// planned is a plan as the API gives it: with the definitions of the jobs that go,
// which the caller does not have.
type planned struct {
	Steps []struct {
		Step
		Spec *domain.JobSpec `json:"spec"`
	} `json:"steps"`
	Conflicts []Conflict `json:"conflicts"`
}

func (p planned) plan(c Change) Plan {
	specs := map[string]domain.JobSpec{}
	for _, d := range c.Definitions {
		specs[d.Spec.Name] = d.Spec
	}
	var out Plan
	for _, s := range p.Steps {
		s.Step.Spec = specs[s.Name]
		if s.Spec != nil {
			s.Step.Spec = *s.Spec
		}
		out.Steps = append(out.Steps, s.Step)
	}
	out.Conflicts = p.Conflicts
	return out
}

// Plan implements [Jobs].
func (h *HTTP) Plan(ctx context.Context, c Change) (Plan, error) {
	var p planned
	err := h.do(ctx, post("/v1/jobs:plan", c), &p)
	return p.plan(c), err
}

// Apply implements [Jobs].
func (h *HTTP) Apply(ctx context.Context, c Change) (Plan, error) {
	var p planned
	err := h.do(ctx, post("/v1/jobs:apply", c), &p)
	if _, ok := errors.AsType[*ConflictError](err); ok {
		shown, planErr := h.Plan(ctx, c)
		if planErr != nil {
			return Plan{}, err
		}
		return shown, err
	}
	return p.plan(c), err
}

// ListJobs implements [Jobs].
func (h *HTTP) ListJobs(ctx context.Context, f JobFilter) (p JobPage, err error) {
	q := url.Values{"limit": {strconv.Itoa(MaxJobs)}}
	if f.Archived {
		q.Set("archived", "true")
	}
	setText(q, "cursor", f.Cursor)
	return p, h.do(ctx, get("/v1/jobs", q), &p)
}

// Job implements [Jobs].
func (h *HTTP) Job(ctx context.Context, name string) (j Job, err error) {
	return j, h.do(ctx, aboutJob(name, get(jobPath(name, ""), nil)), &j)
}

func aboutJob(name string, q request) request {
	q.about.job = name
	return q
}

// CommandJob implements [Jobs].
func (h *HTTP) CommandJob(ctx context.Context, name string, do JobAction, reason string) (Job, bool, error) {
	q := post(jobPath(name, "/"+string(do)), map[string]string{"reason": reason})
	switch do {
	case Pause, Resume:
	case Archive:
		query := url.Values{}
		setText(query, "reason", reason)
		q = request{method: http.MethodDelete, path: jobPath(name, ""), query: query}
	default:
		return Job{}, false, fmt.Errorf("job %q: unknown action %q", name, do)
	}
	var got struct {
		Changed bool `json:"changed"`
		Job     Job  `json:"job"`
	}
	err := h.do(ctx, aboutJob(name, q), &got)
	return got.Job, got.Changed, err
}

// JobHistory implements [Jobs].
func (h *HTTP) JobHistory(ctx context.Context, name string, before, limit int) ([]Event, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if before > 0 {
		q.Set("before", strconv.Itoa(before))
	}
	var got struct {
		Events []Event `json:"events"`
	}
	err := h.do(ctx, aboutJob(name, get(jobPath(name, "/history"), q)), &got)
	return got.Events, err
}

// maxBackfill is how many instants a request may look at.
const maxBackfill = 5000

// Backfill implements [Jobs].
func (h *HTTP) Backfill(ctx context.Context, b Backfill) (got Backfilled, err error) {
	q := post(jobPath(b.Job, "/backfill"), struct {
		From   time.Time `json:"from"`
		To     time.Time `json:"to"`
		Limit  int       `json:"limit,omitempty"`
		Reason string    `json:"reason,omitempty"`
	}{b.From.UTC(), b.To.UTC(), min(cmp.Or(b.Limit, maxBackfill), maxBackfill), b.Reason})
	return got, h.do(ctx, aboutJob(b.Job, q), &got)
}

func setText(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func setTime(q url.Values, name string, at time.Time) {
	if !at.IsZero() {
		q.Set(name, at.UTC().Format(time.RFC3339Nano))
	}
}
