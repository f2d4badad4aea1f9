package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections/evidence"
)

func newExplain(a *app) *cobra.Command {
	var f format
	var at string
	cmd := &cobra.Command{
		Use:   "explain JOB --at T",
		Short: "Tell why something ran, did not run, or ran late",
		Long: `Tells what became of one instant of a job, from the decisions on record: as which run it
ran, or which run, pause, policy or outage was in the way. If the instant was none of the
schedule then in force, the nearest ones are named.

  daybook explain nightly-report --at '2026-11-29 03:00'`,
		Args: takes("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if at == "" {
				return usage("--at is needed: the instant to explain, such as 2026-11-29T03:00:00Z")
			}
			t, err := a.parseWhen("at", at, time.Now(), -1)
			if err != nil {
				return err
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				x, err := c.Explain(ctx, args[0], t)
				if err != nil {
					return noSuchJob(ctx, c, args[0], err)
				}
				if !f.people() {
					return a.writeJSON(f, x)
				}
				fmt.Fprintln(a.out, plain(x.Summary))
				for _, step := range x.Chain {
					fmt.Fprintln(a.out, "  "+plain(step))
				}
				return nil
			})
		},
	}
	outputFlag(cmd, &f, asTable)
	cmd.Flags().StringVar(&at, "at", "", "the instant: RFC 3339, or a date and time of this machine's zone")
	return cmd
}

func newAudit(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "audit",
		Short: "Prove the history",
		Long: `Holds the history against the rules: every stream a legal path, every instant with its
decision, every read model equal to the fold of the log. What is wrong is named, and the
exit status is not 0.`,
		Example: "  daybook audit verify\n  daybook audit coverage --job nightly-report --from 2026-03-01 --to 2026-03-08",
	}, newAuditVerify(a), newAuditCoverage(a), newAuditLineage(a), newAuditExport(a))
}

func newAuditVerify(a *app) *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Fold the whole log and hold everything else against it",
		Long: `Reads every event from one snapshot. Engines go on meanwhile. At last every claim that
nobody has started is looked for, in the outbox and, if NATS is given or an engine is
asked, with the broker; the output says whether that was done.

  daybook audit verify -o json`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				p := a.progress()
				r, err := c.Verify(ctx, func(events int) { p.say("%d events", events) })
				p.done()
				if err != nil {
					return err
				}
				if !f.people() {
					err = a.writeJSON(f, r)
				} else {
					for _, v := range r.Violations {
						fmt.Fprintf(a.out, "%s\t%s\t%s\n", v.Rule, v.Stream, plain(v.What))
					}
					fmt.Fprintf(a.err, "%s in %s, %s; %s\n", count(r.Events, "event"), count(r.Streams, "stream"), count(r.Live, "live run"), count(r.Count, "violation"))
					fmt.Fprintln(a.err, dispatchLine(r.Dispatch))
				}
				if err == nil && r.Count > 0 {
					return &exitError{code: exitFailed, err: errors.New("the history is not sound"), silent: !f.people()}
				}
				return err
			})
		},
	}
	outputFlag(cmd, &f, asTable)
	return cmd
}

func dispatchLine(d evidence.DispatchCheck) string {
	claims := "of " + count(d.Claims, "claim") + " that nobody has started"
	if !d.Asked {
		return claims + " the dispatches were not looked for: " + plain(d.NotAsked)
	}
	return fmt.Sprintf("%s %d lie in the outbox, %d with the broker, %d nowhere", claims, d.Outbox, d.Broker, d.Gone)
}

func newAuditCoverage(a *app) *cobra.Command {
	var f format
	var job, from, to string
	cmd := &cobra.Command{
		Use:   "coverage --job NAME --from T --to T",
		Short: "Prove that a schedule was carried out, instant by instant",
		Long: `Computes the instants that the job's definitions implied, version by version as they were
recorded, and looks for the decision of each: its run, or a recorded skip. The exit
status is 1 if one is missing.

  daybook audit coverage --job nightly-report --from 30d --to now`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if job == "" || from == "" || to == "" {
				return usage("--job, --from and --to are needed")
			}
			now := time.Now()
			begin, err := a.parseWhen("from", from, now, -1)
			if err != nil {
				return err
			}
			end, err := a.parseWhen("to", to, now, -1)
			if err != nil {
				return err
			}
			if end.Before(begin) {
				return usage("--to %s is before --from %s", to, from)
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				r, err := c.Coverage(ctx, job, begin, end)
				if err != nil {
					return noSuchJob(ctx, c, job, err)
				}
				if !f.people() {
					err = a.writeJSON(f, r)
				} else {
					fmt.Fprintf(a.out, "expected %d = ran %d + explained %d + missing %d\n", r.Expected, r.Ran, r.Explained, r.Missing)
					for _, at := range r.MissingInstants {
						fmt.Fprintf(a.out, "missing %s\n", at.Format(time.RFC3339))
					}
					for _, at := range r.UnexpectedInstants {
						fmt.Fprintf(a.out, "unexpected %s\n", at.Format(time.RFC3339))
					}
					if r.Undecided > 0 {
						fmt.Fprintf(a.err, "%s still to be decided\n", count(r.Undecided, "instant"))
					}
				}
				if err == nil && !r.Proven() {
					return &exitError{code: exitFailed, err: errors.New("not every instant is accounted for"), silent: !f.people()}
				}
				return err
			})
		},
	}
	outputFlag(cmd, &f, asTable)
	cmd.Flags().StringVar(&job, "job", "", "name of the job")
	cmd.Flags().StringVar(&from, "from", "", "first instant, or a span such as 30d ago")
	cmd.Flags().StringVar(&to, "to", "", "last instant, or now")
	return cmd
}

func newAuditLineage(a *app) *cobra.Command {
	var f format
	cmd := ofRun(a, &cobra.Command{
		Use:   "lineage ID",
		Short: "Show where a run comes from and what came of it",
		Long: `Shows the definition that the run followed and who had made it, who or what asked for the
run, its attempts, and the runs that it is a retry of or that are retries of it.`,
		Example: "  daybook audit lineage 0198c5f0-7a3e-8c11-9d2b-4f6a1e5b7c90",
	}, func(ctx context.Context, c client.Client, id uuid.UUID) error {
		l, err := c.Lineage(ctx, id)
		if err != nil {
			return noSuchRun(id, err)
		}
		if !f.people() {
			return a.writeJSON(f, l)
		}
		return a.showLineage(l)
	})
	outputFlag(cmd, &f, asTable)
	return cmd
}

func (a *app) showLineage(l evidence.Lineage) error {
	if d := l.Definition; d != nil {
		fmt.Fprintf(a.out, "definition  %s version %d, %s by %s\n", l.Job, d.Version, a.clock(d.At), plain(because(d.Actor, d.Reason)))
	}
	run := func(what string, r evidence.Ancestor) {
		if r.Gone != "" {
			fmt.Fprintf(a.out, "%-10s  %s: %s\n", what, r.RunID, plain(r.Gone))
			return
		}
		fmt.Fprintf(a.out, "%-10s  %s, %s %s by %s, %s\n", what, r.RunID, r.Origin, a.clock(*r.MadeAt), plain(because(r.MadeBy, r.Reason)), r.State)
	}
	for _, r := range l.Before {
		run("before", r)
	}
	run("run", l.Run)
	for _, c := range l.Attempts {
		if c.Attempt == 0 {
			continue
		}
		text := fmt.Sprintf("%d on %s, %s", c.Attempt, c.Worker, a.clock(*c.StartedAt))
		if c.EndedAt != nil {
			text += ", " + c.EndedBy + " after " + rough(c.EndedAt.Sub(*c.StartedAt))
		}
		if c.Error != nil {
			text = because(text, errorText(*c.Error))
		}
		fmt.Fprintf(a.out, "%-10s  %s\n", "attempt", plain(text))
	}
	for _, r := range l.After {
		run("after", r)
	}
	return nil
}

func newAuditExport(a *app) *cobra.Command {
	var e client.Exporting
	var from, to, file string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the log as lines of JSON",
		Long: `Writes events in commit-safe order, one JSON object a line, a page at a time: the log may
be of any size. What retention has let go of is in its own files.

With --file, the place is kept beside it in FILE.place. An export that was interrupted or
killed is repeated with the same command and goes on; so does one that was finished, with
what has come since. Without, the place to go on from with --after is printed on standard
error at the end.`,
		Example: `  daybook audit export --job nightly-report --file history.jsonl
  daybook audit export --from 2026-11-01 --to 2026-12-01 --file november.jsonl`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			now := time.Now()
			for _, limit := range []struct {
				flag, text string
				to         *time.Time
			}{{"from", from, &e.From}, {"to", to, &e.To}} {
				if limit.text == "" {
					continue
				}
				if *limit.to, err = a.parseWhen(limit.flag, limit.text, now, -1); err != nil {
					return err
				}
			}
			out := a.out
			if file != "" {
				f, err := openExport(file, exportOf{Job: e.Job, From: from, To: to}, &e)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, f.f.Close()) }()
				out = f.buf
			}
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				p := a.progress()
				done, err := client.Export(ctx, c, &counted{w: out, p: p}, e)
				p.done()
				switch {
				case err != nil && done.Events == 0:
				case file != "":
					fmt.Fprintf(a.err, "%s; the same command goes on from here\n", count(done.Events, "event"))
				default:
					fmt.Fprintf(a.err, "%s; go on with --after %s\n", count(done.Events, "event"), done.Next)
				}
				return err
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&e.Job, "job", "", "only this job and its runs")
	fl.StringVar(&from, "from", "", "only events from then on")
	fl.StringVar(&to, "to", "", "only events up to then")
	fl.StringVar(&e.After, "after", "", "go on where an earlier export ended")
	fl.StringVar(&file, "file", "", "write to this file, and go on with it if it is there")
	return cmd
}

// counted tells how many lines have gone through.
type counted struct {
	w     io.Writer
	p     *progress
	lines int
}

func (c *counted) Write(b []byte) (int, error) {
	c.lines++
	c.p.say("%d events", c.lines)
	return c.w.Write(b)
}
