package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/client"
)

func newJobBackfill(a *app) *cobra.Command {
	var o struct{ from, to, reason string }
	var out format
	cmd := &cobra.Command{
		Use:   "backfill NAME --from T --to T",
		Short: "Make up for past instants that have no run",
		Long: `Makes runs for the instants from --from to --to, both included, that the present schedule
names and that have no run, the oldest first. It can be interrupted and repeated: an instant
gets one run. Instants that are still to be decided are refused.`,
		Example: `  daybook job backfill nightly-report --from 2026-03-01 --to 2026-03-08
  daybook job backfill nightly-report --from 7d --to now --reason 'source was down'`,
		Args:              takes("NAME"),
		ValidArgsFunction: a.jobNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.from == "" || o.to == "" {
				return usage("--from and --to are needed: the first and the last instant to look at")
			}
			now := time.Now()
			from, err := a.parseWhen("from", o.from, now, -1)
			if err != nil {
				return err
			}
			to, err := a.parseWhen("to", o.to, now, -1)
			if err != nil {
				return err
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				b := client.Backfill{Job: args[0], From: from, To: to, Limit: backfillPage, Reason: o.reason}
				total, err := a.backfill(ctx, c, b, o.to == "now")
				if err != nil {
					return noSuchJob(ctx, c, args[0], err)
				}
				if !out.people() {
					return a.writeJSON(out, total)
				}
				_, err = fmt.Fprintf(a.out, "%s, %s made\n", count(total.Seen, "instant"), count(total.Created, "run"))
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "first instant to look at: an instant, a local time, or 7d ago")
	f.StringVar(&o.to, "to", "", "last instant to look at; now is as far as the engine has decided")
	f.StringVar(&o.reason, "reason", "", "why, for the record")
	outputFlag(cmd, &out, asTable)
	return cmd
}

// backfillPage is how many instants one transaction looks at.
const backfillPage = 1000

// backfill goes through the range page by page. Up to now means up to where the
// engine has decided.
func (a *app) backfill(ctx context.Context, c client.Jobs, b client.Backfill, toNow bool) (total client.Backfilled, err error) {
	if toNow {
		job, err := c.Job(ctx, b.Job)
		if err != nil {
			return total, err
		}
		b.To = job.MaterializedThrough
	}
	p := a.progress()
	defer p.done()
	for {
		got, err := c.Backfill(ctx, b)
		if err != nil {
			return total, err
		}
		total.Seen, total.Created = total.Seen+got.Seen, total.Created+got.Created
		total.Through, total.Done = got.Through, got.Done
		if got.Done {
			return total, nil
		}
		p.say("%s so far, %s made, now at %s", count(total.Seen, "instant"), count(total.Created, "run"), a.clock(got.Through))
		b.From = got.Through.Add(time.Nanosecond)
	}
}
