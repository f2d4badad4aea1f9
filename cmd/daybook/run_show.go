package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
)

// ofRun makes a command that needs the id of a run.
func ofRun(a *app, cmd *cobra.Command, do func(ctx context.Context, c client.Client, id uuid.UUID) error) *cobra.Command {
	cmd.Args = takes("ID")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := runID(args[0])
		if err != nil {
			return err
		}
		return a.with(cmd, func(ctx context.Context, c client.Client) error { return do(ctx, c, id) })
	}
	return cmd
}

func newRunShow(a *app) *cobra.Command {
	var out format
	var asOf string
	cmd := ofRun(a, &cobra.Command{
		Use:   "show ID",
		Short: "Show a run: where it stands and how it came there",
		Long: `Shows the run as the log has it at this moment, with each of its claims and attempts, or
with --as-of as it stood then.`,
		Example: "  daybook run show 0198c5f0-7a3e-8c11-9d2b-4f6a1e5b7c90\n  daybook run show 0198c5f0-7a3e-8c11-9d2b-4f6a1e5b7c90 --as-of '2026-11-24 09:14'",
	}, func(ctx context.Context, c client.Client, id uuid.UUID) error {
		at, err := a.optionalWhen("as-of", asOf, -1)
		if err != nil {
			return err
		}
		var run projections.RunDetail
		if at.IsZero() {
			run, err = c.Run(ctx, id)
		} else {
			run, err = c.RunAsOf(ctx, id, at)
		}
		switch {
		case err != nil:
			return noSuchRun(id, err)
		case out == asID:
			_, err := fmt.Fprintln(a.out, run.RunID)
			return err
		case !out.people():
			return a.writeJSON(out, run)
		}
		var parked []client.Parked
		if run.State == domain.Pending && at.IsZero() {
			if parked, err = c.Parked(ctx, 1, id); err != nil {
				return err
			}
		}
		return a.showRun(run, parked)
	})
	outputFlag(cmd, &out, asTable)
	asOfFlag(cmd, &asOf)
	return cmd
}

func asOfFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "as-of", "", "as it stood then: an instant, a local date and time, or 15m, meaning that long ago")
}

// noSuchRun makes a plain sentence of the error that there is no such run.
func noSuchRun(id uuid.UUID, err error) error {
	refused, ok := errors.AsType[*domain.Refusal](err)
	if errors.Is(err, eventstore.ErrNotFound) || ok && refused.Code == domain.CodeUnknownRun {
		return &exitError{code: exitNotFound, err: fmt.Errorf("run %s does not exist", id)}
	}
	return err
}

func (a *app) showRun(r projections.RunDetail, parked []client.Parked) error {
	state := stateOf(r.RunSummary)
	if d, ok := r.Duration(); ok {
		state += " after " + rough(d)
	}
	origin := string(r.Origin)
	if r.RetryOf != nil {
		origin += " of " + r.RetryOf.String()
	}
	rows := [][2]string{
		{"Run", r.RunID.String()},
		{"Job", fmt.Sprintf("%s, version %d", r.Job, r.JobVersion)},
		{"State", state},
		{"Reason", r.Reason},
		{"Error", errorOf(r.RunSummary)},
		{"Origin", because(origin, r.RequestReason)},
		{"Key", r.Key},
		{"Due", a.clock(r.ScheduledAt)},
		{"Ready", differing(a.clock(r.ReadyAt), a.clock(r.ScheduledAt))},
		{"Started", a.clockOr(r.FirstStartedAt, "")},
		{"Finished", a.clockOr(r.FinishedAt, "")},
		{"Lane", r.Queue + " / " + r.Kind},
		{"Worker", r.Worker},
		{"Attempt", strconv.Itoa(r.Attempt)},
		{"Lease", a.clockOr(r.LeaseUntil, "")},
		{"Deadline", a.clockOr(r.Deadline, "")},
		{"Arguments", string(r.Args)},
		{"Problem", r.Problem},
	}
	for _, p := range parked {
		rows = append(rows, [2]string{"Parked", a.clock(p.ParkedAt) + ": " + p.Reason})
	}
	if r.BlockedBy != nil {
		rows = append(rows, [2]string{"Blocked by", r.BlockedBy.String()})
	}
	if err := a.sheet(rows...); err != nil || len(r.ClaimHistory) == 0 {
		return err
	}
	fmt.Fprintln(a.out)
	if err := write(a, asTable, a.claimList(r.ClaimHistory)); err != nil {
		return err
	}
	if len(r.Outputs) > 0 {
		fmt.Fprintf(a.err, "output: daybook run output %s\n", r.RunID)
	}
	return nil
}

func errorOf(r projections.RunSummary) string {
	if r.ErrorType == "" && r.ErrorMessage == "" {
		return ""
	}
	return errorText(domain.RunError{Type: r.ErrorType, Message: r.ErrorMessage})
}

func differing(s, from string) string {
	if s == from {
		return ""
	}
	return s
}

func (a *app) claimList(claims []projections.Claim) list[projections.Claim] {
	type claim = projections.Claim
	return list[claim]{
		items: claims,
		columns: []column[claim]{
			{title: "ATTEMPT", text: func(c claim) string {
				if c.Attempt == 0 {
					return ""
				}
				return strconv.Itoa(c.Attempt)
			}},
			{title: "CLAIMED", text: func(c claim) string { return a.clock(c.ClaimedAt) }},
			{title: "STARTED", text: func(c claim) string { return since(c.ClaimedAt, c.StartedAt) }},
			{title: "TOOK", text: func(c claim) string {
				if c.StartedAt == nil {
					return ""
				}
				return since(*c.StartedAt, c.EndedAt)
			}},
			{title: "WORKER", text: func(c claim) string { return c.Worker }},
			{title: "ENDED BY", text: func(c claim) string { return c.EndedBy }},
			{title: "WHY", text: func(c claim) string {
				if c.Error != nil {
					return errorText(*c.Error)
				}
				return c.Reason
			}},
		},
	}
}

// since is how much later than the first the second is.
func since(first time.Time, second *time.Time) string {
	if second == nil {
		return ""
	}
	return "+" + rough(second.Sub(first))
}

func newRunEvents(a *app) *cobra.Command {
	var out format
	cmd := ofRun(a, &cobra.Command{
		Use:     "events ID",
		Short:   "Show everything that happened to a run",
		Long:    "Shows the run's events in order, as they stand in the log.",
		Example: "  daybook run events 0198c5f0-7a3e-8c11-9d2b-4f6a1e5b7c90 -o jsonl",
	}, func(ctx context.Context, c client.Client, id uuid.UUID) error {
		events, err := c.RunEvents(ctx, id)
		if err != nil {
			return noSuchRun(id, err)
		}
		return write(a, out, a.eventList(events, false))
	})
	outputFlag(cmd, &out, asTable)
	return cmd
}
