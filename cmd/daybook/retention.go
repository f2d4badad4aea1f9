package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections/retention"
)

// retentionDirName is where `daybook dev` keeps exports, in its data directory.
const retentionDirName = "retired"

func newRetention(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "retention",
		Short: "Look after how long history is kept",
		Long: `Runs leave the log by whole months of their instants, when the month and its newest event
are older than they are kept: 400 days unless changed. A month is exported to a file,
the file is read back and compared with the table, and then the month is dropped. Jobs,
their definitions and the ledger of instants stay for ever. What attempts wrote is kept
for 30 days.

Engines do this by themselves, every hour, if they have a directory for exports
('daybook serve --retention-dir'; 'daybook dev' has one).`,
		Example: "  daybook retention status\n  daybook retention run --dir /var/lib/daybook/retired --apply",
	}, newRetentionStatus(a), newRetentionRun(a), newRetentionSet(a))
}

func newRetentionStatus(a *app) *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use: "status", Short: "Show what is kept, what is due to go and what is gone", Args: takes(),
		Long:    "Shows every month of runs, in the log or no longer, and why it stays.",
		Example: "  daybook retention status -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				plan, err := c.Retention(ctx)
				if err != nil {
					return err
				}
				return a.showPlan(f, plan)
			})
		},
	}
	outputFlag(cmd, &f, asTable)
	return cmd
}

func (a *app) showPlan(f format, plan retention.Plan) error {
	type month = retention.Month
	err := write(a, f, list[month]{
		items: plan.Months, whole: map[string]any{"retention": plan}, empty: "no month of runs", id: func(m month) string { return m.Month },
		columns: []column[month]{
			{title: "MONTH", text: func(m month) string { return m.Month }},
			{title: "STATE", text: func(m month) string { return string(m.State) }},
			{title: "EVENTS", text: func(m month) string { return strconv.FormatInt(m.Events, 10) }},
			{title: "MB", text: func(m month) string { return strconv.FormatInt((m.Bytes+1<<19)>>20, 10) }},
			{title: "UNTIL", text: func(m month) string { return a.clockOr(m.Until, "") }},
			{title: "NEWEST", wide: true, text: func(m month) string { return a.clockOr(m.NewestAt, "") }},
			{title: "WHY", text: func(m month) string {
				if m.State == retention.Retired {
					return "in " + m.Export.File + " on " + m.Export.Host
				}
				return m.Why
			}},
		},
	})
	if err == nil && f.people() {
		fmt.Fprintf(a.err, "runs are kept %s, outputs %s", spanText(plan.KeepRuns), spanText(plan.KeepOutputs))
		if plan.LowMark.Position > 0 {
			fmt.Fprintf(a.err, "; the log is complete above position %d and after %s", plan.LowMark.Position, a.clock(plan.LowMark.At))
		}
		fmt.Fprintln(a.err)
	}
	return err
}

func spanText[D ~int64](d *D) string {
	if d == nil {
		return "for ever"
	}
	span := time.Duration(*d)
	if span%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(span/(24*time.Hour)), 10) + "d"
	}
	return span.String()
}

func newRetentionRun(a *app) *cobra.Command {
	var dir string
	var apply bool
	cmd := &cobra.Command{
		Use: "run", Short: "Export, verify and drop the months that are due", Args: takes(),
		Long: `Without --apply, shows what it would do and does nothing. With it, each month that is due
is exported to the directory, verified and dropped. It can be interrupted at any point
and repeated. Exit code 1 if a month that is due had to stay.

The files are lines of JSON, each with its checksum beside it as sha256sum writes it. Keep
them where backups are kept: the log does not have these events any more.`,
		Example: "  daybook retention run\n  daybook retention run --dir /var/lib/daybook/retired --apply",
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := a.target()
			if err == nil {
				err = t.needsDatabase("letting months go")
			}
			if err != nil {
				return err
			}
			o := t.database
			if dir == "" && t.http.URL != "" { // of a 'daybook dev', since it leads to the database
				if d, err := a.findDev(); err == nil {
					dir = d.Data + "/" + retentionDirName
				}
			}
			if apply && dir == "" {
				return usage("--dir is needed: the directory to export to")
			}
			return a.withStore(cmd.Context(), o, func(ctx context.Context, store *eventstore.Store) error {
				p := a.progress()
				k, err := retention.New(store, retention.Config{Directory: dir, Host: hostname(), Actor: o.Actor,
					Progress: func(at retention.Progress) { p.say("%s: %d events %s", at.Month, at.Events, at.What) }})
				if err != nil {
					return err
				}
				if !apply {
					return a.showDue(ctx, k)
				}
				done, err := k.Keep(ctx)
				p.done()
				for _, x := range done.Retired {
					fmt.Fprintf(a.out, "%s\t%s\t%s\t%s\n", x.Name(), count(int(x.Runs), "run"), x.File, x.SHA256)
				}
				for month, why := range done.Blocked {
					fmt.Fprintf(a.err, "%s stays: %s\n", month, plain(why))
				}
				fmt.Fprintf(a.err, "%s and %s of attempts are gone\n", count(len(done.Retired)+len(done.Empty), "month"), count(done.Outputs, "output"))
				if err == nil && len(done.Blocked) > 0 {
					err = &exitError{code: exitFailed, err: errors.New("not every month that is due could go"), silent: true}
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory to export to, made if need be (of a running 'daybook dev': its own)")
	cmd.Flags().BoolVar(&apply, "apply", false, "do it, instead of showing it")
	return cmd
}

func (a *app) showDue(ctx context.Context, k *retention.Keeper) error {
	plan, err := k.Plan(ctx)
	if err != nil {
		return err
	}
	due := 0
	for _, m := range plan.Months {
		switch m.State {
		case retention.Due:
			due++
			fmt.Fprintf(a.out, "%s\tabout %d events, %d MB: export, verify, drop\n", m.Month, m.Events, (m.Bytes+1<<19)>>20)
		case retention.Blocked:
			fmt.Fprintf(a.out, "%s\tstays: %s\n", m.Month, plain(m.Why))
		case retention.Kept, retention.Retired:
		}
	}
	if due == 0 {
		fmt.Fprintln(a.err, "no month of runs is due to go")
		return nil
	}
	fmt.Fprintf(a.err, "nothing was changed: --apply does it\n")
	return nil
}

func newRetentionSet(a *app) *cobra.Command {
	var dsn, runs, outputs string
	cmd := &cobra.Command{
		Use: "set", Short: "Change how long history is kept", Args: takes(),
		Long: `Changes it for the whole deployment, as the owner of the tables: MIGRATE_DATABASE_URL, or
else DATABASE_URL, or a 'daybook dev'. The engines' role may not, so that whoever has its password cannot
shorten the history.`,
		Example: "  daybook retention set --runs 800d --outputs 14d\n  daybook retention set --runs forever",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runs == "" && outputs == "" {
				return usage("--runs or --outputs is needed, such as 400d or forever")
			}
			var change eventstore.SpanChange
			var err error
			if change.Runs, err = spanFlag("runs", runs); err != nil {
				return err
			}
			if change.Outputs, err = spanFlag("outputs", outputs); err != nil {
				return err
			}
			if dsn, err = a.ownerDSN(dsn, "retention is changed"); err != nil {
				return err
			}
			k, err := eventstore.SetSpans(cmd.Context(), dsn, change, actor())
			if err == nil {
				fmt.Fprintf(a.err, "runs are kept %s, outputs %s\n", spanText(k.Runs), spanText(k.Outputs))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dsn, "migrate-database-url", "", "owner's connection string (MIGRATE_DATABASE_URL, DATABASE_URL)")
	cmd.Flags().StringVar(&runs, "runs", "", "how long runs and their events are kept, such as 400d, or forever")
	cmd.Flags().StringVar(&outputs, "outputs", "", "how long outputs of attempts are kept, such as 30d, or forever (with their runs)")
	return cmd
}

// spanFlag reads a span; "" leaves it as it is, and zero stands for ever.
func spanFlag(flag, s string) (*time.Duration, error) {
	if s == "" {
		return nil, nil
	}
	if s == "forever" {
		return new(time.Duration), nil
	}
	d, ok := parseSpan(s)
	if !ok || d <= 0 {
		return nil, usage("--%s %q: want a span such as 400d, or forever", flag, plain(s))
	}
	return &d, nil
}
