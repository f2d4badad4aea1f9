package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/devpg"
	"github.com/daybookhq/daybook/internal/engine"
	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/migrations"
)

type devOptions struct {
	http, level, importFile string
	ephemeral, allowExec    bool
	slots                   int
	lease                   domain.LeaseBudget
}

func newDev(a *app) *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process",
		Long: `Starts a private PostgreSQL (no port, data kept in --data), an embedded NATS server, an
engine, its HTTP port and a worker for the queue "default". Nothing needs to be installed
but PostgreSQL's binaries, and those are fetched where that is possible.

The other commands find it by themselves. Stop it with Ctrl-C: what runs may finish.`,
		Example: `  daybook dev
  daybook dev --import /etc/crontab
  daybook dev --ephemeral --http 127.0.0.1:0`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.dev(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.http, "http", "127.0.0.1:7788", "address of the HTTP API; beyond loopback it needs a token")
	f.BoolVar(&o.ephemeral, "ephemeral", false, "throw the data away at the end")
	f.StringVar(&o.importFile, "import", "", "crontab or jobs file to apply at the start")
	f.BoolVar(&o.allowExec, "allow-exec", true, "run commands of jobs of kind exec")
	f.IntVar(&o.slots, "slots", defaultSlots, "runs at a time")
	f.StringVar(&o.level, "log-level", "warn", "debug, info, warn or error")
	addLease(f, &o.lease)
	return cmd
}

func (a *app) dev(ctx context.Context, o devOptions) (err error) {
	tradeMemory()
	level, err := logLevel(o.level)
	if err != nil {
		return err
	}
	if o.importFile != "" {
		if _, err := a.readImport(o.importFile); err != nil {
			return err
		}
	}
	log := a.newLogger(level)
	topology := natsjs.EmbeddedTopology()
	topology.Lease = o.lease
	if err := topology.Check(); err != nil {
		return usage("%v", err)
	}
	dir, clean, err := a.devDir(o.ephemeral)
	if err != nil {
		return err
	}
	defer clean()
	l, err := listen(ctx, o.http)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	pg := &database{opt: devpg.Options{Dir: filepath.Join(dir, "postgres"), Log: a.err}, log: log}
	if err := pg.start(ctx); err != nil {
		return err
	}
	defer pg.stop()
	if err := pg.prepare(ctx); err != nil {
		return err
	}
	ns, err := natsjs.StartServer(natsjs.ServerOptions{StoreDir: filepath.Join(dir, "nats"), Logger: log})
	if err != nil {
		return err
	}
	defer ns.Shutdown()
	nc, err := natsjs.Connect(natsjs.ConnectOptions{InProcess: ns, Name: "daybook-engine", Logger: log})
	if err != nil {
		return err
	}
	defer nc.Close()
	n, err := openNode(ctx, pg.dsn("daybook_engine"), nc, topology, engine.AllRoles, filepath.Join(dir, retentionDirName), l, log)
	if err != nil {
		return err
	}
	n.localToken, n.ownerToken = rand.Text(), rand.Text()
	d := devFile{PID: os.Getpid(), Database: pg.dsn("daybook_engine"), AdminDatabase: pg.dsn("postgres"), NATS: ns.ClientURL(),
		HTTP: dialable(l.Addr()), Token: n.ownerToken, Data: dir}
	if err := d.write(dir); err != nil {
		n.close()
		return err
	}
	defer func() { _ = os.Remove(filepath.Join(dir, devFileName)) }()
	return a.runDev(ctx, o, n, pg, d, log)
}

// runDev runs the parts and stops them in the order in which they need each
// other: the worker drains while the engine still answers, the engine stops
// while broker and database are still there.
func (a *app) runDev(ctx context.Context, o devOptions, n *node, pg *database, d devFile, log *slog.Logger) error {
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine()
	g, gctx := errgroup.WithContext(engineCtx)
	g.Go(func() error { return n.run(gctx) })
	g.Go(func() error { return pg.supervise(gctx) })
	g.Go(func() error {
		defer stopEngine()
		wctx, stop := context.WithCancel(gctx)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		return builtinWorker(d.NATS, d.HTTP, n.localToken, o.slots, o.allowExec, log).Run(wctx)
	})
	if o.importFile != "" {
		if err := a.importAtStart(ctx, o.importFile, d); err != nil {
			stopEngine()
			return errors.Join(err, g.Wait())
		}
	}
	a.welcome(d, o)
	err := g.Wait()
	if ctx.Err() != nil {
		fmt.Fprintln(a.err, "stopped")
	}
	return err
}

// dialable is the URL under which this machine reaches the address.
func dialable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return "http://" + addr.String()
	}
	return fmt.Sprintf("http://127.0.0.1:%d", tcp.Port)
}

func (a *app) welcome(d devFile, o devOptions) {
	exec := ""
	if !o.allowExec {
		exec = " (commands are not allowed: --allow-exec)"
	}
	data := ""
	if a.data != "" || o.ephemeral {
		data = " --data " + d.Data
	}
	fmt.Fprintf(a.err, `Daybook is running%s. Data is in %s.
  HTTP   %s  (/docs, /readyz, /metrics)
  NATS   %s
  psql   psql '%s'

Try next, in another terminal:
  daybook import crontab FILE --apply%[6]s
  daybook job list%[6]s
  daybook run list%[6]s
Ctrl-C stops it; what runs may finish.
`, exec, d.Data, d.HTTP, d.NATS, d.AdminDatabase, data)
}

// devDir is the data directory, made if need be.
func (a *app) devDir(ephemeral bool) (dir string, clean func(), err error) {
	clean = func() {}
	if ephemeral && a.data == "" {
		if dir, err = os.MkdirTemp("", "daybook-"); err != nil {
			return "", clean, err
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			return "", clean, err
		}
		return dir, func() { _ = os.RemoveAll(dir) }, nil
	}
	if dir, err = filepath.Abs(a.dataDir()); err != nil {
		return "", clean, err
	}
	if ephemeral { // nothing but what this process makes may be thrown away
		if there, err := os.ReadDir(dir); err == nil && len(there) > 0 {
			return "", clean, usage("--ephemeral throws its data away at the end, and %s is not empty: give an empty directory, or none", dir)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", clean, fmt.Errorf("data directory %s: %w: choose another with --data", dir, err)
	}
	if ephemeral {
		clean = func() { _ = os.RemoveAll(dir) }
	}
	return dir, clean, nil
}

// database keeps the private PostgreSQL running.
type database struct {
	opt    devpg.Options
	server *devpg.Server
	log    *slog.Logger
}

func (d *database) start(ctx context.Context) (err error) {
	s, err := devpg.Start(ctx, d.opt)
	if err == nil { // otherwise the old one stays, for stop
		d.server = s
	}
	return err
}

func (d *database) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := d.server.Stop(ctx); err != nil {
		d.log.Warn("PostgreSQL did not stop cleanly; it recovers at the next start", "error", err)
	}
}

const devDatabase = "daybook"

func (d *database) dsn(user string) string { return withUser(d.server.DSN(devDatabase), user) }

// prepare makes the database and brings its schema up to date.
func (d *database) prepare(ctx context.Context) error {
	c, err := pgx.Connect(ctx, d.server.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the private PostgreSQL: %w", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	var there bool
	if err := c.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", devDatabase).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := c.Exec(ctx, "CREATE DATABASE "+devDatabase); err != nil {
			return fmt.Errorf("make the database: %w", err)
		}
	}
	return migrations.Up(ctx, d.dsn("postgres"))
}

// supervise starts the server again when it ends unasked: somebody killed it, or
// it ran out of memory. The engine's loops wait for it meanwhile.
func (d *database) supervise(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.server.Done():
		}
		if ctx.Err() != nil {
			return nil
		}
		d.log.ErrorContext(ctx, "PostgreSQL ended unasked and is started again", "error", d.server.Err())
		_ = d.server.Stop(context.WithoutCancel(ctx))
		for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
			err := d.start(ctx)
			if err == nil {
				break
			}
			d.log.ErrorContext(ctx, "PostgreSQL does not start", "error", err)
			select {
			case <-ctx.Done():
				return nil //nolint:nilerr // told to stop meanwhile
			case <-time.After(pause):
			}
		}
	}
}
