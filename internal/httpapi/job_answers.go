package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/daybookhq/daybook/domain/schedule"
	"github.com/daybookhq/daybook/projections/evidence"
)

type previewOutput struct{ Body schedule.Preview }

type explanationOutput struct{ Body evidence.Explanation }

type coverageOutput struct{ Body evidence.Coverage }

func (a *api) jobAnswerRoutes() {
	handle(a, operation{id: "preview-job", method: http.MethodGet, path: "/v1/jobs/{name}/preview", tag: tagJobs, scopes: []Scope{ScopeRead},
		summary: "Show when a job will run", description: "The instants of its schedule, with what clock changes do to them. Without a schedule there are none."}, a.preview)
	handle(a, operation{id: "explain-job", method: http.MethodGet, path: "/v1/jobs/{name}/explain", tag: tagJobs, scopes: []Scope{ScopeRead},
		summary: "Say why a job ran, did not run, or ran late at an instant"}, a.explain)
	handle(a, operation{id: "cover-job", method: http.MethodGet, path: "/v1/jobs/{name}/coverage", tag: tagJobs, scopes: []Scope{ScopeRead},
		summary: "Compare what a job's schedules implied with what is on record", description: "All is well when missing and unexpected are 0."}, a.coverage)
}

func (a *api) preview(ctx context.Context, in *struct {
	JobPath
	After time.Time `query:"after" doc:"Instants after this; now if absent"`
	Until time.Time `query:"until" doc:"Instants up to this"`
	N     int       `query:"n" minimum:"1" maximum:"10000" default:"10" doc:"At most so many"`
}) (*previewOutput, error) {
	job, err := a.Store.Job(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	set, err := job.Spec.Instants()
	if err != nil {
		return nil, err
	}
	if set == nil {
		return &previewOutput{schedule.Preview{Description: "on request only", Warnings: []schedule.Warning{}, Fires: []schedule.PreviewFire{}, ClockChanges: []schedule.ClockChange{}}}, nil
	}
	if in.After.IsZero() {
		if in.After, err = a.Store.Now(ctx); err != nil {
			return nil, err
		}
	}
	if !in.Until.IsZero() && !in.Until.After(in.After) {
		return nil, invalid(Violation{Location: "query.until", Message: "is not after " + in.After.UTC().Format(time.RFC3339), Value: in.Until.Format(time.RFC3339)})
	}
	p := set.Preview(in.After, in.Until, in.N)
	if p.Warnings == nil {
		p.Warnings = []schedule.Warning{}
	}
	if p.ClockChanges == nil {
		p.ClockChanges = []schedule.ClockChange{}
	}
	return &previewOutput{p}, nil
}

func (a *api) explain(ctx context.Context, in *struct {
	JobPath
	At time.Time `query:"at" required:"true" doc:"The instant, to the microsecond"`
}) (*explanationOutput, error) {
	x, err := a.audit.Explain(ctx, in.Name, in.At)
	if err != nil {
		return nil, err
	}
	if x.Chain == nil {
		x.Chain = []string{}
	}
	return &explanationOutput{x}, nil
}

func (a *api) coverage(ctx context.Context, in *struct {
	JobPath
	From time.Time `query:"from" required:"true" doc:"Begin of the range, included"`
	To   time.Time `query:"to" required:"true" doc:"End of the range, included"`
}) (*coverageOutput, error) {
	if in.To.Before(in.From) {
		return nil, invalid(Violation{Location: "query.to", Message: "the range ends before it begins", Value: in.To.Format(time.RFC3339)})
	}
	c, err := a.audit.Coverage(ctx, in.Name, in.From, in.To)
	if err != nil {
		return nil, err
	}
	return &coverageOutput{c}, nil
}
