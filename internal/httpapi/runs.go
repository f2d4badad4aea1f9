package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
	"github.com/daybookhq/daybook/projections/evidence"
)

// RunPath names the run.
type RunPath struct {
	ID uuid.UUID `path:"id" format:"uuid" doc:"The run's id"`
}

type runListOutput struct {
	Link string `header:"Link" doc:"The next page, rel=\"next\""`
	Body projections.RunPage
}

type runOutput struct {
	Status int
	ETag   string `header:"ETag" doc:"The version of the run's stream"`
	Body   projections.RunDetail
}

type textOutput struct{ Body attemptText }

// attemptText is the output with its bytes, where they were asked for.
type attemptText struct {
	client.Output
	Head []byte `json:"head,omitempty" doc:"The beginning of what was written, as base64"`
	Tail []byte `json:"tail,omitempty" doc:"The end of what was written, as base64"`
}

func (a *api) runRoutes() {
	handle(a, operation{id: "list-runs", method: http.MethodGet, path: "/v1/runs", tag: tagRuns, scopes: []Scope{ScopeRead},
		summary: "List runs", description: "The newest instant first, from a projection that is lag behind the log. A filter that few runs pass can end a page early: " +
			"there may be more for as long as there is a next."}, a.listRuns)
	handle(a, operation{id: "get-run", method: http.MethodGet, path: "/v1/runs/{id}", tag: tagRuns, scopes: []Scope{ScopeRead},
		statuses: []int{http.StatusOK, http.StatusNotModified}, summary: "Show a run", description: "From the log itself, now or as it stood at an instant."}, a.getRun)
	handle(a, operation{id: "get-run-events", method: http.MethodGet, path: "/v1/runs/{id}/events", tag: tagRuns, scopes: []Scope{ScopeRead},
		summary: "Show the events of a run", description: "All of them, in their order."}, a.runEvents)
	handle(a, operation{id: "get-run-lineage", method: http.MethodGet, path: "/v1/runs/{id}/lineage", tag: tagRuns, scopes: []Scope{ScopeRead},
		summary: "Show where a run comes from and what came of it", description: "The definition that it followed and who made that, who asked for the run, its attempts, and retries before and after it."}, a.lineage)
	handle(a, operation{id: "get-run-output", method: http.MethodGet, path: "/v1/runs/{id}/output", tag: tagRuns, scopes: []Scope{ScopeRead},
		summary: "Show what an attempt wrote and returned", description: "It is kept for a shorter time than the run."}, a.runText)
}

func (a *api) listRuns(ctx context.Context, in *struct {
	Paging
	Job   string    `query:"job" maxLength:"64" doc:"Runs of this job"`
	State []string  `query:"state" nullable:"false" doc:"Runs in one of these states: pending, claimed, running, succeeded, failed, cancelled, skipped"`
	Queue string    `query:"queue" maxLength:"64" doc:"Runs in this queue"`
	Kind  string    `query:"kind" maxLength:"64" doc:"Runs of this kind"`
	Tag   string    `query:"tag" maxLength:"64" doc:"Runs of jobs that bear this tag now"`
	Since time.Time `query:"since" doc:"Scheduled at or after"`
	Until time.Time `query:"until" doc:"Scheduled before"`
	Text  string    `query:"text" maxLength:"256" doc:"In the error's type or message, whatever the case"`
}) (*runListOutput, error) {
	f := projections.RunFilter{Job: in.Job, Queue: in.Queue, Kind: in.Kind, Tag: in.Tag, Since: in.Since, Until: in.Until,
		Text: in.Text, Limit: in.Limit, Cursor: in.Cursor}
	for location, s := range map[string]string{"query.queue": in.Queue, "query.kind": in.Kind, "query.tag": in.Tag, "query.text": in.Text} {
		if err := storable(location, s); err != nil {
			return nil, err
		}
	}
	for _, s := range in.State {
		f.States = append(f.States, domain.State(s))
	}
	page, err := a.read.ListRuns(ctx, f)
	if err != nil {
		return nil, err
	}
	if page.Runs == nil {
		page.Runs = []projections.RunSummary{}
	}
	return &runListOutput{Link: nextLink(callOf(ctx).url, page.Next), Body: page}, nil
}

func (a *api) getRun(ctx context.Context, in *struct {
	RunPath
	AsOf        time.Time `query:"as_of" doc:"The run as it stood at this instant, without outputs and leases"`
	IfNoneMatch string    `header:"If-None-Match" doc:"ETags that the caller has"`
}) (*runOutput, error) {
	if !in.AsOf.IsZero() {
		run, err := a.read.RunAsOf(ctx, in.ID, in.AsOf)
		return &runOutput{Status: http.StatusOK, Body: whole(run)}, err
	}
	run, err := a.read.GetRun(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &runOutput{Status: http.StatusOK, ETag: etag(run.Version), Body: whole(run)}
	if noneMatch(in.IfNoneMatch, run.Version) {
		out.Status = http.StatusNotModified
	}
	return out, nil
}

// whole has lists where there is nothing in them.
func whole(d projections.RunDetail) projections.RunDetail {
	if d.ClaimHistory == nil {
		d.ClaimHistory = []projections.Claim{}
	}
	if d.Outputs == nil {
		d.Outputs = []projections.Output{}
	}
	return d
}

func (a *api) runEvents(ctx context.Context, in *RunPath) (*eventListOutput, error) {
	found, err := a.read.RunEvents(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &eventListOutput{Body: eventList{Events: historyOf(domain.CategoryRun, found)}}, nil
}

type lineageOutput struct{ Body evidence.Lineage }

func (a *api) lineage(ctx context.Context, in *RunPath) (*lineageOutput, error) {
	l, err := a.audit.Lineage(ctx, in.ID)
	return &lineageOutput{l}, err
}

func (a *api) runText(ctx context.Context, in *struct {
	RunPath
	Attempt int  `query:"attempt" minimum:"0" doc:"The attempt; the last one that wrote something if absent"`
	Bytes   bool `query:"bytes" doc:"The bytes, too: text has replacement characters for what is not UTF-8"`
}) (*textOutput, error) {
	found, err := a.read.RunOutput(ctx, in.ID, in.Attempt)
	if err != nil {
		return nil, err
	}
	o := client.Output{
		RunID: in.ID, Attempt: found.Attempt, TotalBytes: found.TotalBytes, Progress: found.Progress, Message: found.Message, UpdatedAt: found.UpdatedAt,
		Omitted: max(found.TotalBytes-int64(len(found.Head))-int64(len(found.Tail)), 0),
	}
	if len(found.Result) > 0 {
		o.Result = found.Result
	}
	gap := ""
	if o.Omitted > 0 {
		gap = fmt.Sprintf("\n[%d bytes were not kept]\n", o.Omitted)
	}
	o.Text = strings.ToValidUTF8(string(found.Head), "\ufffd") + gap + strings.ToValidUTF8(string(found.Tail), "\ufffd")
	out := &textOutput{attemptText{Output: o}}
	if in.Bytes {
		out.Body.Head, out.Body.Tail = found.Head, found.Tail
	}
	return out, nil
}

// storable refuses what the database would: a text parameter must not end as a
// fault of the server.
func storable(location, s string) error {
	if strings.ContainsRune(s, 0) || strings.ToValidUTF8(s, "") != s {
		return invalid(Violation{Location: location, Message: "holds NUL or is not valid UTF-8"})
	}
	return nil
}
