package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/jobsfile"
	"github.com/daybookhq/daybook/projections"
)

// appliedJob is what became of a definition.
type appliedJob struct {
	Action  client.Action `json:"action" enum:"create,update,unchanged" doc:"What was done"`
	Changed []string      `json:"changed,omitempty" doc:"Fields that an update changed"`
	Job     client.Job    `json:"job"`
}

type appliedOutput struct {
	Status   int
	ETag     string `header:"ETag" doc:"The version of the job's stream"`
	Location string `header:"Location" doc:"The job"`
	Body     appliedJob
}

// commandedJob is what became of a command.
type commandedJob struct {
	Changed bool       `json:"changed" doc:"False: the job was so already"`
	Job     client.Job `json:"job"`
}

type commandedOutput struct {
	ETag string `header:"ETag" doc:"The version of the job's stream"`
	Body commandedJob
}

// VersionGuard is the precondition of a change.
type VersionGuard struct {
	IfMatch string `header:"If-Match" doc:"The ETag of the job as it was read; with another version nothing is done"`
}

type reasonBody struct {
	_      struct{} `json:"-" additionalProperties:"false"`
	Reason string   `json:"reason,omitempty" maxLength:"1024" doc:"Why, for the record"`
}

// DefinitionInput is a definition as it was sent.
type DefinitionInput struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte
}

type backfillRequest struct {
	_      struct{}  `json:"-" additionalProperties:"false"`
	From   time.Time `json:"from" doc:"Begin of the range, included"`
	To     time.Time `json:"to" doc:"End of the range, included"`
	Limit  int       `json:"limit,omitempty" minimum:"1" maximum:"5000" default:"1000" doc:"Instants to look at, at most"`
	Reason string    `json:"reason,omitempty" maxLength:"1024" doc:"Why, for the record"`
}

type backfillOutput struct{ Body client.Backfilled }

func (a *api) jobChangeRoutes() {
	admin, operate := []Scope{ScopeAdmin}, []Scope{ScopeOperate}
	handle(a, operation{id: "apply-job", method: http.MethodPost, path: "/v1/jobs", tag: tagJobs, scopes: admin, creates: true, body: a.definitionBody(),
		statuses: []int{http.StatusOK, http.StatusCreated}, summary: "Make a job be as defined",
		description: "The body is an entry of a jobs file, in JSON or YAML. A job of that name is made, updated, brought back from the archive or left as it is."}, a.postJob)
	handle(a, operation{id: "put-job", method: http.MethodPut, path: "/v1/jobs/{name}", tag: tagJobs, scopes: admin, body: a.definitionBody(),
		statuses: []int{http.StatusOK, http.StatusCreated}, summary: "Make the job of this name be as defined",
		description: "As apply-job. In JSON, the body may leave the name out. With If-Match, only the version that was read is replaced."}, a.putJob)
	handle(a, operation{id: "archive-job", method: http.MethodDelete, path: "/v1/jobs/{name}", tag: tagJobs, scopes: admin, creates: true,
		summary: "Archive a job", description: "Its instants do not count any more, its waiting runs are cancelled, its history stays."}, a.archiveJob)
	handle(a, operation{id: "pause-job", method: http.MethodPost, path: "/v1/jobs/{name}/pause", tag: tagJobs, scopes: operate, creates: true,
		summary: "Pause a job", description: "Its instants do not count until it is resumed, and are not made up for."}, a.pauseJob)
	handle(a, operation{id: "resume-job", method: http.MethodPost, path: "/v1/jobs/{name}/resume", tag: tagJobs, scopes: operate, creates: true,
		summary: "Resume a job"}, a.resumeJob)
	handle(a, operation{id: "backfill-job", method: http.MethodPost, path: "/v1/jobs/{name}/backfill", tag: tagJobs, scopes: operate, creates: true,
		summary: "Make runs for past instants that have none", description: "The oldest first. An instant gets one run, however often it is asked for: " +
			"as long as the answer is not done, repeat it with from after through."}, a.backfill)
}

func (a *api) postJob(ctx context.Context, in *DefinitionInput) (*appliedOutput, error) {
	def, err := definition(in.ContentType, in.RawBody)
	if err != nil {
		return nil, err
	}
	return a.apply(ctx, def, "")
}

func (a *api) putJob(ctx context.Context, in *struct {
	JobPath
	VersionGuard
	DefinitionInput
}) (*appliedOutput, error) {
	def, err := definition(in.ContentType, named(in.RawBody, in.Name))
	if err != nil {
		return nil, err
	}
	if def.Spec.Name != in.Name {
		return nil, newProblem(kindDefinition, "the definition is refused; nothing was changed").with(Violation{Location: "body.name", Value: shown(def.Spec.Name),
			Message: "is not the name in the path, " + in.Name, Hint: "a job keeps its name: leave it out, or apply the definition under the other name"})
	}
	return a.apply(ctx, def, in.IfMatch)
}

// named adds the name to a definition in JSON that has none.
func named(body []byte, name string) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil || fields["name"] != nil {
		return body
	}
	fields["name"], _ = json.Marshal(name)
	out, err := json.Marshal(fields)
	if err != nil {
		return body
	}
	return out
}

func definition(contentType string, body []byte) (*jobsfile.Job, error) {
	if contentType != "" {
		switch media, _, err := mime.ParseMediaType(contentType); {
		case err == nil && (media == "application/json" || media == "application/yaml" || media == "text/yaml"):
		default:
			return nil, newProblem(kindMediaType, "send application/json or application/yaml, not "+shown(contentType))
		}
	}
	return jobsfile.ParseJob("body", body, jobsfile.Options{})
}

// apply makes the job be as defined. What it decided from may change before it
// writes; the version tells, and it decides again unless the caller wanted that
// version.
func (a *api) apply(ctx context.Context, def *jobsfile.Job, match string) (*appliedOutput, error) {
	want, err := precondition(match)
	mustExist := errors.Is(err, errAnyVersion)
	if err != nil && !mustExist {
		return nil, err
	}
	const tries = 5
	for i := 1; ; i++ {
		have, err := a.Store.JobsNamed(ctx, []string{def.Spec.Name})
		if err != nil {
			return nil, err
		}
		j, exists := have[def.Spec.Name]
		if k := callOf(ctx).keyed; k != nil && exists {
			// What is found was done under a version up to the one just read; what
			// is written below expects no later one.
			done, err := a.read.JobEventsCausedBy(ctx, def.Spec.Name, k.cause())
			if err != nil || len(done) > 0 {
				return a.appliedBefore(ctx, def.Spec.Name, done, err)
			}
		}
		switch {
		case (mustExist || want != 0) && (!exists || j.Archived):
			return nil, newProblem(kindVersion, fmt.Sprintf("job %q does not exist or is archived, and If-Match wants one that is there", def.Spec.Name))
		case want != 0 && want != j.Version:
			return nil, versionMismatch(j.Spec.Name, j.Version)
		case exists && !j.Archived && j.Spec.Source != "":
			return nil, &client.ConflictError{Conflicts: []client.Conflict{{Name: j.Spec.Name, Owner: j.Spec.Source}}}
		}
		answers, err := a.Store.CommandJobs(ctx, []eventstore.JobCommand{{
			Name: def.Spec.Name, Expect: j.Version, Meta: meta(ctx), Do: domain.ApplyJob{Spec: def.Spec, Paused: def.Paused},
		}})
		if isJobConflict(err) && want == 0 && i < tries {
			continue
		}
		if err != nil {
			return nil, conflictAs(err, want != 0)
		}
		return a.applied(ctx, answers[0])
	}
}

func (a *api) applied(ctx context.Context, answer eventstore.JobAnswer) (*appliedOutput, error) {
	a.wake(answer)
	return a.appliedBy(ctx, answer.Name, answer.Events)
}

// appliedBefore answers with what the same request did when its answer was lost.
func (a *api) appliedBefore(ctx context.Context, name string, done []projections.HistoryEvent, err error) (*appliedOutput, error) {
	if err != nil {
		return nil, err
	}
	var events []domain.JobEvent
	for _, d := range done {
		if e, ok := d.Event.(domain.JobEvent); ok {
			events = append(events, e)
		}
	}
	return a.appliedBy(ctx, name, events)
}

func (a *api) appliedBy(ctx context.Context, name string, events []domain.JobEvent) (*appliedOutput, error) {
	out := &appliedOutput{Status: http.StatusOK, Location: "/v1/jobs/" + name, Body: appliedJob{Action: client.ActionUnchanged}}
	for _, e := range events {
		switch e := e.(type) {
		case domain.JobCreated:
			out.Status, out.Body.Action = http.StatusCreated, client.ActionCreate
		case domain.JobUpdated:
			out.Body.Action, out.Body.Changed = client.ActionUpdate, e.Changed
		case domain.JobArchived, domain.JobPaused, domain.JobResumed, domain.FiresSkipped, domain.ZoneRulesChanged, domain.RunsRetired:
		}
	}
	job, err := a.job(ctx, name)
	out.Body.Job, out.ETag = job, etag(job.Version)
	return out, err
}

func (a *api) wake(answer eventstore.JobAnswer) {
	if len(answer.Events) == 0 || a.Wake == nil {
		return
	}
	a.Wake.JobsChanged()
	for _, lane := range answer.Lanes {
		a.Wake.Due(lane.Queue)
	}
}

func isJobConflict(err error) bool {
	refused, ok := errors.AsType[*domain.JobRefusal](err)
	return ok && refused.Code == domain.JobConflict
}

// conflictAs is a failed precondition where the caller had set one.
func conflictAs(err error, precondition bool) error {
	if isJobConflict(err) && precondition {
		return newProblem(kindVersion, err.Error())
	}
	return err
}

func versionMismatch(name string, have int) error {
	return newProblem(kindVersion, fmt.Sprintf("job %q is in version %d: it has changed since it was read", name, have))
}

func (a *api) archiveJob(ctx context.Context, in *struct {
	JobPath
	VersionGuard
	Reason string `query:"reason" maxLength:"1024" doc:"Why, for the record"`
}) (*commandedOutput, error) {
	return a.command(ctx, in.Name, in.IfMatch, domain.ArchiveJob{Reason: in.Reason})
}

func (a *api) pauseJob(ctx context.Context, in *struct {
	JobPath
	VersionGuard
	Body *reasonBody
}) (*commandedOutput, error) {
	return a.command(ctx, in.Name, in.IfMatch, domain.PauseJob{Reason: in.Body.text()})
}

func (a *api) resumeJob(ctx context.Context, in *struct {
	JobPath
	VersionGuard
	Body *reasonBody
}) (*commandedOutput, error) {
	return a.command(ctx, in.Name, in.IfMatch, domain.ResumeJob{Reason: in.Body.text()})
}

func (b *reasonBody) text() string {
	if b == nil {
		return ""
	}
	return b.Reason
}

func (a *api) command(ctx context.Context, name, match string, do domain.JobCommand) (*commandedOutput, error) {
	want, err := precondition(match)
	if err != nil && !errors.Is(err, errAnyVersion) { // a command is always for a job that there is
		return nil, err
	}
	answers, err := a.Store.CommandJobs(ctx, []eventstore.JobCommand{{Name: name, Do: do, Expect: want, Meta: meta(ctx)}})
	if err != nil {
		return nil, conflictAs(err, want != 0)
	}
	a.wake(answers[0])
	job, err := a.job(ctx, name)
	return &commandedOutput{ETag: etag(answers[0].Job.Version), Body: commandedJob{Changed: len(answers[0].Events) > 0, Job: job}}, err
}

func (a *api) backfill(ctx context.Context, in *struct {
	JobPath
	Body backfillRequest
}) (*backfillOutput, error) {
	got, err := a.Store.Backfill(ctx, eventstore.BackfillRequest{Job: in.Name, From: in.Body.From, To: in.Body.To, Limit: in.Body.Limit, Reason: in.Body.Reason, Meta: meta(ctx)})
	if err != nil {
		return nil, err
	}
	if got.Created > 0 && a.Wake != nil {
		a.Wake.Due(got.Queue)
	}
	return &backfillOutput{client.Backfilled{Seen: got.Seen, Created: got.Created, Through: got.Through.UTC(), Done: got.Done}}, nil
}

// definitionBody describes an entry of a jobs file. Reading it is not left to
// the schema: who reads it knows what is wrong, where, and what would be right.
func (a *api) definitionBody() *huma.RequestBody {
	schema := &huma.Schema{Type: huma.TypeObject, Required: []string{"name"}, Description: "An entry of a jobs file", Properties: definitionFields(), AdditionalProperties: false}
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}, "application/yaml": {Schema: schema}}}
}
