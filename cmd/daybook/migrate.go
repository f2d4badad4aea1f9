package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/migrations"
)

func newMigrate(a *app) *cobra.Command {
	var dsn string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database schema up to date",
		Long: `Migrations run as the owner of the tables, over a direct connection (not through a
pooler in transaction mode): MIGRATE_DATABASE_URL, or else DATABASE_URL. Any number of
processes may migrate at once; one applies, the others wait. Migrations only go forward.`,
		Example: "  daybook migrate status",
	}
	cmd.PersistentFlags().StringVar(&dsn, "migrate-database-url", "", "owner's connection string (MIGRATE_DATABASE_URL, DATABASE_URL)")
	url := func() (string, error) {
		if dsn != "" {
			return dsn, nil
		}
		if v := a.firstEnv("MIGRATE_DATABASE_URL", "DATABASE_URL"); v != "" {
			return v, nil
		}
		d, err := a.findDev()
		if err != nil {
			return "", usage("no database: set MIGRATE_DATABASE_URL or DATABASE_URL")
		}
		return d.AdminDatabase, nil
	}
	return group(cmd, &cobra.Command{
		Use: "up", Short: "Apply what is missing", Args: takes(),
		Long: `Applies the migrations that the database does not have yet, the first time all of them,
with the role daybook_engine for the engines.`,
		Example: "  MIGRATE_DATABASE_URL=postgres://owner@db/daybook daybook migrate up",
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := url()
			if err != nil {
				return err
			}
			if err := migrations.Up(cmd.Context(), u); err != nil {
				return err
			}
			have, _, err := migrations.Versions(cmd.Context(), u)
			if err == nil {
				fmt.Fprintf(a.err, "schema is at version %d\n", have)
			}
			return err
		},
	}, &cobra.Command{
		Use: "status", Short: "Show what is applied and what is missing", Args: takes(),
		Long:    "Lists the migrations that this binary knows, the oldest first. It changes nothing.",
		Example: "  daybook migrate status",
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := url()
			if err != nil {
				return err
			}
			all, err := migrations.Status(cmd.Context(), u)
			for _, m := range all {
				state := "missing"
				if m.Done {
					state = "applied"
				}
				fmt.Fprintf(a.out, "%-8s %s\n", state, m.Name)
			}
			return err
		},
	})
}

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
			if dsn == "" {
				dsn = a.firstEnv("DATABASE_URL")
			}
			if dsn == "" {
				d, err := a.findDev()
				if err != nil {
					return usage("no database: set DATABASE_URL")
				}
				dsn = d.Database
			}
			era, err := eventstore.RaiseEra(cmd.Context(), dsn, reason)
			if err == nil {
				fmt.Fprintf(a.out, "era %d\n", era)
			}
			return err
		},
	}
	raise.Flags().StringVar(&dsn, "database-url", "", "connection string (DATABASE_URL)")
	raise.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return group(cmd, raise)
}
