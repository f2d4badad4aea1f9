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

// target is the deployment that commands are for, and how it is reached.
type target struct {
	http     client.HTTPOptions // the engine to ask; without a URL, the database is
	database client.Options     // beside which some commands belong; without a DSN, it is out of reach
	from     string             // where it was found, for people
}

// target finds the deployment: that of --url or --data, else of DAYBOOK_URL or
// DAYBOOK_DATA, else the database of DATABASE_URL, else the running `daybook dev`
// of this user. An engine is asked where there is one.
func (a *app) target() (target, error) {
	if a.given["url"] && a.given["data"] {
		return target{}, usage("--url and --data name two deployments: give one of them")
	}
	dsn := a.firstEnv("DATABASE_URL")
	switch {
	case a.url != "" && !a.given["data"]:
		from := "DAYBOOK_URL"
		if a.given["url"] {
			from = "--url"
		}
		return target{http: client.HTTPOptions{URL: a.url, Token: a.firstEnv("DAYBOOK_TOKEN"), Patience: a.patience}, from: from + " " + a.url}, nil
	case a.data != "":
	case dsn != "" || a.firstEnv("PGHOST", "PGDATABASE", "PGSERVICE") != "":
		o := client.Options{Actor: actor(), DSN: dsn, NATS: a.firstEnv("NATS_URL"), NATSCreds: a.firstEnv("NATS_CREDS")}
		return target{database: o, from: "DATABASE_URL"}, nil
	}
	d, err := a.findDev()
	if err != nil {
		return target{}, err
	}
	t := devTarget(d)
	t.http.Patience = a.patience
	return t, nil
}

func devTarget(d devFile) target {
	return target{
		http:     client.HTTPOptions{URL: d.HTTP, Token: d.Token, Actor: actor()},
		database: client.Options{Actor: actor(), DSN: d.Database, NATS: d.NATS},
		from:     "'daybook dev' in " + d.Data,
	}
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
	t, err := a.target()
	switch {
	case err != nil:
		return err
	case t.http.URL == "":
		return withDatabase(cmd.Context(), t.database, func(ctx context.Context, c *client.Database) error { return f(ctx, c) })
	}
	return t.withEngine(cmd.Context(), func(ctx context.Context, c *client.HTTP) error { return f(ctx, c) })
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

// withEngine calls f with a client of the engine.
func (t target) withEngine(ctx context.Context, f func(ctx context.Context, c *client.HTTP) error) error {
	c, err := client.OpenHTTP(t.http)
	if err != nil {
		return usage("%v", err)
	}
	defer c.Close()
	err = f(ctx, c)
	if away, ok := errors.AsType[*client.UnreachableError](err); ok && !away.Unknown {
		return fmt.Errorf("%w\nthat is the deployment of %s: is it running?", err, t.from)
	}
	return err
}

// beside calls f with the database, for what is done there and nowhere else.
func (t target) beside(ctx context.Context, what string, f func(ctx context.Context, c *client.Database) error) error {
	if err := t.needsDatabase(what); err != nil {
		return err
	}
	return withDatabase(ctx, t.database, f)
}

func (t target) needsDatabase(what string) error {
	if t.database.DSN == "" && t.http.URL != "" {
		return usage("%s is done beside the database, and %s does not lead to it: set DATABASE_URL instead, or give --data DIR of a 'daybook dev'", what, t.from)
	}
	return nil
}

func withDatabase(ctx context.Context, o client.Options, f func(ctx context.Context, c *client.Database) error) error {
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
