package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/client"
)

// maxDefinitions is how many jobs one change may define. They are changed in one
// transaction.
const maxDefinitions = 10_000

// plannedStep is what happens to one job.
type plannedStep struct {
	client.Step
	Spec *domain.JobSpec `json:"spec,omitempty" doc:"Of a job that goes: its last definition"`
}

type plannedChange struct {
	Steps     []plannedStep     `json:"steps" doc:"The defined jobs in their order, then those that go"`
	Conflicts []client.Conflict `json:"conflicts,omitempty" doc:"Jobs that belong to something else: the change cannot be made"`
}

type plannedOutput struct{ Body plannedChange }

type changeInput struct {
	RawBody []byte `contentType:"application/json"`
}

func (a *api) applyRoutes() {
	const about = "A definition is what a job's answer holds under spec, complete. With an owner, jobs of that owner that are not defined any more are archived."
	handle(a, operation{id: "plan-jobs", method: http.MethodPost, path: "/v1/jobs:plan", tag: tagJobs, scopes: []Scope{ScopeRead}, limit: maxBatch, body: a.changeBody(),
		summary: "Show what a change of several jobs would do", description: "It changes nothing. " + about}, a.planJobs)
	handle(a, operation{id: "apply-jobs", method: http.MethodPost, path: "/v1/jobs:apply", tag: tagJobs, scopes: []Scope{ScopeAdmin}, limit: maxBatch, creates: true, body: a.changeBody(),
		summary: "Make several jobs be as defined, in one transaction", description: about}, a.applyJobs)
}

func (a *api) changeBody() *huma.RequestBody {
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[client.Change](), true, "Change")
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// readChange is strict where the schemas of answers are not: a field that is
// misspelt would be a policy that is not kept.
func readChange(body []byte) (client.Change, error) {
	var c client.Change
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, newProblem(kindMalformed, "the change cannot be read: "+err.Error())
	}
	if d.More() {
		return c, newProblem(kindMalformed, "something follows the change")
	}
	if len(c.Definitions) > maxDefinitions {
		return c, invalid(Violation{Location: "body.definitions", Message: fmt.Sprintf("are %d, at most %d", len(c.Definitions), maxDefinitions)})
	}
	if err := storable("body.reason", c.Reason); err != nil {
		return c, err
	}
	p := newProblem(kindDefinition, "the change is refused; nothing was changed")
	first := map[string]int{}
	for i := range c.Definitions {
		p.Errors = append(p.Errors, judgeDefinition(c, i, first)...)
	}
	if len(p.Errors) > 0 {
		return c, p
	}
	return c, nil
}

func judgeDefinition(c client.Change, i int, first map[string]int) (wrong []Violation) {
	spec := c.Definitions[i].Spec
	at := fmt.Sprintf("body.definitions[%d].spec", i)
	for _, e := range spec.Validate() {
		wrong = append(wrong, Violation{Location: at + "." + e.Field, Message: e.Message, Value: e.Value, Hint: e.Hint, Code: e.Code})
	}
	if spec.Source != c.Owner {
		wrong = append(wrong, Violation{Location: at + ".source", Value: shown(spec.Source), Message: "is not the owner of the change", Hint: fmt.Sprintf("want %q", c.Owner)})
	}
	if before, twice := first[spec.Name]; twice {
		wrong = append(wrong, Violation{Location: at + ".name", Value: shown(spec.Name), Message: fmt.Sprintf("is defined in definitions[%d] already", before)})
	}
	first[spec.Name] = i
	return wrong
}

// deployment is the same as what the command line uses beside the database, in
// the name of whoever sends the request.
func (a *api) deployment(ctx context.Context) *client.Database {
	return client.Over(a.Store, meta(ctx), a.Wake, a.Broker)
}

func (a *api) planJobs(ctx context.Context, in *changeInput) (*plannedOutput, error) {
	c, err := readChange(in.RawBody)
	if err != nil {
		return nil, err
	}
	p, err := a.deployment(ctx).Plan(ctx, c)
	if err != nil {
		return nil, err
	}
	return plannedBy(p), nil
}

func (a *api) applyJobs(ctx context.Context, in *changeInput) (*plannedOutput, error) {
	c, err := readChange(in.RawBody)
	if err != nil {
		return nil, err
	}
	p, err := a.deployment(ctx).Apply(ctx, c)
	if err != nil {
		return nil, err
	}
	return plannedBy(p), nil
}

func plannedBy(p client.Plan) *plannedOutput {
	out := &plannedOutput{plannedChange{Steps: make([]plannedStep, len(p.Steps)), Conflicts: p.Conflicts}}
	for i, s := range p.Steps {
		out.Body.Steps[i].Step = s
		if s.Action == client.ActionArchive {
			out.Body.Steps[i].Spec = &s.Spec
		}
	}
	return out
}
