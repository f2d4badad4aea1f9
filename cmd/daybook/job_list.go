package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/client"
)

func newJobList(a *app) *cobra.Command {
	var out format
	var all bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List jobs",
		Long:    "Lists the jobs by name, with their next instant and how the last run ended.",
		Example: `  daybook job list
  daybook job list --all -o wide
  daybook job list -o json`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				jobs, err := allJobs(ctx, c, all)
				if err != nil {
					return err
				}
				return write(a, out, a.jobList(jobs))
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "archived ones, too")
	outputFlag(cmd, &out, asTable)
	return cmd
}

func allJobs(ctx context.Context, c client.Jobs, archived bool) ([]client.Job, error) {
	jobs := []client.Job{}
	f := client.JobFilter{Archived: archived}
	for {
		page, err := c.ListJobs(ctx, f)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, page.Jobs...)
		if f.Cursor = page.Next; f.Cursor == "" {
			return jobs, nil
		}
	}
}

func (a *app) jobList(jobs []client.Job) list[client.Job] {
	stat := func(f func(client.Job) string) func(client.Job) string {
		return func(j client.Job) string {
			if j.Stats == nil {
				return ""
			}
			return f(j)
		}
	}
	return list[client.Job]{
		items: jobs,
		whole: map[string]any{"jobs": jobs},
		id:    func(j client.Job) string { return j.Name },
		empty: "no jobs yet: 'daybook job apply -f FILE' or 'daybook import crontab FILE --apply' makes some",
		columns: []column[client.Job]{
			{title: "NAME", text: func(j client.Job) string { return j.Name }},
			{title: "STATE", text: func(j client.Job) string { return string(j.State) }},
			{title: "SCHEDULE", text: func(j client.Job) string { return schedules(j) }},
			{title: "ZONE", text: func(j client.Job) string { return zoneOf(j) }},
			{title: "QUEUE", text: func(j client.Job) string { return j.Spec.Queue }},
			{title: "KIND", text: func(j client.Job) string { return j.Spec.Kind }},
			{title: "NEXT", text: func(j client.Job) string { return a.clockOr(j.NextFire, "") }},
			{title: "LAST", text: stat(func(j client.Job) string { return j.Stats.LastState })},
			{title: "OK", wide: true, text: stat(func(j client.Job) string { return strconv.FormatInt(j.Stats.Succeeded, 10) })},
			{title: "FAILED", wide: true, text: stat(func(j client.Job) string { return strconv.FormatInt(j.Stats.Failed, 10) })},
			{title: "FAILING", wide: true, text: stat(func(j client.Job) string { return strconv.Itoa(j.Stats.ConsecutiveFailures) })},
			{title: "VERSION", wide: true, text: func(j client.Job) string { return strconv.Itoa(j.Version) }},
			{title: "TAGS", wide: true, text: func(j client.Job) string { return strings.Join(j.Spec.Tags, ",") }},
			{title: "SOURCE", wide: true, text: func(j client.Job) string { return j.Spec.Source }},
			{title: "REASON", wide: true, text: func(j client.Job) string { return j.PauseReason }},
		},
	}
}

func schedules(j client.Job) string {
	if len(j.Spec.Schedules) == 0 {
		return "on request"
	}
	return strings.Join(j.Spec.Schedules, " | ")
}

func zoneOf(j client.Job) string {
	if len(j.Spec.Schedules) == 0 {
		return ""
	}
	return j.Spec.TimeZone
}
