package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
	"github.com/daybookhq/daybook/projections/retention"
)

type queueList struct {
	Queues []projections.QueueStats `json:"queues"`
}

type workerList struct {
	Workers []client.Worker `json:"workers"`
}

type queuesOutput struct{ Body queueList }

type workersOutput struct{ Body workerList }

func (a *api) operationRoutes() {
	handle(a, operation{id: "list-queues", method: http.MethodGet, path: "/v1/queues", tag: tagOperations, scopes: []Scope{ScopeRead},
		summary: "Show the depth of every lane", description: "A lane is a queue and a kind: those in which something waits or runs, or that a worker declares."}, a.listQueues)
	handle(a, operation{id: "list-workers", method: http.MethodGet, path: "/v1/workers", tag: tagOperations, scopes: []Scope{ScopeRead},
		summary: "List the workers that were heard of lately", description: "One that was silent for 15 seconds is not listed. A worker with 0 slots drains."}, a.listWorkers)
	handle(a, operation{id: "get-retention", method: http.MethodGet, path: "/v1/retention", tag: tagOperations, scopes: []Scope{ScopeRead},
		summary: "Show how long history is kept", description: "Every month of runs, in the log or no longer, and the low mark below which the log is not complete."}, a.retention)
}

type retentionOutput struct{ Body retention.Plan }

func (a *api) retention(ctx context.Context, _ *struct{}) (*retentionOutput, error) {
	plan, err := retention.PlanOf(ctx, a.Store)
	if plan.Months == nil {
		plan.Months = []retention.Month{}
	}
	return &retentionOutput{plan}, err
}

func (a *api) listQueues(ctx context.Context, in *struct {
	AsOf time.Time `query:"as_of" doc:"The lanes as they stood at this instant, without workers; what waited for a place counts as due"`
}) (*queuesOutput, error) {
	read := a.read.Queues
	if !in.AsOf.IsZero() {
		read = func(ctx context.Context) ([]projections.QueueStats, error) { return a.read.QueuesAsOf(ctx, in.AsOf) }
	}
	found, err := read(ctx)
	if err != nil {
		return nil, err
	}
	out := &queuesOutput{}
	out.Body.Queues = append([]projections.QueueStats{}, found...)
	return out, nil
}

func (a *api) listWorkers(ctx context.Context, _ *struct{}) (*workersOutput, error) {
	found, err := a.Store.Workers(ctx)
	if err != nil {
		return nil, err
	}
	loads, err := a.Store.Loads(ctx)
	if err != nil {
		return nil, err
	}
	running := map[string]int{}
	for _, l := range loads {
		if l.Worker != "" {
			running[l.Worker] += l.Claims
		}
	}
	out := &workersOutput{}
	out.Body.Workers = make([]client.Worker, len(found))
	for i, w := range found {
		lanes := make([]client.Lane, len(w.Lanes))
		for k, l := range w.Lanes {
			lanes[k] = client.Lane(l)
		}
		out.Body.Workers[i] = client.Worker{ID: w.ID, Host: w.Host, Version: w.Version, Lanes: lanes, Slots: w.Slots, Running: running[w.ID],
			FirstSeen: w.FirstSeen, SeenAt: w.SeenAt}
	}
	return out, nil
}
