package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
)

type projectionList struct {
	Projections []client.ProjectionState `json:"projections"`
}

type projectionsOutput struct{ Body projectionList }

// ProjectionPath names the read model.
type ProjectionPath struct {
	Name string `path:"name" maxLength:"64" doc:"Name of the read model, for example run_summaries"`
}

func (a *api) evidenceRoutes() {
	const long = " The answer is lines of JSON: {\"progress\": {…}} every few seconds, at last {\"done\": true, \"result\": {…}} or {\"problem\": {…}}. " +
		"Without that last line it was broken off; whoever leaves ends it. One at a time is carried out by an engine."
	handle(a, operation{id: "list-projections", method: http.MethodGet, path: "/v1/projections", tag: tagOperations, scopes: []Scope{ScopeRead},
		summary: "Show how far each read model is"}, a.listProjections)
	operate := []Scope{ScopeOperate}
	handle(a, operation{id: "verify-log", method: http.MethodPost, path: "/v1/audit/verify", tag: tagOperations, scopes: operate, long: true,
		summary: "Fold the whole log and hold everything else against it", description: "The result is sound when violation_count is 0." + long}, a.verify)
	handle(a, operation{id: "check-projection", method: http.MethodPost, path: "/v1/projections/{name}/check", tag: tagOperations, scopes: operate, long: true,
		summary: "Compare a read model with the log", description: "All is well when drifted is 0." + long}, a.checkProjection)
	handle(a, operation{id: "rebuild-projection", method: http.MethodPost, path: "/v1/projections/{name}/rebuild", tag: tagOperations, scopes: operate, long: true,
		summary: "Make a read model anew beside the old one, and swap", description: "Lists are answered from the old one until then." + long}, a.rebuildProjection)
}

func (a *api) listProjections(ctx context.Context, _ *struct{}) (*projectionsOutput, error) {
	found, err := a.deployment(ctx).Projections(ctx)
	return &projectionsOutput{projectionList{found}}, err
}

func (a *api) verify(ctx context.Context, _ *struct{}) (*huma.StreamResponse, error) {
	return a.longs.begin("audit verify", func(ctx context.Context, tell func(any)) (any, error) {
		return a.deployment(ctx).Verify(ctx, func(events int) { tell(projections.Progress{Events: int64(events)}) })
	}, a)
}

func (a *api) checkProjection(_ context.Context, in *struct {
	ProjectionPath
	Sample int `query:"sample" minimum:"0" doc:"Compare about so many runs; 0: all"`
}) (*huma.StreamResponse, error) {
	if err := known(in.Name); err != nil {
		return nil, err
	}
	return a.longs.begin("projection check", func(ctx context.Context, _ func(any)) (any, error) {
		return a.deployment(ctx).CheckProjection(ctx, in.Name, in.Sample)
	}, a)
}

func (a *api) rebuildProjection(_ context.Context, in *ProjectionPath) (*huma.StreamResponse, error) {
	if err := known(in.Name); err != nil {
		return nil, err
	}
	return a.longs.begin("projection rebuild", func(ctx context.Context, tell func(any)) (any, error) {
		return struct{}{}, a.deployment(ctx).RebuildProjection(ctx, in.Name, func(p projections.Progress) { tell(p) })
	}, a)
}

// known refuses a name before the answer begins.
func known(name string) error {
	if name != projections.RunSummariesName {
		return &projections.UnknownProjectionError{Name: name}
	}
	return nil
}
