package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
)

func newProjection(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "projection",
		Short: "Look after the read models",
		Long:  "Read models are folded from the log. They can be compared with it and made anew at any time.",
		Example: `  daybook projection list
  daybook projection check`,
	}, newProjectionList(a), newProjectionCheck(a), newProjectionRebuild(a))
}

func newProjectionList(a *app) *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use: "list", Short: "Show how far each is", Args: takes(),
		Long:    "Shows how old the oldest event is that a read model does not have yet.",
		Example: "  daybook projection list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				all, err := c.Projections(ctx)
				if err != nil {
					return err
				}
				return write(a, f, list[client.ProjectionState]{
					items: all, whole: map[string]any{"projections": all}, empty: "no projections", id: func(p client.ProjectionState) string { return p.Name },
					columns: []column[client.ProjectionState]{
						{title: "NAME", text: func(p client.ProjectionState) string { return p.Name }},
						{title: "BEHIND", text: func(p client.ProjectionState) string { return p.Lag.Behind.String() }},
					},
				})
			})
		},
	}
	outputFlag(cmd, &f, asTable)
	return cmd
}

func newProjectionCheck(a *app) *cobra.Command {
	var f format
	var sample int
	cmd := &cobra.Command{
		Use: "check [NAME]", Short: "Compare a read model with the log",
		Long: `Folds the log and compares, run by run, while engines go on. What differs is listed, and the
exit code is 1.`,
		Example: "  daybook projection check\n  daybook projection check run_summaries --sample 10000",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return takes("NAME")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				r, err := c.CheckProjection(ctx, named(args), sample)
				if err != nil {
					return err
				}
				if !f.people() {
					err = a.writeJSON(f, r)
				} else {
					for _, d := range r.Drift {
						fmt.Fprintf(a.out, "%s\t%s\t%s\n", d.Table, d.Key, plain(d.What))
					}
					fmt.Fprintf(a.err, "%s compared, %d drifted\n", count(r.Streams, "stream"), r.Drifted)
				}
				if err == nil && r.Drifted > 0 {
					return &exitError{code: exitFailed, err: errors.New("the read model is not what the log says: rebuild it"), silent: !f.people()}
				}
				return err
			})
		},
	}
	outputFlag(cmd, &f, asTable)
	cmd.Flags().IntVar(&sample, "sample", 0, "compare about that many runs instead of all")
	return cmd
}

func newProjectionRebuild(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "rebuild NAME", Short: "Make a read model anew beside the old one, and swap", Args: takes("NAME"),
		Long: `Folds the whole log into new tables, catches up, and swaps them for the old ones in one
step. Lists are answered from the old ones until then. It can be interrupted and repeated.`,
		Example: "  daybook projection rebuild run_summaries",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				p := a.progress()
				err := c.RebuildProjection(ctx, args[0], func(at projections.Progress) { p.say("%d of about %d events", at.Events, at.Total) })
				p.done()
				if err == nil {
					fmt.Fprintf(a.err, "%s is rebuilt\n", args[0])
				}
				return err
			})
		},
	}
}

func named(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return projections.RunSummariesName
}
