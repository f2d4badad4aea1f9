package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
)

func newJobHistory(a *app) *cobra.Command {
	var out format
	var limit, before int
	cmd := &cobra.Command{
		Use:               "history NAME",
		Short:             "Show who changed a job, when and why",
		Long:              "Shows the job's events, the newest first: every version of its definition is among them.",
		Example:           "  daybook job history nightly-report\n  daybook job history nightly-report --before 12 -o json",
		Args:              takes("NAME"),
		ValidArgsFunction: a.jobNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > projections.MaxPage {
				return usage("--limit %d: want 1 to %d", limit, projections.MaxPage)
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				events, err := c.JobHistory(ctx, args[0], before, limit)
				if err != nil {
					return noSuchJob(ctx, c, args[0], err)
				}
				return write(a, out, a.eventList(events, false))
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "events at most")
	cmd.Flags().IntVar(&before, "before", 0, "only those before this version")
	outputFlag(cmd, &out, asTable)
	return cmd
}

func (a *app) eventList(events []client.Event, positions bool) list[client.Event] {
	l := list[client.Event]{
		items: events,
		whole: map[string]any{"events": events},
		id:    func(e client.Event) string { return e.StreamID.String() + "/" + strconv.Itoa(e.Version) },
		columns: []column[client.Event]{
			{title: "VERSION", text: func(e client.Event) string { return strconv.Itoa(e.Version) }},
			{title: "AT", text: func(e client.Event) string { return a.clock(e.At) }},
			{title: "TYPE", text: func(e client.Event) string { return e.Type }},
			{title: "BY", text: func(e client.Event) string { return e.Actor }},
			{title: "DETAIL", text: func(e client.Event) string { return a.detail(e) }},
			{title: "POSITION", wide: !positions, text: func(e client.Event) string { return strconv.FormatInt(e.Position, 10) }},
		},
	}
	return l
}
