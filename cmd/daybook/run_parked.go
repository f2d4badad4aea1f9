package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
)

// maxParked is the most parked runs that are listed.
const maxParked = 1000

func newRunParked(a *app) *cobra.Command {
	var out format
	var limit int
	cmd := &cobra.Command{
		Use:   "parked",
		Short: "List runs that were put aside because they cannot be processed",
		Long: `A run that makes its claim fail by itself (its history or its job's definition cannot be
read, say) is put aside, so that it is in nobody's way. It stays pending until somebody
cancels it, or unparks it once the cause is gone.`,
		Example: "  daybook run parked\n  daybook run parked -o jsonl",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxParked {
				return usage("--limit %d: want 1 to %d", limit, maxParked)
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				parked, err := c.Parked(ctx, limit)
				if err != nil {
					return err
				}
				return write(a, out, list[client.Parked]{
					items: parked,
					whole: map[string]any{"parked": parked},
					id:    func(p client.Parked) string { return p.RunID.String() },
					empty: "no run is parked",
					columns: []column[client.Parked]{
						{title: "RUN", text: func(p client.Parked) string { return p.RunID.String() }},
						{title: "JOB", text: func(p client.Parked) string { return p.Job }},
						{title: "DUE", text: func(p client.Parked) string { return a.clock(p.ScheduledAt) }},
						{title: "PARKED", text: func(p client.Parked) string { return a.clock(p.ParkedAt) }},
						{title: "QUEUE", wide: true, text: func(p client.Parked) string { return p.Queue }},
						{title: "KIND", wide: true, text: func(p client.Parked) string { return p.Kind }},
						{title: "WHY", text: func(p client.Parked) string { return p.Reason }},
					},
				})
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "runs at most")
	outputFlag(cmd, &out, asTable)
	return cmd
}

func newRunUnpark(a *app) *cobra.Command {
	var out format
	var all bool
	cmd := &cobra.Command{
		Use:   "unpark ID…",
		Short: "Make parked runs due again, once what was wrong is mended",
		Long: `Takes runs out of 'daybook run parked' and makes them due. If the cause is still there, the
next claim parks them again and nothing else happens. A run whose job was archived meanwhile
is cancelled, as the archive would have done. With --all, up to 1000 runs.`,
		Example: `  daybook run unpark 0198c5f0-7a3e-8c11-9d2b-4f6a1e5b7c90
  daybook run unpark --all`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ids := make([]uuid.UUID, len(args))
			for i, arg := range args {
				var err error
				if ids[i], err = runID(arg); err != nil {
					return err
				}
			}
			if all == (len(ids) > 0) {
				return usage("which runs? give their ids, or --all")
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error { return a.unpark(ctx, c, out, ids, all) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "every parked run")
	outputFlag(cmd, &out, asTable)
	return cmd
}

func (a *app) unpark(ctx context.Context, c client.Client, out format, ids []uuid.UUID, all bool) error {
	if all {
		parked, err := c.Parked(ctx, maxParked)
		if err != nil {
			return err
		}
		for _, p := range parked {
			ids = append(ids, p.RunID)
		}
	}
	done := []client.Unparked{}
	var errs []error
	for _, id := range ids {
		got, err := c.Unpark(ctx, id)
		switch {
		case err != nil:
			errs = append(errs, err)
		case got.Outcome == eventstore.UnparkedNot && !all: // with --all, somebody else was faster
			errs = append(errs, &exitError{code: exitNotFound, err: fmt.Errorf("run %s is not parked", id)})
		default:
			done = append(done, got)
		}
	}
	err := write(a, out, list[client.Unparked]{
		items: done,
		whole: map[string]any{"unparked": done},
		id:    func(u client.Unparked) string { return u.RunID.String() },
		empty: "nothing was unparked",
		columns: []column[client.Unparked]{
			{title: "RUN", text: func(u client.Unparked) string { return u.RunID.String() }},
			{title: "NOW", text: func(u client.Unparked) string { return unparkedText[u.Outcome] }},
		},
	})
	return errors.Join(append(errs, err)...)
}

var unparkedText = map[eventstore.UnparkOutcome]string{
	eventstore.UnparkedDue:       "due again",
	eventstore.UnparkedCancelled: "cancelled: its job is archived",
	eventstore.UnparkedStale:     "had gone on already; only the row was left",
	eventstore.UnparkedNot:       "was not parked any more",
}
