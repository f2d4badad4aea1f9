package main

import (
	"fmt"

	"github.com/spf13/cobra"

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
	url := func() (string, error) { return a.ownerDSN(dsn, "the schema is changed") }
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

// ownerDSN is how the owner of the tables connects: as the flag says, to the
// 'daybook dev' of --data, as the environment says, or to the one that is found.
func (a *app) ownerDSN(flag, what string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if v := a.firstEnv("MIGRATE_DATABASE_URL", "DATABASE_URL"); v != "" && !a.given["data"] {
		return v, nil
	}
	if a.url != "" && !a.given["data"] {
		return "", usage("%s beside the database, and %s does not lead to it: set MIGRATE_DATABASE_URL", what, a.url)
	}
	d, err := a.findDev()
	switch {
	case err == nil:
		return d.AdminDatabase, nil
	case a.given["data"]:
		return "", err
	}
	return "", usage("no database: set MIGRATE_DATABASE_URL or DATABASE_URL")
}
