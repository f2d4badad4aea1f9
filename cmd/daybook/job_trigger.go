package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
)

func newJobTrigger(a *app) *cobra.Command {
	var o struct {
		args, at, key, reason string
		wait                  bool
	}
	var out format
	cmd := &cobra.Command{
		Use:   "trigger NAME",
		Short: "Ask for a run, now or at a time",
		Long: `Makes a run of the job and prints its id. The overlap policy does not hold it up, and a
paused job can be triggered, too.

With --key the request can be repeated: the same key gives the same run, for ever. With
--wait the command follows the run and ends with its outcome: 0 succeeded, 6 failed or
skipped, 7 cancelled.`,
		Example: `  daybook job trigger nightly-report
  daybook job trigger nightly-report --args '{"scope":"all"}' --wait
  daybook job trigger nightly-report --at 2027-01-01T00:00:00Z --key new-year`,
		Args:              takes("NAME"),
		ValidArgsFunction: a.jobNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := a.optionalWhen("at", o.at, +1)
			if err != nil {
				return err
			}
			t := client.Trigger{Job: args[0], Key: o.key, At: at, Reason: o.reason}
			if o.args != "" {
				if t.Args, err = jsonArgument("args", o.args); err != nil {
					return err
				}
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				got, err := c.Trigger(ctx, t)
				if err != nil {
					return noSuchJob(ctx, c, t.Job, err)
				}
				if out.people() {
					a.sayTriggered(t, got)
				}
				return a.triggered(ctx, c, out, got, o.wait)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.args, "args", "", "arguments as JSON, in place of the job's")
	f.StringVar(&o.at, "at", "", "when: an instant, a local time, or 15m from now (default now)")
	f.StringVar(&o.key, "key", "", "the same key gives the same run")
	f.StringVar(&o.reason, "reason", "", "why, for the record")
	f.BoolVar(&o.wait, "wait", false, "wait for the outcome and exit with it")
	outputFlag(cmd, &out, asTable)
	return cmd
}

func jsonArgument(flag, s string) (json.RawMessage, error) {
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		return nil, usage("--%s is not JSON: %v: want for example '{\"scope\":\"all\"}'", flag, err)
	}
	return json.RawMessage(s), nil
}

func (a *app) sayTriggered(t client.Trigger, got client.Triggered) {
	switch {
	case !got.Created:
		fmt.Fprintf(a.err, "key %q has its run already\n", plain(t.Key))
	case t.At.After(time.Now()):
		fmt.Fprintf(a.err, "run of %s at %s\n", got.Job, a.clock(t.At))
	case !t.At.IsZero():
		fmt.Fprintf(a.err, "run of %s now: %s is past\n", got.Job, a.clock(t.At))
	}
}

// triggered prints a run that was asked for, and waits for it if that is wanted.
func (a *app) triggered(ctx context.Context, c client.Runs, out format, got client.Triggered, wait bool) error {
	if out.people() || out == asID {
		if _, err := fmt.Fprintln(a.out, got.RunID); err != nil {
			return err
		}
	}
	if !wait {
		if out.people() || out == asID {
			return nil
		}
		return a.writeJSON(out, got)
	}
	run, err := c.AwaitRun(ctx, got.RunID)
	if err != nil {
		if ctx.Err() != nil {
			fmt.Fprintf(a.err, "run %s goes on: 'daybook run show %s'\n", got.RunID, got.RunID)
		}
		return err
	}
	if !out.people() && out != asID {
		err := a.writeJSON(out, struct {
			client.Triggered
			Run projections.RunDetail `json:"run"`
		}{got, run})
		if err != nil {
			return err
		}
	}
	fmt.Fprintln(a.err, outcomeOf(run.RunSummary))
	return exitOf(run.RunSummary)
}

func outcomeOf(r projections.RunSummary) string {
	text := string(r.State)
	if d, ok := r.Duration(); ok {
		text += " after " + rough(d)
	}
	switch {
	case r.State == domain.Failed:
		text += fmt.Sprintf(", attempt %d: %s", r.Attempt, plain(errorText(domain.RunError{Type: r.ErrorType, Message: r.ErrorMessage})))
	case r.Reason != "":
		text += ": " + plain(r.Reason)
	}
	return text
}

// exitOf makes the outcome of a run that of the command.
func exitOf(r projections.RunSummary) error {
	var code int
	switch r.State {
	case domain.Succeeded:
		return nil
	case domain.Cancelled:
		code = exitRunCanceled
	default:
		code = exitRunFailed
	}
	return &exitError{code: code, err: fmt.Errorf("run %s %s", r.RunID, r.State), silent: true}
}
