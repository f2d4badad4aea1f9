package client

import (
	"context"
	"errors"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// Change makes jobs be as they are defined.
type Change struct {
	Definitions []Definition `json:"definitions"`

	// Owner is the source that the definitions come from and that owns its jobs:
	// those of them that are not defined any more are archived. Empty: the
	// definitions are all there is to it, and have no source.
	Owner string `json:"owner,omitempty"`

	Reason string `json:"reason,omitempty"`
}

// Definition is one job to be.
type Definition struct {
	Spec   domain.JobSpec `json:"spec"`             // complete and valid
	Paused bool           `json:"paused,omitempty"` // whether it starts paused when it is made
}

// Plan is what a Change does, the defined jobs in their order, then those that
// go.
type Plan struct {
	Steps     []Step     `json:"steps"`
	Conflicts []Conflict `json:"conflicts,omitempty"` // it cannot be done
}

// Step is what happens to one job.
type Step struct {
	Name    string         `json:"name"`
	Action  Action         `json:"action"`
	Changed []string       `json:"changed,omitempty"` // fields that differ, if it is updated
	Spec    domain.JobSpec `json:"-"`                 // after; of a job that goes, the last

	definition Definition
	expect     int // version that the plan is about
}

// Action is what a plan does to a job.
type Action string

// The actions of a plan.
const (
	ActionCreate    Action = "create"
	ActionUpdate    Action = "update"
	ActionArchive   Action = "archive"
	ActionUnchanged Action = "unchanged"
	ActionConflict  Action = "conflict" // the job is somebody else's; see Plan.Conflicts
)

// Count counts the steps with the action.
func (p Plan) Count(a Action) (n int) {
	for _, s := range p.Steps {
		if s.Action == a {
			n++
		}
	}
	return n
}

// Plan implements [Jobs].
func (d *Database) Plan(ctx context.Context, c Change) (Plan, error) {
	names := make([]string, len(c.Definitions))
	for i, def := range c.Definitions {
		names[i] = def.Spec.Name
	}
	have, err := d.store.JobsNamed(ctx, names)
	if err != nil {
		return Plan{}, err
	}
	var p Plan
	wanted := map[string]bool{}
	for _, def := range c.Definitions {
		name := def.Spec.Name
		wanted[name] = true
		s := Step{Name: name, Action: ActionCreate, Spec: def.Spec, definition: def}
		if j, ok := have[name]; ok {
			s.expect = j.Version
			if !j.Archived {
				s.Action = ActionUnchanged
				s.Changed = j.Spec.Changed(def.Spec)
				switch {
				case j.Spec.Source != c.Owner:
					s.Action, s.Changed = ActionConflict, nil
					p.Conflicts = append(p.Conflicts, Conflict{Name: name, Owner: j.Spec.Source})
				case len(s.Changed) > 0:
					s.Action = ActionUpdate
				}
			}
		}
		p.Steps = append(p.Steps, s)
	}
	if c.Owner == "" {
		return p, nil
	}
	owned, err := d.store.JobsOf(ctx, c.Owner)
	if err != nil {
		return Plan{}, err
	}
	for _, j := range owned {
		if !wanted[j.Spec.Name] {
			p.Steps = append(p.Steps, Step{Name: j.Spec.Name, Action: ActionArchive, Spec: j.Spec, expect: j.Version})
		}
	}
	return p, nil
}

// Apply implements [Jobs]. What it decided from may change before it writes; the
// versions tell, and it decides again.
func (d *Database) Apply(ctx context.Context, c Change) (Plan, error) {
	const tries = 5
	for i := 1; ; i++ {
		p, err := d.apply(ctx, c)
		refused, ok := errors.AsType[*domain.JobRefusal](err)
		if !ok || refused.Code != domain.JobConflict || i == tries {
			return p, err
		}
	}
}

func (d *Database) apply(ctx context.Context, c Change) (Plan, error) {
	p, err := d.Plan(ctx, c)
	if err != nil {
		return p, err
	}
	if len(p.Conflicts) > 0 {
		return p, &ConflictError{p.Conflicts}
	}
	if len(p.Steps) == 0 {
		return p, nil
	}
	commands := make([]eventstore.JobCommand, len(p.Steps))
	for i, s := range p.Steps {
		commands[i] = eventstore.JobCommand{Name: s.Name, Expect: s.expect, Meta: d.meta}
		if s.Action == ActionArchive {
			commands[i].Do = domain.ArchiveJob{Reason: c.Reason}
		} else {
			commands[i].Do = domain.ApplyJob{Spec: s.definition.Spec, Paused: s.definition.Paused, Reason: c.Reason}
		}
	}
	answers, err := d.store.CommandJobs(ctx, commands)
	if err != nil {
		return p, err
	}
	for i, a := range answers {
		p.Steps[i].Action, p.Steps[i].Changed = outcome(a.Events)
	}
	d.wakeFor(answers)
	return p, nil
}

// outcome is what the events say was done.
func outcome(events []domain.JobEvent) (Action, []string) {
	for _, e := range events {
		switch e := e.(type) {
		case domain.JobCreated:
			return ActionCreate, nil
		case domain.JobUpdated:
			return ActionUpdate, e.Changed
		case domain.JobArchived:
			return ActionArchive, nil
		case domain.JobPaused, domain.JobResumed, domain.FiresSkipped, domain.ZoneRulesChanged, domain.RunsRetired:
		}
	}
	return ActionUnchanged, nil
}
