package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/domain/schedule"
	"github.com/daybookhq/daybook/internal/client"
)

func newJobPreview(a *app) *cobra.Command {
	var o struct {
		schedules          []string
		zone, after, until string
		n                  int
	}
	var out format
	cmd := &cobra.Command{
		Use:   "preview [NAME]",
		Short: "Show when a job or a schedule fires",
		Long: `Says in words what a schedule means, warns of what may surprise, and lists the coming
instants, with what the clock changes of the zone do to them. Of a job it shows the schedule
in force; with --schedule it needs no server.

On a terminal the answer is text, otherwise JSON. A schedule that is refused exits with 2.`,
		Example: `  daybook job preview --schedule '30 2 * * *' --zone America/New_York -n 5
  daybook job preview --schedule '@every 90m' --after 2026-03-01T00:00:00Z -o json
  daybook job preview nightly-report --until 30d`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && len(o.schedules) == 0:
				return usage("want the NAME of a job, or --schedule EXPR\nSee '%s --help'", cmd.CommandPath())
			case len(args) == 1 && (len(o.schedules) > 0 || o.zone != ""):
				return usage("a job has its own schedule and zone: give NAME, or --schedule and --zone")
			case len(args) > 1:
				return takes("NAME")(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: a.jobNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.n < 0 || o.n > schedule.MaxPreview {
				return usage("-n %d: want 0 to %d", o.n, schedule.MaxPreview)
			}
			after, until, err := a.previewRange(o.after, o.until)
			if err != nil {
				return err
			}
			if out == "" {
				out = asJSON
				if a.terminal() {
					out = asTable
				}
			}
			if len(args) == 0 {
				set, err := schedule.ParseSet(o.schedules, schedule.Options{Zone: o.zone})
				if err != nil {
					return a.refusedSchedule(out, err)
				}
				return a.writePreview(out, set.Preview(after, until, o.n))
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				job, err := c.Job(ctx, args[0])
				if err != nil {
					return noSuchJob(ctx, c, args[0], err)
				}
				return a.previewJob(out, job, after, until, o.n)
			})
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.schedules, "schedule", nil, "expression to look at (repeatable)")
	f.StringVar(&o.zone, "zone", "", "IANA time zone (default UTC)")
	f.StringVar(&o.after, "after", "", "instants after this one (default now)")
	f.StringVar(&o.until, "until", "", "and up to this one: an instant, a local time, or 30d from now")
	f.IntVarP(&o.n, "count", "n", 10, "instants at most, up to 100000")
	outputFlag(cmd, &out, "")
	return cmd
}

func (a *app) previewRange(after, until string) (from, to time.Time, err error) {
	from = time.Now()
	if after != "" {
		if from, err = a.parseWhen("after", after, from, +1); err != nil {
			return from, to, err
		}
	}
	if to, err = a.optionalWhen("until", until, +1); err != nil {
		return from, to, err
	}
	if !to.IsZero() && !to.After(from) {
		return from, to, usage("--until %s is not after %s", to.UTC().Format(time.RFC3339), from.UTC().Format(time.RFC3339))
	}
	return from, to, nil
}

func (a *app) previewJob(out format, job client.Job, after, until time.Time, n int) error {
	set, err := job.Spec.Instants()
	if err != nil {
		return err
	}
	p := schedule.Preview{Description: "On request only", Warnings: []schedule.Warning{}, Fires: []schedule.PreviewFire{}, ClockChanges: []schedule.ClockChange{}}
	if set != nil {
		p = set.Preview(after, until, n)
	}
	if job.State != client.Active {
		fmt.Fprintf(a.err, "job %s is %s: these instants get no runs\n", job.Name, job.State)
	}
	return a.writePreview(out, p)
}

func (a *app) writePreview(out format, p schedule.Preview) error {
	switch out {
	case asJSON:
		return a.writePlainJSON(p)
	case asLines:
		for _, f := range p.Fires {
			if err := a.writeLine(f); err != nil {
				return err
			}
		}
		return nil
	case asID:
		for _, f := range p.Fires {
			if _, err := fmt.Fprintln(a.out, f.At.UTC().Format(time.RFC3339)); err != nil {
				return err
			}
		}
		return nil
	default:
		_, err := fmt.Fprint(a.out, p.Text())
		return err
	}
}

// refusedSchedule writes why, where a program asked, as JSON.
func (a *app) refusedSchedule(out format, err error) error {
	refused, ok := errors.AsType[*schedule.Error](err)
	if ok && !out.people() {
		if err := a.writePlainJSON(map[string]any{"error": refused}); err != nil {
			return err
		}
	}
	return err
}
