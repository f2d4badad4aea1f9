package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/crontab"
)

// importReport is what an import does or would do.
type importReport struct {
	File      string            `json:"file"`
	Source    string            `json:"source"`
	TimeZone  string            `json:"time_zone"`
	System    bool              `json:"system"`
	Applied   bool              `json:"applied"`
	Jobs      []importedJob     `json:"jobs"`
	Problems  []crontab.Problem `json:"problems"`
	Conflicts []client.Conflict `json:"conflicts,omitempty"`
}

// importedJob is one line's job.
type importedJob struct {
	Line     int           `json:"line,omitempty"` // 0: it is gone from the file
	Action   client.Action `json:"action"`
	Name     string        `json:"name"`
	Schedule string        `json:"schedule"`
	TimeZone string        `json:"time_zone"`
	User     string        `json:"user,omitempty"`
	Command  string        `json:"command"`
	Changed  []string      `json:"changed,omitempty"`
}

func (a *app) importCrontab(ctx context.Context, c client.Client, out format, s *source, o importOptions) error {
	bad := s.file.Errors()
	refused := bad > 0 && !o.skipBad
	do := c.Plan
	if o.apply && !refused {
		do = c.Apply
	}
	plan, err := do(ctx, s.change())
	if err != nil && len(plan.Conflicts) == 0 {
		return err
	}
	r := importReport{
		File: s.name, Source: s.owner, TimeZone: s.zone, System: s.system, Applied: o.apply && !refused && err == nil,
		Jobs: s.report(plan), Problems: slices.Concat([]crontab.Problem{}, s.file.Problems), Conflicts: plan.Conflicts,
	}
	if err := a.writeImport(out, r); err != nil {
		return err
	}
	if out != asJSON {
		a.sayProblems(s.name, r.Problems)
	}
	if out.people() {
		fmt.Fprintln(a.err, summary(plan, r.Applied))
	}
	switch {
	case refused:
		return &exitError{code: exitUsage, err: fmt.Errorf(
			"%s: %s cannot be honoured, so nothing is applied: correct them, or leave them out with --skip-bad", s.name, count(bad, "line"))}
	case len(plan.Conflicts) > 0:
		return &client.ConflictError{Conflicts: plan.Conflicts}
	case !o.apply && plan.Count(client.ActionUnchanged) < len(plan.Steps):
		fmt.Fprintln(a.err, "nothing has been changed: --apply does it")
	}
	return nil
}

func (s *source) report(p client.Plan) []importedJob {
	jobs := make([]importedJob, len(p.Steps))
	for i, step := range p.Steps {
		e := s.lines[step.Name]
		j := importedJob{Line: e.Line, Action: step.Action, Name: step.Name, Changed: step.Changed,
			Schedule: strings.Join(step.Spec.Schedules, " | "), TimeZone: step.Spec.TimeZone, User: e.User, Command: e.Command}
		if e.Line == 0 {
			j.Command = describeTarget(step.Spec)
		}
		jobs[i] = j
	}
	return jobs
}

func (a *app) writeImport(out format, r importReport) error {
	return write(a, out, list[importedJob]{
		items: r.Jobs,
		whole: r,
		id:    func(j importedJob) string { return j.Name },
		empty: "no jobs in " + r.File,
		columns: []column[importedJob]{
			{title: "LINE", text: func(j importedJob) string {
				if j.Line == 0 {
					return ""
				}
				return strconv.Itoa(j.Line)
			}},
			{title: "ACTION", text: func(j importedJob) string { return actionText(j.Action, j.Changed, r.Applied) }},
			{title: "JOB", text: func(j importedJob) string { return j.Name }},
			{title: "SCHEDULE", text: func(j importedJob) string { return j.Schedule }},
			{title: "ZONE", text: func(j importedJob) string { return j.TimeZone }},
			{title: "USER", wide: !r.System, text: func(j importedJob) string { return j.User }},
			{title: "COMMAND", text: func(j importedJob) string { return j.Command }},
		},
	})
}

func (a *app) sayProblems(file string, problems []crontab.Problem) {
	for _, p := range problems {
		fmt.Fprintf(a.err, "%s:%d: %s: %s: %s\n", file, p.Line, p.Severity, plain(p.Reason), plain(p.Text))
	}
}

// actionText is what is done to a job, or what would be.
func actionText(action client.Action, changed []string, done bool) string {
	text := string(action)
	if done {
		text = map[client.Action]string{client.ActionCreate: "created", client.ActionUpdate: "updated",
			client.ActionArchive: "archived", client.ActionUnchanged: "unchanged", client.ActionConflict: "conflict"}[action]
	}
	if len(changed) > 0 {
		text += " (" + strings.Join(changed, ", ") + ")"
	}
	return text
}

// summary counts what is done, or what would be.
func summary(p client.Plan, done bool) string {
	var parts []string
	for _, act := range []client.Action{client.ActionCreate, client.ActionUpdate, client.ActionArchive, client.ActionUnchanged, client.ActionConflict} {
		if n := p.Count(act); n > 0 {
			text := actionText(act, nil, done)
			if !done && act != client.ActionUnchanged && act != client.ActionConflict {
				text = "to " + text
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, text))
		}
	}
	if len(parts) == 0 {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}
