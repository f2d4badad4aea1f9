package main

import (
	"cmp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/engine"
	"github.com/daybookhq/daybook/internal/natsjs"
)

func newServe(a *app) *cobra.Command {
	var o struct {
		database, nats, creds, http, roles, level, retentionDir string
		replicas                                                int
		lease                                                   domain.LeaseBudget
	}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run an engine replica",
		Long: `Runs one of any number of replicas over one PostgreSQL (DATABASE_URL) and one NATS
(NATS_URL). They need not know each other. The database user is daybook_engine, or one
with its settings; 'daybook migrate up' makes the schema and the role.`,
		Example: `  DATABASE_URL=postgres://daybook_engine@db/daybook NATS_URL=nats://n1:4222,nats://n2:4222 daybook serve
  daybook serve --roles relay,projections --http 127.0.0.1:7789`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			tradeMemory()
			ctx := cmd.Context()
			level, err := logLevel(o.level)
			if err != nil {
				return err
			}
			log := a.newLogger(level)
			dsn := cmp.Or(o.database, a.firstEnv("DATABASE_URL"))
			url := cmp.Or(o.nats, a.firstEnv("NATS_URL"))
			if dsn == "" && a.firstEnv("PGHOST", "PGDATABASE", "PGSERVICE") == "" {
				return usage("no database: set DATABASE_URL (or PGHOST and the like)")
			}
			if url == "" {
				return usage("no NATS server: set NATS_URL, for example nats://127.0.0.1:4222")
			}
			roles, err := parseRoles(o.roles)
			if err != nil {
				return err
			}
			topology := natsjs.ProductionTopology()
			topology.Replicas, topology.Lease = o.replicas, o.lease
			if err := topology.Check(); err != nil {
				return usage("%v", err)
			}
			l, err := listen(ctx, o.http)
			if err != nil {
				return err
			}
			nc, err := natsjs.Connect(natsjs.ConnectOptions{URL: url, CredsFile: cmp.Or(o.creds, a.firstEnv("NATS_CREDS")), Name: "daybook-engine", Logger: log})
			if err != nil {
				_ = l.Close()
				return err
			}
			defer nc.Close()
			n, err := untilThere(ctx, log, func() (*node, error) { return openNode(ctx, dsn, nc, topology, roles, o.retentionDir, l, log) })
			if err != nil {
				_ = l.Close()
				if ctx.Err() != nil {
					return nil // told to stop while it waited
				}
				return err
			}
			log.InfoContext(ctx, "engine is running", "http", "http://"+l.Addr().String(), "roles", roles.String(), "version", version())
			err = n.run(ctx)
			flush(nc.FlushTimeout)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.database, "database-url", "", "PostgreSQL connection string (DATABASE_URL)")
	f.StringVar(&o.nats, "nats-url", "", "NATS servers, separated by commas (NATS_URL)")
	f.StringVar(&o.creds, "nats-creds", "", "NATS credentials file (NATS_CREDS)")
	f.StringVar(&o.http, "http", "127.0.0.1:7788", "address of the HTTP API; beyond loopback it needs a token")
	f.StringVar(&o.roles, "roles", "engine,relay,projections,feed,api", "parts of the engine to run here")
	f.IntVar(&o.replicas, "nats-replicas", 3, "replicas of the streams: 1 for a single NATS server, 3 or 5 in a cluster")
	addLease(f, &o.lease)
	f.StringVar(&o.retentionDir, "retention-dir", "", "directory that months of runs are exported to before the log lets go of them; without it, it lets go of none")
	f.StringVar(&o.level, "log-level", "info", "debug, info, warn or error")
	return cmd
}

func parseRoles(s string) (engine.Roles, error) {
	var r engine.Roles
	for name := range strings.SplitSeq(s, ",") {
		switch strings.TrimSpace(name) {
		case "engine":
			r.Engine = true
		case "relay":
			r.Relay = true
		case "projections":
			r.Projections = true
		case "feed":
			r.Feed = true
		case "api":
			r.API = true
		default:
			return r, usage("--roles %s: %q is none of engine, relay, projections, feed, api", s, name)
		}
	}
	return r, nil
}

// flush gives the last replies a moment to leave.
func flush(f func(time.Duration) error) { _ = f(2 * time.Second) }
