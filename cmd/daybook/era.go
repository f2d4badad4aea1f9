package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/natsjs"
)

func newEra(a *app) *cobra.Command {
	var dsn, reason string
	cmd := &cobra.Command{
		Use:   "era",
		Short: "Say that a restored or promoted database is the one to go on with",
		Long: `An era is a history of the database without forks. Engines compare theirs with the server's
at every connection and write nothing when it is another.`,
		Example: "  daybook era raise --reason 'restored from the backup of Sunday'",
	}
	raise := &cobra.Command{
		Use: "raise", Short: "Begin a new era of the log", Args: takes(),
		Long: `After a restore or a failover, transaction numbers of the old history mean nothing in
the new one, and engines refuse to write. Check the data first; then raise the era:
engines go on, and consumers of events can tell the histories apart.`,
		Example: "  daybook era raise --reason 'restored from the backup of Sunday'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reason == "" {
				return usage("--reason is needed: it is kept with the era")
			}
			o, err := a.eraTarget(dsn)
			if err != nil {
				return err
			}
			era, err := eventstore.RaiseEra(cmd.Context(), o.DSN, reason)
			if err == nil {
				fmt.Fprintf(a.out, "era %d\n", era)
			}
			return err
		},
	}
	raise.Flags().StringVar(&dsn, "database-url", "", "connection string (DATABASE_URL)")
	raise.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return group(cmd, raise, newEraList(a), newEraLost(a))
}

// eraTarget is the database that the flag names, or that of the deployment: eras
// are looked into and raised beside it.
func (a *app) eraTarget(dsn string) (client.Options, error) {
	if dsn != "" {
		return client.Options{DSN: dsn, NATS: a.firstEnv("NATS_URL"), NATSCreds: a.firstEnv("NATS_CREDS")}, nil
	}
	t, err := a.target()
	if err == nil {
		err = t.needsDatabase("raising an era, and telling what was lost,")
	}
	return t.database, err
}

func newEraLost(a *app) *cobra.Command {
	var dsn, since string
	var out format
	cmd := &cobra.Command{
		Use: "lost", Short: "List what subscribers heard and the database does not know", Args: takes(),
		Long: `Compares the events that NATS still holds (three days) with the log. What the log does not
have was lost when the database was restored or failed over: runs that were made, and perhaps
executed, in a part of history that is gone. It changes nothing, and works in a database that
engines refuse. What NATS never got, or has lost itself, it cannot tell.`,
		Example: "  daybook era lost\n  daybook era lost --since 2h -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := a.optionalWhen("since", since, -1)
			if err != nil {
				return err
			}
			o, err := a.eraTarget(dsn)
			if err != nil {
				return err
			}
			if o.NATS == "" {
				return usage("no NATS server: set NATS_URL, for example nats://127.0.0.1:4222")
			}
			lost, err := a.findLost(cmd.Context(), o, from)
			if err != nil {
				return err
			}
			return a.showLost(out, lost)
		},
	}
	cmd.Flags().StringVar(&dsn, "database-url", "", "connection string (DATABASE_URL)")
	cmd.Flags().StringVar(&since, "since", "", "only events published since then")
	outputFlag(cmd, &out, asTable)
	return cmd
}

func (a *app) findLost(ctx context.Context, o client.Options, since time.Time) ([]client.Lost, error) {
	nc, err := natsjs.Connect(natsjs.ConnectOptions{URL: o.NATS, CredsFile: o.NATSCreds, Name: "daybook-era", Logger: a.newLogger(slog.LevelError)})
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	wait, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := natsjs.WaitConnected(wait, nc); err != nil {
		return nil, &exitError{code: exitUnreachable, err: err}
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	p := a.progress()
	defer p.done()
	return client.FindLost(ctx, o.DSN, js, since, func(events int) { p.say("%d events", events) })
}

func (a *app) showLost(out format, lost []client.Lost) error {
	return write(a, out, list[client.Lost]{
		items: lost, whole: map[string]any{"lost": lost}, empty: "nothing that subscribers heard is missing",
		id: func(l client.Lost) string { return l.StreamID.String() },
		columns: []column[client.Lost]{
			{title: "ID", text: func(l client.Lost) string { return l.StreamID.String() }},
			{title: "WHAT", text: func(l client.Lost) string { return string(l.Category) }},
			{title: "JOB", text: func(l client.Lost) string { return l.Job }},
			{title: "KEY", wide: true, text: func(l client.Lost) string { return l.Key }},
			{title: "KNOWN", text: func(l client.Lost) string { return map[bool]string{true: "yes", false: "no"}[l.Known] }},
			{title: "EVENTS", text: func(l client.Lost) string { return strconv.Itoa(l.Events) }},
			{title: "LAST", text: func(l client.Lost) string { return l.Last }},
			{title: "AT", text: func(l client.Lost) string { return a.clock(l.LastAt) }},
			{title: "ERA", wide: true, text: func(l client.Lost) string { return strconv.Itoa(l.Era) }},
		},
	})
}

func newEraList(a *app) *cobra.Command {
	var out format
	cmd := &cobra.Command{
		Use: "list", Short: "List the histories that the log was written in", Args: takes(),
		Long:    "Lists the eras with the reasons they were raised for; the last is the present one.",
		Example: "  daybook era list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				eras, err := c.Eras(ctx)
				if err != nil {
					return err
				}
				return write(a, out, list[client.Era]{
					items: eras,
					whole: map[string]any{"eras": eras},
					id:    func(e client.Era) string { return strconv.Itoa(e.Era) },
					columns: []column[client.Era]{
						{title: "ERA", text: func(e client.Era) string { return strconv.Itoa(e.Era) }},
						{title: "RAISED", text: func(e client.Era) string { return a.clock(e.RaisedAt) }},
						{title: "SYSTEM", wide: true, text: func(e client.Era) string { return e.SystemIdentifier }},
						{title: "TIMELINE", wide: true, text: func(e client.Era) string { return strconv.FormatInt(e.Timeline, 10) }},
						{title: "REASON", text: func(e client.Era) string { return e.Reason }},
					},
				})
			})
		},
	}
	outputFlag(cmd, &out, asTable)
	return cmd
}
