package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/internal/client"
)

type engineList struct {
	Engines []client.Engine `json:"engines"`
}

type parkedList struct {
	Parked []client.Parked `json:"parked"`
}

type eraList struct {
	Eras []client.Era `json:"eras"`
}

type replayed struct {
	Replayed int `json:"replayed" doc:"Packs that are due again"`
}

type replayRequest struct {
	_ struct{} `json:"-" additionalProperties:"false"`
	client.Packs
}

type (
	statusOutput  struct{ Body client.Status }
	enginesOutput struct{ Body engineList }
	parkedOutput  struct{ Body parkedList }
	unparkOutput  struct{ Body client.Unparked }
	erasOutput    struct{ Body eraList }
	outboxOutput  struct{ Body client.Outbox }
	replayOutput  struct{ Body replayed }
)

func (a *api) outboxRoutes() {
	read, operate := []Scope{ScopeRead}, []Scope{ScopeOperate}
	handle(a, operation{id: "get-status", method: http.MethodGet, path: "/v1/status", tag: tagOperations, scopes: read,
		summary: "Show what answers, and what time the database has"}, a.status)
	handle(a, operation{id: "list-engines", method: http.MethodGet, path: "/v1/engines", tag: tagOperations, scopes: read,
		summary: "List the engines that were heard of lately", description: "One that was silent for 15 seconds is not listed."}, a.listEngines)
	handle(a, operation{id: "list-eras", method: http.MethodGet, path: "/v1/eras", tag: tagOperations, scopes: read,
		summary: "List the histories of the database", description: "The present one is the last. A new one is begun after a restore or a failover, beside the database."}, a.listEras)
	handle(a, operation{id: "list-parked-runs", method: http.MethodGet, path: "/v1/parked-runs", tag: tagOperations, scopes: read,
		summary: "List runs that were put aside because they cannot be processed", description: "The newest first."}, a.listParked)
	handle(a, operation{id: "unpark-run", method: http.MethodPost, path: "/v1/runs/{id}/unpark", tag: tagOperations, scopes: operate, creates: true,
		summary: "Make a parked run due again", description: "If the cause is still there, the next claim parks it once more."}, a.unpark)
	handle(a, operation{id: "get-outbox", method: http.MethodGet, path: "/v1/outbox", tag: tagOperations, scopes: read,
		summary: "Show what waits to be published", description: "Sums, and some packs: parked ones first, then failed ones, each oldest first."}, a.outboxStatus)
	handle(a, operation{id: "replay-outbox", method: http.MethodPost, path: "/v1/outbox/replay", tag: tagOperations, scopes: operate, creates: true,
		summary: "Make failed and parked packs due at once", description: "Conditions that are given must all hold; one is needed."}, a.replayOutbox)
}

func (a *api) status(ctx context.Context, _ *struct{}) (*statusOutput, error) {
	s, err := a.deployment(ctx).Status(ctx)
	s.Version = a.Version
	return &statusOutput{s}, err
}

func (a *api) listEngines(ctx context.Context, _ *struct{}) (*enginesOutput, error) {
	found, err := a.deployment(ctx).Engines(ctx)
	return &enginesOutput{engineList{found}}, err
}

func (a *api) listEras(ctx context.Context, _ *struct{}) (*erasOutput, error) {
	found, err := a.deployment(ctx).Eras(ctx)
	return &erasOutput{eraList{found}}, err
}

func (a *api) listParked(ctx context.Context, in *struct {
	Limit int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"At most so many"`
	Run   []string `query:"run,explode" nullable:"false" maxItems:"100" doc:"These runs"`
}) (*parkedOutput, error) {
	var runs []uuid.UUID // nil: all
	for _, text := range in.Run {
		id, err := uuid.Parse(text)
		if runs = append(runs, id); err != nil {
			return nil, invalid(Violation{Location: "query.run", Value: shown(text), Message: "is no id of a run"})
		}
	}
	found, err := a.deployment(ctx).Parked(ctx, in.Limit, runs...)
	return &parkedOutput{parkedList{found}}, err
}

func (a *api) unpark(ctx context.Context, in *RunPath) (*unparkOutput, error) {
	got, err := a.deployment(ctx).Unpark(ctx, in.ID)
	return &unparkOutput{got}, err
}

func (a *api) outboxStatus(ctx context.Context, in *struct {
	Limit int `query:"limit" minimum:"0" maximum:"1000" default:"20" doc:"Packs to show one by one, at most"`
}) (*outboxOutput, error) {
	s, err := a.deployment(ctx).OutboxStatus(ctx, in.Limit)
	return &outboxOutput{s}, err
}

func (a *api) replayOutbox(ctx context.Context, in *struct{ Body replayRequest }) (*replayOutput, error) {
	p := in.Body.Packs
	if !p.All && len(p.IDs) == 0 && p.Since.IsZero() && p.Until.IsZero() {
		return nil, invalid(Violation{Location: "body", Message: "names no packs", Hint: `give ids, since, until, or "all": true`})
	}
	n, err := a.deployment(ctx).ReplayOutbox(ctx, p)
	return &replayOutput{replayed{n}}, err
}
