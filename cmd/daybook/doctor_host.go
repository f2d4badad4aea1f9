package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/devpg"
	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/migrations"
)

func (d *doctor) binaries() {
	const check = "postgresql binaries"
	dir, err := devpg.FindBinDir()
	if err == nil {
		d.note(check, fine, dir, "")
		return
	}
	if d.a.url != "" || d.a.firstEnv("DATABASE_URL") != "" {
		d.note(check, fine, "none here, and none needed: the database is elsewhere", "")
		return
	}
	d.note(check, doubt, "none found", "'daybook dev' needs them and fetches them if it can; otherwise install PostgreSQL 15 or newer")
}

func (d *doctor) dataDirectory() {
	const check = "data directory"
	dir := d.a.dataDir()
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.note(check, fine, dir+" does not exist yet; 'daybook dev' makes it", "")
	case err != nil:
		d.note(check, doubt, err.Error(), "choose another with --data")
	case !info.IsDir():
		d.note(check, failing, dir+" is no directory", "choose another with --data")
	default:
		d.note(check, fine, dir, "")
	}
}

// deployment finds what the other checks are about.
func (d *doctor) deployment() (target, bool) {
	const check = "deployment"
	t, err := d.a.target()
	if err != nil {
		d.note(check, failing, err.Error(), "")
		return t, false
	}
	d.note(check, fine, t.from, "")
	return t, true
}

// dev reports whether the deployment is a local `daybook dev`.
func (d *doctor) dev() bool {
	t, err := d.a.target()
	return err == nil && t.http.URL != "" && t.database.DSN != ""
}

// engine asks the HTTP API, and where that is the only way to the database, for
// what that tells.
func (d *doctor) engine(ctx context.Context, t target) {
	c, err := client.OpenHTTP(t.http)
	if err != nil {
		d.note("http api", failing, err.Error(), "")
		return
	}
	defer c.Close()
	var st client.Status
	bounded(ctx, func(ctx context.Context) { st, err = c.Status(ctx) })
	if err != nil {
		d.note("http api", failing, err.Error(), "")
		return
	}
	d.note("http api", fine, fmt.Sprintf("%s, version %s", t.http.URL, st.Version), "")
	bounded(ctx, func(ctx context.Context) {
		if err := c.Ready(ctx); err != nil {
			d.note("ready", failing, err.Error(), "")
			return
		}
		d.note("ready", fine, "the engine can do its work", "")
	})
	if t.database.DSN != "" {
		return
	}
	d.schema(st.Schema)
	d.note("era", fine, fmt.Sprintf("%d; the engine compares it with the server's", st.Era), "")
	d.rows(ctx, c)
}

// database checks all that a command needs; nil if there is something wrong.
func (d *doctor) database(ctx context.Context, o client.Options) (c client.Client) {
	bounded(ctx, func(ctx context.Context) {
		have, err := migrations.Current(ctx, o.DSN)
		if err != nil {
			d.note("database", failing, err.Error(), "is the server running, and may this user connect?")
			return
		}
		d.note("database", fine, where(o.DSN), "")
		if !d.schema(have) {
			return
		}
		opened, err := client.Open(ctx, o)
		switch {
		case isA[*eventstore.EraMismatchError](err):
			d.note("era", failing, err.Error(), "see with 'daybook era lost' what is gone")
		case isA[*eventstore.SettingsError](err):
			d.note("era", fine, "the log's history is the server's", "")
			d.note("role settings", failing, err.Error(), "")
		case err != nil:
			d.note("database", failing, err.Error(), "")
		default:
			d.note("era", fine, "the log's history is the server's", "")
			d.note("role settings", fine, "as the statements need them", "")
			c = opened
		}
	})
	return c
}

// schema compares versions; false if the database lacks something.
func (d *doctor) schema(have int64) bool {
	switch want := migrations.Latest(); {
	case have == 0:
		d.note("schema", failing, "there is none", "run 'daybook migrate up'")
		return false
	case have < want:
		d.note("schema", failing, fmt.Sprintf("version %d, this binary needs %d", have, want), "run 'daybook migrate up'")
		return false
	case have > want:
		d.note("schema", doubt, fmt.Sprintf("version %d, this binary knows up to %d", have, want), "use a newer daybook")
	default:
		d.note("schema", fine, fmt.Sprintf("version %d", have), "")
	}
	return true
}

// where names the database without a password.
func where(dsn string) string {
	c, err := pgx.ParseConfig(dsn)
	if err != nil {
		return "connected"
	}
	return fmt.Sprintf("%s on %s as %s", c.Database, c.Host, c.User)
}

func (d *doctor) broker(ctx context.Context, o client.Options) {
	if o.NATS == "" {
		d.note("nats", doubt, "not checked", "set NATS_URL to the servers that 'daybook serve' uses")
		return
	}
	nc, err := natsjs.Connect(natsjs.ConnectOptions{URL: o.NATS, CredsFile: o.NATSCreds, Name: "daybook-doctor", Logger: slog.New(slog.DiscardHandler),
		Extra: []nats.Option{nats.RetryOnFailedConnect(false), nats.NoReconnect(), nats.Timeout(checkTimeout)}})
	if err != nil {
		d.note("nats", failing, err.Error(), "is it running, and is NATS_URL right? Workers go on over HTTP meanwhile")
		return
	}
	defer nc.Close()
	d.note("nats", fine, fmt.Sprintf("%s, version %s", nc.ConnectedUrlRedacted(), nc.ConnectedServerVersion()), "")
	js, err := jetstream.New(nc)
	if err != nil {
		d.note("streams", failing, err.Error(), "")
		return
	}
	bounded(ctx, func(ctx context.Context) {
		if _, err := natsjs.Verify(ctx, js, d.topology()); err != nil {
			d.note("streams", failing, err.Error(), "engines make streams that are missing; what differs is for you to decide")
			return
		}
		d.note("streams", fine, "as the engines need them", "")
	})
}

func (d *doctor) topology() natsjs.Topology {
	t := natsjs.ProductionTopology()
	if d.dev() {
		t = natsjs.EmbeddedTopology()
	}
	if d.options.replicas != 0 {
		t.Replicas = d.options.replicas
	}
	t.Lease = d.options.lease
	return t
}
