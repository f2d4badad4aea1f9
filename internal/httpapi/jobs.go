package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
)

const (
	tagJobs       = "Jobs"
	tagRuns       = "Runs"
	tagOperations = "Operations"
)

// JobPath names the job. It is exported, as others below, for huma to see what is
// embedded.
type JobPath struct {
	Name string `path:"name" maxLength:"64" doc:"The job's name"`
}

type jobList struct {
	Jobs []client.Job `json:"jobs"`
	Next string       `json:"next,omitempty" doc:"Cursor of the next page; absent at the end"`
}

type jobListOutput struct {
	Link string `header:"Link" doc:"The next page, rel=\"next\""`
	Body jobList
}

type jobOutput struct {
	Status int
	ETag   string `header:"ETag" doc:"The version of the job's stream"`
	Body   client.Job
}

type eventList struct {
	Events []client.Event `json:"events"`
	Next   string         `json:"next,omitempty" doc:"Cursor of the next page; absent at the end"`
}

type eventListOutput struct {
	Link string `header:"Link" doc:"The next page, rel=\"next\""`
	Body eventList
}

func (a *api) jobRoutes() {
	handle(a, operation{id: "list-jobs", method: http.MethodGet, path: "/v1/jobs", tag: tagJobs, scopes: []Scope{ScopeRead},
		summary: "List jobs", description: "In the order of their names."}, a.listJobs)
	handle(a, operation{id: "get-job", method: http.MethodGet, path: "/v1/jobs/{name}", tag: tagJobs, scopes: []Scope{ScopeRead},
		statuses: []int{http.StatusOK, http.StatusNotModified}, summary: "Show a job",
		description: "The ETag is the version of the job's stream: it changes with the definition, a pause and the like, not with next_fire and stats."}, a.getJob)
	handle(a, operation{id: "get-job-history", method: http.MethodGet, path: "/v1/jobs/{name}/history", tag: tagJobs, scopes: []Scope{ScopeRead},
		summary: "Show the events of a job", description: "The newest first. Every version of the definition is among them."}, a.jobHistory)
}

func (a *api) listJobs(ctx context.Context, in *struct {
	Paging
	Archived bool `query:"archived" doc:"Archived jobs, too"`
}) (*jobListOutput, error) {
	list := "jobs archived=" + strconv.FormatBool(in.Archived)
	after, err := resume(in.Cursor, list)
	if err != nil {
		return nil, err
	}
	found, err := a.Store.Jobs(ctx, after, in.Archived, in.Limit+1)
	if err != nil {
		return nil, err
	}
	out := &jobListOutput{}
	if len(found) > in.Limit {
		found = found[:in.Limit]
		out.Body.Next = cursor{List: list, After: found[in.Limit-1].Spec.Name}.encode()
		out.Link = nextLink(callOf(ctx).url, out.Body.Next)
	}
	out.Body.Jobs, err = a.withStats(ctx, found)
	return out, err
}

func (a *api) getJob(ctx context.Context, in *struct {
	JobPath
	AsOf        time.Time `query:"as_of" doc:"The job as it stood at this instant, without stats"`
	IfNoneMatch string    `header:"If-None-Match" doc:"ETags that the caller has"`
}) (*jobOutput, error) {
	if !in.AsOf.IsZero() {
		found, err := a.read.JobAsOf(ctx, in.Name, in.AsOf)
		if err != nil {
			return nil, err
		}
		return &jobOutput{Status: http.StatusOK, Body: jobOf(found)}, nil
	}
	job, err := a.job(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	out := &jobOutput{Status: http.StatusOK, ETag: etag(job.Version), Body: job}
	if noneMatch(in.IfNoneMatch, job.Version) {
		out.Status = http.StatusNotModified
	}
	return out, nil
}

func (a *api) job(ctx context.Context, name string) (client.Job, error) {
	found, err := a.Store.Job(ctx, name)
	if err != nil {
		return client.Job{}, err
	}
	jobs, err := a.withStats(ctx, []eventstore.JobDetail{found})
	if err != nil {
		return client.Job{}, err
	}
	return jobs[0], nil
}

func (a *api) withStats(ctx context.Context, found []eventstore.JobDetail) ([]client.Job, error) {
	names := make([]string, len(found))
	for i, j := range found {
		names[i] = j.Spec.Name
	}
	stats, err := a.read.JobStats(ctx, names...)
	if err != nil {
		return nil, err
	}
	out := make([]client.Job, len(found))
	for i, j := range found {
		out[i] = jobOf(j)
		if s, ok := stats[j.Spec.Name]; ok {
			out[i].Stats = &s
		}
	}
	return out, nil
}

func jobOf(j eventstore.JobDetail) client.Job {
	out := client.Job{
		Name: j.Spec.Name, ID: j.ID, State: client.Active, Version: j.Version, SpecVersion: j.SpecVersion, PauseReason: j.PauseReason,
		MaterializedThrough: j.MaterializedThrough, CreatedAt: j.CreatedAt, ChangedAt: j.ChangedAt, Spec: j.Spec,
	}
	switch {
	case j.Archived:
		out.State = client.Archived
	case j.Paused:
		out.State = client.Paused
	}
	if j.NextFire != nil {
		out.NextFire = new(j.NextFire.UTC())
	}
	return out
}

func (a *api) jobHistory(ctx context.Context, in *struct {
	JobPath
	Paging
	Before int `query:"before" minimum:"1" doc:"Only those before this version"`
}) (*eventListOutput, error) {
	list := "history of " + in.Name
	after, err := resume(in.Cursor, list)
	if err != nil {
		return nil, err
	}
	before := in.Before
	if after != "" {
		if before, err = strconv.Atoi(after); err != nil || before < 1 {
			return nil, newProblem(kindCursor, "the cursor is none that this list returned")
		}
	}
	found, err := a.read.JobHistory(ctx, in.Name, before, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &eventListOutput{Body: eventList{Events: historyOf(domain.CategoryJob, found)}}
	if n := len(found); n == in.Limit && found[n-1].Version > 1 {
		out.Body.Next = cursor{List: list, After: strconv.Itoa(found[n-1].Version)}.encode()
		out.Link = nextLink(callOf(ctx).url, out.Body.Next)
	}
	return out, nil
}

func historyOf(category domain.Category, all []projections.HistoryEvent) []client.Event {
	out := make([]client.Event, len(all))
	for i, h := range all {
		out[i] = client.Event{
			Position: h.Position, Era: h.Era, Category: category, StreamID: h.StreamID, Version: h.Version, Type: h.Type, At: h.At,
			Actor: h.Actor, Correlation: h.Correlation, Causation: h.Causation, Data: h.Data,
		}
	}
	return out
}

// meta is what events record of the request.
func meta(ctx context.Context) eventstore.Meta {
	c := callOf(ctx)
	m := eventstore.Meta{Actor: c.who.actor, Correlation: c.correlation()}
	if c.keyed != nil {
		m.Causation = new(c.keyed.cause())
	}
	return m
}
