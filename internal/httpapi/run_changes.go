package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/worker/protocol"
)

// maxRuns is how many runs one request may ask for.
const maxRuns = 1000

type runRequest struct {
	_    struct{}        `json:"-" additionalProperties:"false"`
	Key  string          `json:"key,omitempty" maxLength:"256" doc:"The same key of the same job gives the same run; absent: one of its own"`
	At   *time.Time      `json:"at,omitempty" doc:"When the run becomes ready; absent or past: now"`
	Args json.RawMessage `json:"args,omitempty" doc:"Arguments, any JSON; absent: the job's"`

	Reason string `json:"reason,omitempty" maxLength:"1024" doc:"Why, for the record"`
}

type requestedOutput struct {
	Status   int
	Location string `header:"Location" doc:"The run"`
	Body     client.Triggered
}

// batchedRun is what became of one request of a batch.
type batchedRun struct {
	RunID   *uuid.UUID `json:"run_id,omitempty"`
	Key     string     `json:"key,omitempty" doc:"As it was given"`
	Created bool       `json:"created" doc:"False: the key had its run already, or there is a problem"`
	Problem *Problem   `json:"problem,omitempty" doc:"Why there is no run; the others of the batch are not concerned"`
}

type batchRequest struct {
	_    struct{}     `json:"-" additionalProperties:"false"`
	Runs []runRequest `json:"runs" minItems:"1" maxItems:"1000" nullable:"false"`
}

type batchedRuns struct {
	Created int          `json:"created" doc:"How many runs were made"`
	Refused int          `json:"refused" doc:"How many have a problem"`
	Runs    []batchedRun `json:"runs" doc:"In the order of the request"`
}

type batchOutput struct{ Body batchedRuns }

type retryRequest struct {
	_      struct{} `json:"-" additionalProperties:"false"`
	Key    string   `json:"key,omitempty" maxLength:"256" doc:"The same key of the same job gives the same run; absent: one of its own"`
	Reason string   `json:"reason,omitempty" maxLength:"1024" doc:"Why, for the record"`
}

type cancelledOutput struct{ Body client.Cancelled }

func (a *api) runChangeRoutes() {
	enqueue, operate := []Scope{ScopeEnqueue}, []Scope{ScopeOperate}
	handle(a, operation{id: "request-run", method: http.MethodPost, path: "/v1/jobs/{name}/runs", tag: tagRuns, scopes: enqueue, creates: true,
		statuses: []int{http.StatusCreated, http.StatusOK}, summary: "Ask for a run of a job", description: "200 if the key had its run already."}, a.requestRun)
	handle(a, operation{id: "request-runs", method: http.MethodPost, path: "/v1/jobs/{name}/runs:batch", tag: tagRuns, scopes: enqueue, creates: true, limit: maxBatch,
		summary: "Ask for up to 1000 runs of a job", description: "Each on its own: one that is refused takes no other down with it."}, a.requestRuns)
	handle(a, operation{id: "cancel-run", method: http.MethodPost, path: "/v1/runs/{id}/cancel", tag: tagRuns, scopes: operate, creates: true,
		summary: "Cancel a run", description: "One that has not started ends at once. The worker of one that has is asked to end it."}, a.cancelRun)
	handle(a, operation{id: "retry-run", method: http.MethodPost, path: "/v1/runs/{id}/retry", tag: tagRuns, scopes: operate, creates: true,
		statuses: []int{http.StatusCreated, http.StatusOK}, summary: "Run a finished run again", description: "A new run with the same arguments; 200 if the key had its run already."}, a.retryRun)
}

func (a *api) requestRun(ctx context.Context, in *struct {
	JobPath
	Body *runRequest
}) (*requestedOutput, error) {
	if in.Body == nil {
		in.Body = &runRequest{}
	}
	got, err := a.Work.Enqueue(ctx, callOf(ctx).who.actor, []protocol.EnqueueItem{in.Body.item(ctx, in.Name, 0)})
	switch {
	case err != nil:
		return nil, err
	case got[0].Error != nil:
		return nil, got[0].Error
	}
	return requested(client.Triggered{RunID: got[0].RunID, Job: in.Name, Key: in.Body.Key, Created: made(ctx, in.Body.Key, got[0].Created)}), nil
}

// made reports whether the request made its run. A run whose key is that of the
// request itself was made by nobody else: by a try whose answer was lost.
func made(ctx context.Context, key string, created bool) bool {
	return created || key == "" && callOf(ctx).keyed != nil
}

func requested(t client.Triggered) *requestedOutput {
	out := &requestedOutput{Status: http.StatusOK, Location: "/v1/runs/" + t.RunID.String(), Body: t}
	if t.Created {
		out.Status = http.StatusCreated
	}
	return out
}

// item is the request for the engine. Where the caller gave an Idempotency-Key
// and no key, the run's is made from that: the schema sees to the rest.
func (q *runRequest) item(ctx context.Context, job string, n int) protocol.EnqueueItem {
	it := protocol.EnqueueItem{Job: job, Key: q.Key, Args: q.Args, Reason: q.Reason}
	if k := callOf(ctx).keyed; it.Key == "" && k != nil {
		it.Key = k.runKey(n)
	}
	if q.At != nil {
		it.At = protocol.At(*q.At)
	}
	if bytes.Equal(bytes.TrimSpace(it.Args), []byte("null")) {
		it.Args = nil
	}
	return it
}

func (a *api) requestRuns(ctx context.Context, in *struct {
	JobPath
	Body batchRequest
}) (*batchOutput, error) {
	items := make([]protocol.EnqueueItem, len(in.Body.Runs))
	for i := range in.Body.Runs {
		items[i] = in.Body.Runs[i].item(ctx, in.Name, i)
	}
	got, err := a.Work.Enqueue(ctx, callOf(ctx).who.actor, items)
	if err != nil {
		return nil, err
	}
	out := &batchOutput{}
	out.Body.Runs = make([]batchedRun, len(got))
	unknown := 0
	for i, g := range got {
		r := &out.Body.Runs[i]
		r.Key = in.Body.Runs[i].Key
		if g.Error != nil {
			r.Problem = problemOf(g.Error)
			out.Body.Refused++
			if g.Error.Code == protocol.CodeNotFound || g.Error.Code == protocol.CodeConflict {
				unknown++
			}
			for k := range r.Problem.Errors {
				r.Problem.Errors[k].Location = "body.runs[" + strconv.Itoa(i) + "]" + r.Problem.Errors[k].Location[len("body"):]
			}
			continue
		}
		r.RunID, r.Created = &got[i].RunID, made(ctx, in.Body.Runs[i].Key, g.Created)
		if r.Created {
			out.Body.Created++
		}
	}
	if unknown == len(got) { // it is the job, for all of them
		return nil, got[0].Error
	}
	return out, nil
}

func (a *api) cancelRun(ctx context.Context, in *struct {
	RunPath
	Body *reasonBody
}) (*cancelledOutput, error) {
	answers, err := a.Store.Execute(ctx, []eventstore.Command{{RunID: in.ID, Do: domain.CancelRun{Reason: in.Body.text()}, Meta: meta(ctx)}})
	if err != nil {
		return nil, err
	}
	got := answers[0]
	refused, ok := errors.AsType[*domain.Refusal](got.Err)
	switch {
	case ok && refused.Code == domain.CodeTerminal:
		return nil, &client.FinishedError{Run: in.ID, State: got.Run.State}
	case got.Err != nil:
		return nil, got.Err
	}
	if !got.Run.State.Terminal() && a.Wake != nil {
		a.Wake.Cancelled(in.ID)
	}
	return &cancelledOutput{client.Cancelled{RunID: in.ID, State: got.Run.State, Repeat: got.Repeat}}, nil
}

func (a *api) retryRun(ctx context.Context, in *struct {
	RunPath
	Body *retryRequest
}) (*requestedOutput, error) {
	run, err := a.read.GetRun(ctx, in.ID)
	switch {
	case err != nil:
		return nil, err
	case !run.State.Terminal():
		return nil, &client.NotFinishedError{Run: in.ID, State: run.State}
	}
	q := eventstore.RunRequest{Job: run.Job, Args: run.Args, RetryOf: &in.ID, Meta: meta(ctx)}
	given := ""
	if in.Body != nil {
		q.Key, q.Reason, given = in.Body.Key, in.Body.Reason, in.Body.Key
	}
	if k := callOf(ctx).keyed; q.Key == "" && k != nil {
		q.Key = k.runKey(0)
	}
	got, err := a.Store.Request(ctx, []eventstore.RunRequest{q})
	switch {
	case err != nil:
		return nil, err
	case got[0].Err != nil:
		return nil, got[0].Err
	}
	if got[0].Created && a.Wake != nil {
		a.Wake.Due(got[0].Queue)
	}
	return requested(client.Triggered{RunID: got[0].RunID, Job: run.Job, Key: given, Created: made(ctx, given, got[0].Created)}), nil
}
