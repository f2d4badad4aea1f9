package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/client"
)

func newJob(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "job",
		Aliases: []string{"jobs"},
		Short:   "Define jobs, look at them, run them",
		Long: `A job says what runs, when, and under which policies. It is defined by a jobs file
('daybook job apply') or taken over from a crontab ('daybook import crontab').`,
		Example: `  daybook job list
  daybook job trigger nightly-report --wait`,
	}, newJobApply(a), newJobList(a), newJobShow(a), newJobPreview(a), newJobTrigger(a), newJobBackfill(a), newJobHistory(a), newJobStats(a),
		newJobAction(a, client.Pause, "Stop a job's instants; runs under way go on", true),
		newJobAction(a, client.Resume, "Let a paused job's instants count again, from now on", false),
		newJobAction(a, client.Archive, "Take a job out of service; its history stays", false))
}

// newJobAction makes the commands that only need a job's name.
func newJobAction(a *app, do client.JobAction, short string, explain bool) *cobra.Command {
	var reason string
	var out format
	long := map[client.JobAction]string{
		client.Pause: `Instants that fall into the pause get no run and are not made up for. What was due before
is decided first, in the same transaction. Runs that are waiting or running go on, and the
job can still be triggered by hand. A paused job stays paused when its file is applied again.`,
		client.Resume: `Instants count again from now on; those of the pause are not made up for.`,
		client.Archive: `The job gets no runs any more; those that are not in hand are cancelled, those that a
worker has go on. Its history and its runs stay. Applying it again brings it back.`,
	}[do]
	reasonUse := "why, for the record"
	if explain {
		reasonUse += " (needed)"
	}
	cmd := &cobra.Command{
		Use:               string(do) + " NAME",
		Short:             short,
		Long:              long,
		Example:           fmt.Sprintf("  daybook job %s nightly-report --reason 'supplier is down'", do),
		Args:              takes("NAME"),
		ValidArgsFunction: a.jobNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if explain && reason == "" {
				return usage("--reason is needed: it is kept in the job's history")
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				job, changed, err := c.CommandJob(ctx, args[0], do, reason)
				if err != nil {
					return noSuchJob(ctx, c, args[0], err)
				}
				return a.commanded(out, job, do, changed)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", reasonUse)
	outputFlag(cmd, &out, asTable)
	return cmd
}

func (a *app) commanded(out format, job client.Job, do client.JobAction, changed bool) error {
	switch {
	case out == asID:
		_, err := fmt.Fprintln(a.out, job.Name)
		return err
	case !out.people():
		return a.writeJSON(out, job)
	}
	past := map[client.JobAction]string{client.Pause: "paused", client.Resume: "resumed", client.Archive: "archived"}[do]
	switch {
	case !changed && do == client.Resume:
		past = "not paused; nothing has changed"
	case !changed:
		past += " already; nothing has changed"
	case do == client.Resume && job.NextFire != nil:
		past += "; next at " + a.clock(*job.NextFire)
	}
	_, err := fmt.Fprintf(a.out, "%s %s\n", job.Name, past)
	return err
}
