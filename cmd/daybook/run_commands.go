package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/client"
)

func newRunCancel(a *app) *cobra.Command {
	var out format
	var reason string
	cmd := ofRun(a, &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a run",
		Long: `A run that has not started is cancelled at once, also if it is parked. One that runs is asked to end: its worker
hears of it with the next heartbeat, and a success that comes first wins. A run that has
ended is a conflict (exit code 4), unless it was cancelled.`,
		Example: "  daybook run cancel 0198c5f0-7a3e-8c11-9d2b-4f6a1e5b7c90 --reason 'wrong arguments'",
	}, func(ctx context.Context, c client.Client, id uuid.UUID) error {
		got, err := c.CancelRun(ctx, id, reason)
		switch {
		case err != nil:
			return noSuchRun(id, err)
		case out == asID:
			_, err := fmt.Fprintln(a.out, got.RunID)
			return err
		case !out.people():
			return a.writeJSON(out, got)
		}
		text := "cancelled"
		switch {
		case got.State != domain.Cancelled && got.Repeat:
			text = "was asked to end before; it still runs"
		case got.State != domain.Cancelled:
			text = "runs and is asked to end"
		case got.Repeat:
			text = "was cancelled before"
		}
		_, err = fmt.Fprintf(a.out, "run %s %s\n", id, text)
		return err
	})
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	outputFlag(cmd, &out, asTable)
	return cmd
}

func newRunRetry(a *app) *cobra.Command {
	var out format
	var key, reason string
	var wait bool
	cmd := ofRun(a, &cobra.Command{
		Use:   "retry ID",
		Short: "Run a finished run again, as a new one",
		Long: `Makes a new run of the job with the same arguments, under the job's present definition, and
prints its id. The finished run stays as it is; the new one refers to it. With --key the
command can be repeated without making a second one.`,
		Example: "  daybook run retry 0198c5f0-7a3e-8c11-9d2b-4f6a1e5b7c90 --wait",
	}, func(ctx context.Context, c client.Client, id uuid.UUID) error {
		got, err := c.RetryRun(ctx, id, key, reason)
		if err != nil {
			return noSuchRun(id, err)
		}
		if !got.Created && out.people() {
			fmt.Fprintf(a.err, "key %q has its run already\n", plain(key))
		}
		return a.triggered(ctx, c, out, got, wait)
	})
	f := cmd.Flags()
	f.StringVar(&key, "key", "", "the same key gives the same run")
	f.StringVar(&reason, "reason", "", "why, for the record")
	f.BoolVar(&wait, "wait", false, "wait for the outcome and exit with it")
	outputFlag(cmd, &out, asTable)
	return cmd
}
