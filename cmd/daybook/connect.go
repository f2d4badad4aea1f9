package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/migrations"
)

// target is the deployment that commands are for: the one of --data, else that
// of DATABASE_URL, else the running `daybook dev` of this user.
func (a *app) target() (client.Options, error) {
	o := client.Options{Actor: actor()}
	dsn := a.firstEnv("DATABASE_URL")
	switch {
	case a.data != "":
	case dsn != "" || a.firstEnv("PGHOST", "PGDATABASE", "PGSERVICE") != "":
		o.DSN, o.NATS, o.NATSCreds = dsn, a.firstEnv("NATS_URL"), a.firstEnv("NATS_CREDS")
		return o, nil
	case a.url != "":
		return o, usage("this version's commands need the database, and --url %s does not lead to it: give --data DIR, or set DATABASE_URL", a.url)
	}
	d, err := a.findDev()
	if err != nil {
		return o, err
	}
	return devTarget(d), nil
}

func devTarget(d devFile) client.Options {
	return client.Options{Actor: actor(), DSN: d.Database, NATS: d.NATS}
}

// actor is who gives a command, for the record.
func actor() string {
	name := "uid " + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	return "cli:" + name + "@" + hostname()
}

// with connects, calls f and disconnects.
func (a *app) with(cmd *cobra.Command, f func(ctx context.Context, c client.Client) error) error {
	o, err := a.target()
	if err != nil {
		return err
	}
	return a.withTarget(cmd.Context(), o, f)
}

// withStore connects to the database itself, for what is done there.
func (a *app) withStore(ctx context.Context, o client.Options, f func(ctx context.Context, store *eventstore.Store) error) error {
	store, err := eventstore.Open(ctx, eventstore.Config{DSN: o.DSN, OpsConns: 1, LoopConns: 3, Actor: o.Actor})
	if err == nil {
		err = f(ctx, store)
		store.Close()
	}
	return explainSchema(ctx, o.DSN, err)
}

func (a *app) withTarget(ctx context.Context, o client.Options, f func(ctx context.Context, c client.Client) error) error {
	c, err := client.Open(ctx, o)
	if err == nil {
		err = f(ctx, c)
		c.Close()
	}
	return explainSchema(ctx, o.DSN, err)
}

// explainSchema adds the likely reason to an error about tables and columns: the
// binary and the schema are of different versions.
func explainSchema(ctx context.Context, dsn string, err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !strings.HasPrefix(pg.Code, "42") {
		return err
	}
	have, verr := migrations.Current(ctx, dsn)
	switch want := migrations.Latest(); {
	case verr != nil || have == want:
		return err
	case have < want:
		return fmt.Errorf("%w\nthe database schema is at version %d, this binary needs %d: run 'daybook migrate up'", err, have, want)
	default:
		return fmt.Errorf("%w\nthe database schema is at version %d, this binary knows up to %d: use a newer daybook", err, have, want)
	}
}
