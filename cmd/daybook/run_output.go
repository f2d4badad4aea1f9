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

func newRunOutput(a *app) *cobra.Command {
	var out format
	var attempt int
	cmd := ofRun(a, &cobra.Command{
		Use:     "output ID",
		Aliases: []string{"logs"},
		Short:   "Show what a run wrote",
		Long: `Writes what the last attempt that wrote anything printed, byte for byte; on a terminal,
without escape sequences. Of much output the beginning and the end are kept, and what is
missing between them is said on stderr. With -o json it comes with the result and the rest.`,
		Example: `  daybook run output 0198c5f0-7a3e-8c11-9d2b-4f6a1e5b7c90
  daybook run output 0198c5f0-7a3e-8c11-9d2b-4f6a1e5b7c90 --attempt 1`,
	}, func(ctx context.Context, c client.Client, id uuid.UUID) error {
		if attempt < 0 {
			return usage("--attempt %d: attempts count from 1", attempt)
		}
		o, err := c.RunOutput(ctx, id, attempt)
		switch {
		case errors.Is(err, eventstore.ErrNotFound):
			return noOutput(ctx, c, id, attempt)
		case err != nil:
			return err
		case out == asID:
			_, err := fmt.Fprintln(a.out, o.RunID)
			return err
		case !out.people():
			return a.writeJSON(out, o)
		}
		return a.showOutput(o)
	})
	cmd.Flags().IntVar(&attempt, "attempt", 0, "of this attempt (default the last that wrote)")
	outputFlag(cmd, &out, asTable)
	return cmd
}

// noOutput tells a run that wrote nothing from one that does not exist.
func noOutput(ctx context.Context, c client.Runs, id uuid.UUID, attempt int) error {
	run, err := c.Run(ctx, id)
	if err != nil {
		return noSuchRun(id, err)
	}
	which := ""
	if attempt > 0 {
		which = fmt.Sprintf(" of attempt %d", attempt)
	}
	return &exitError{code: exitNotFound, err: fmt.Errorf("run %s is %s; there is no output%s, or it is no longer kept", id, run.State, which)}
}

func (a *app) showOutput(o client.Output) error {
	put := func(b []byte) error {
		if a.terminal() {
			b = []byte(plainText(string(b)))
		}
		_, err := a.out.Write(b)
		return err
	}
	if err := put(o.Head); err != nil {
		return err
	}
	if o.Omitted > 0 {
		fmt.Fprintf(a.err, "\n[%d bytes were not kept]\n", o.Omitted)
	}
	if err := put(o.Tail); err != nil {
		return err
	}
	if len(o.Result) > 0 && len(o.Head) == 0 {
		fmt.Fprintf(a.err, "result: %s\n", plain(string(o.Result)))
	}
	return nil
}
