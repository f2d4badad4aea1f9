package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/jobsfile"
)

func newJobApply(a *app) *cobra.Command {
	var files []string
	var reason string
	var dryRun bool
	var out format
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make jobs be as a jobs file defines them",
		Long: `Creates the jobs of the file, updates those that differ, and leaves the others alone, all
in one transaction. It can be repeated. Jobs that are not in the file stay as they are;
'daybook job archive' takes one out of service.

A file with anything wrong in it is refused whole, naming line, field and what would be
right. What is due at the moment of a change is decided under the definition before it.`,
		Example: `  daybook job apply -f jobs.yaml --dry-run
  daybook job apply -f jobs.yaml -f more-jobs.yaml
  printf 'jobs:\n  - {name: hello, exec: {argv: [echo, hello]}}\n' | daybook job apply -f -`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return usage("-f FILE is needed: a jobs file, or - for stdin")
			}
			definitions, err := a.readJobs(files)
			if err != nil {
				return err
			}
			change := client.Change{Definitions: definitions, Reason: reason}
			return a.with(cmd, func(ctx context.Context, c client.Client) error { return a.applyJobs(ctx, c, out, change, dryRun) })
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&files, "file", "f", nil, "jobs file, - for stdin (repeatable)")
	f.BoolVar(&dryRun, "dry-run", false, "show what would be done, and do nothing")
	f.StringVar(&reason, "reason", "", "why, for the record")
	outputFlag(cmd, &out, asTable)
	return cmd
}

// readJobs reads the files. The error tells everything that is wrong in all of
// them.
func (a *app) readJobs(files []string) ([]client.Definition, error) {
	var all []client.Definition
	var errs []error
	from := map[string]string{}
	for _, name := range files {
		jobs, err := a.readJobsFile(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, j := range jobs {
			at := fmt.Sprintf("%s:%d", name, j.Line)
			if before, dup := from[j.Spec.Name]; dup {
				errs = append(errs, fmt.Errorf("%s: job %q is defined in %s already", at, j.Spec.Name, before))
			}
			from[j.Spec.Name] = at
			all = append(all, client.Definition{Spec: j.Spec, Paused: j.Paused})
		}
	}
	if len(errs) > 0 {
		return nil, &exitError{code: exitUsage, err: errors.Join(errs...)}
	}
	return all, nil
}

func (a *app) readJobsFile(name string) ([]jobsfile.Job, error) {
	in, shown := a.in, "stdin"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		in, shown = f, name
	}
	text, err := io.ReadAll(io.LimitReader(in, jobsfile.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	file, err := jobsfile.Parse(shown, text, jobsfile.Options{})
	if err != nil {
		return nil, err
	}
	return file.Jobs, nil
}

// applyReport is what an apply did or would do.
type applyReport struct {
	Applied   bool              `json:"applied"`
	Jobs      []client.Step     `json:"jobs"`
	Conflicts []client.Conflict `json:"conflicts,omitempty"`
}

func (a *app) applyJobs(ctx context.Context, c client.Client, out format, change client.Change, dryRun bool) error {
	do := c.Apply
	if dryRun {
		do = c.Plan
	}
	plan, err := do(ctx, change)
	if err != nil && len(plan.Conflicts) == 0 {
		return err
	}
	r := applyReport{Applied: !dryRun && err == nil, Jobs: plan.Steps, Conflicts: plan.Conflicts}
	if r.Jobs == nil {
		r.Jobs = []client.Step{}
	}
	if len(plan.Conflicts) == 0 || !out.people() {
		if err := a.writeApplied(out, r); err != nil {
			return err
		}
	}
	switch {
	case len(plan.Conflicts) > 0:
		return &client.ConflictError{Conflicts: plan.Conflicts}
	case dryRun:
		fmt.Fprintln(a.err, "nothing has been changed: this was --dry-run")
	}
	return nil
}

func (a *app) writeApplied(out format, r applyReport) error {
	return write(a, out, list[client.Step]{
		items: r.Jobs,
		whole: r,
		id:    func(s client.Step) string { return s.Name },
		empty: "no jobs in the file",
		columns: []column[client.Step]{
			{title: "JOB", text: func(s client.Step) string { return s.Name }},
			{title: "ACTION", text: func(s client.Step) string { return actionText(s.Action, s.Changed, r.Applied) }},
			{title: "SCHEDULE", text: func(s client.Step) string {
				if len(s.Spec.Schedules) == 0 {
					return "on request"
				}
				return strings.Join(s.Spec.Schedules, " | ")
			}},
			{title: "ZONE", wide: true, text: func(s client.Step) string { return s.Spec.TimeZone }},
			{title: "QUEUE", wide: true, text: func(s client.Step) string { return s.Spec.Queue }},
			{title: "KIND", wide: true, text: func(s client.Step) string { return s.Spec.Kind }},
		},
	})
}
