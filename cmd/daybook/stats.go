package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
)

const statsHelp = `Shows what happened in each step of time, as events are dated; steps in which nothing happened
are left out. RETRIED are attempts that failed and are followed by another, PUT BACK are runs
that were claimed and released, snoozed or interrupted.

Below stands how long attempts waited, from ready to start, and ran. Durations are counted in
ranges that end at 1 ms, 2 ms, 4 ms and so on: a percentile is an estimate, somewhere in the
range that is given.`

func newQueueStats(a *app) *cobra.Command {
	var f projections.StatsFilter
	cmd := a.statsCommand(&f)
	cmd.Use, cmd.Short, cmd.Args = "stats", "Show rates, waits and durations of queues", takes()
	cmd.Long = statsHelp + "\n\nMinutes are kept for 14 days, durations by the hour for 90."
	cmd.Example = "  daybook queue stats\n  daybook queue stats --queue mail --kind send --since 24h --step 1h"
	cmd.Flags().StringVar(&f.Queue, "queue", "", "only this queue")
	cmd.Flags().StringVar(&f.Kind, "kind", "", "only this kind")
	return cmd
}

func newJobStats(a *app) *cobra.Command {
	var f projections.StatsFilter
	cmd := a.statsCommand(&f)
	cmd.Use, cmd.Short, cmd.Args, cmd.ValidArgsFunction = "stats NAME", "Show rates, waits and durations of a job", takes("NAME"), a.jobNames
	cmd.Long = statsHelp + "\n\nMinutes are kept for two days, durations by the day in UTC for 400."
	cmd.Example = "  daybook job stats nightly-report --since 24h --step 1h\n  daybook job stats nightly-report --since 90d --step 48h -o json"
	return cmd
}

// stats are the answers to both questions.
type stats struct {
	Rates     projections.Rates     `json:"rates"`
	Durations projections.Durations `json:"durations"`
}

func (a *app) statsCommand(f *projections.StatsFilter) *cobra.Command {
	var out format
	var since, until string
	cmd := &cobra.Command{RunE: func(cmd *cobra.Command, args []string) (err error) {
		if len(args) > 0 {
			f.Job = args[0]
		}
		if f.From, err = a.optionalWhen("since", since, -1); err != nil {
			return err
		}
		if f.To, err = a.optionalWhen("until", until, -1); err != nil {
			return err
		}
		return a.with(cmd, func(ctx context.Context, c client.Client) error {
			if f.Job != "" {
				if _, err := c.Job(ctx, f.Job); err != nil {
					return noSuchJob(ctx, c, f.Job, err)
				}
			}
			var got stats
			if got.Rates, err = c.Rates(ctx, *f); err != nil {
				return err
			}
			if got.Durations, err = c.Durations(ctx, *f); err != nil {
				return err
			}
			if err := write(a, out, a.rateList(got)); err != nil || !out.people() {
				return err
			}
			d := got.Durations
			fmt.Fprintf(a.out, "\nwaits:     %s\ndurations: %s\n", distribution(d.Wait), distribution(d.Run))
			fmt.Fprintf(a.err, "waits and durations from %s to %s\n", a.clock(d.From), a.clock(d.To))
			return nil
		})
	}}
	outputFlag(cmd, &out, asTable)
	cmd.Flags().StringVar(&since, "since", "", "from then on: an instant, a local time, or 24h ago; by default an hour before --until")
	cmd.Flags().StringVar(&until, "until", "", "before then; by default up to now")
	cmd.Flags().DurationVar(&f.Step, "step", time.Minute, "length of a step, in whole minutes")
	return cmd
}

func distribution(d projections.Distribution) string {
	if d.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("%s, estimated p50 %s, p90 %s, p99 %s", count(int(d.Count), "attempt"), within(d.P50Estimate), within(d.P90Estimate), within(d.P99Estimate))
}

// within is a range as people read it.
func within(r *projections.Range) string {
	switch {
	case r == nil:
		return "unknown"
	case r.AtMost == nil:
		return "above " + r.Above.String()
	}
	return r.Above.String() + " to " + r.AtMost.String()
}

func (a *app) rateList(s stats) list[projections.Rate] {
	type rate = projections.Rate
	number := func(f func(rate) int64) func(rate) string {
		return func(r rate) string { return strconv.FormatInt(f(r), 10) }
	}
	return list[rate]{
		items: s.Rates.Rates,
		whole: s,
		id:    func(r rate) string { return r.At.Format(time.RFC3339) },
		empty: "nothing happened in that time",
		columns: []column[rate]{
			{title: "FROM", text: func(r rate) string { return a.clock(r.At) }},
			{title: "SCHEDULED", text: number(func(r rate) int64 { return r.Scheduled })},
			{title: "STARTED", text: number(func(r rate) int64 { return r.Started })},
			{title: "SUCCEEDED", text: number(func(r rate) int64 { return r.Succeeded })},
			{title: "FAILED", text: number(func(r rate) int64 { return r.Failed })},
			{title: "RETRIED", text: number(func(r rate) int64 { return r.Retried })},
			{title: "CANCELLED", text: number(func(r rate) int64 { return r.Cancelled })},
			{title: "SKIPPED", text: number(func(r rate) int64 { return r.Skipped })},
			{title: "CLAIMED", wide: true, text: number(func(r rate) int64 { return r.Claimed })},
			{title: "PUT BACK", wide: true, text: number(func(r rate) int64 { return r.PutBack })},
		},
	}
}
