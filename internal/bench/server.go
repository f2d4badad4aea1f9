package bench

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/internal/devpg"
	"github.com/daybookhq/daybook/migrations"
)

// lab is the place of measurements: a PostgreSQL server and a directory.
type lab struct {
	o          Options
	dir        string
	server     *devpg.Server // nil: it is somebody else's
	dsn        string        // of a superuser
	postmaster int           // 0: not on this machine
	Machine    Machine
	settings   map[string]string
	databases  int
}

// serverSettings differ from those of `daybook dev` in memory, of which a server
// that matters has more, and in the distance of checkpoints.
var serverSettings = map[string]string{"shared_buffers": "1GB", "max_wal_size": "4GB"}

// openLab starts a server with fsync on, or goes to the one it is given.
func openLab(ctx context.Context, o Options) (l *lab, err error) {
	l = &lab{o: o, dsn: o.Server}
	if l.dir, err = os.MkdirTemp(o.Dir, "daybook-bench-"); err != nil {
		return nil, fmt.Errorf("directory for the measurement: %w", err)
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := os.Chmod(l.dir, 0o755); err != nil { // the account that root steps down to must get through
		return nil, err
	}
	if l.dsn == "" {
		o.Say("starting a private PostgreSQL with fsync on in %s", l.dir)
		l.server, err = devpg.Start(ctx, devpg.Options{Dir: filepath.Join(l.dir, "postgres"), Settings: serverSettings})
		if err != nil {
			return nil, err
		}
		l.dsn = l.server.DSN("postgres")
	}
	c, err := pgx.Connect(ctx, l.dsn)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	l.postmaster = Postmaster(ctx, c)
	l.Machine, l.settings, err = describe(ctx, c)
	return l, err
}

func (l *lab) close() {
	if l.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = l.server.Stop(ctx) // thrown away either way
	}
	_ = os.RemoveAll(l.dir)
}

func (l *lab) report(name string, rounds int, version string) Report {
	return Report{Bench: name, Machine: l.Machine, Settings: Settings{PostgreSQL: l.settings, Slots: l.o.Slots, Private: l.server != nil, Rounds: rounds, Daybook: version}}
}

// database makes a database with Daybook's schema, or an empty one.
func (l *lab) database(ctx context.Context, schema bool) (dsn string, drop func(), err error) {
	l.databases++
	name := fmt.Sprintf("daybook_bench_%d_%d", os.Getpid(), l.databases)
	if err := l.admin(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, fmt.Errorf("make a database: %w", err)
	}
	drop = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_ = l.admin(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") // nobody looks at it again
	}
	dsn = edit(l.dsn, name, "")
	if schema {
		if err := migrations.Up(ctx, dsn); err != nil {
			drop()
			return "", nil, err
		}
	}
	return dsn, drop, nil
}

func (l *lab) admin(ctx context.Context, statements ...string) error {
	return execAll(ctx, l.dsn, statements...)
}

// execAll runs statements, each in a transaction of its own.
func execAll(ctx context.Context, dsn string, statements ...string) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for _, s := range statements {
		if _, err := c.Exec(ctx, s); err != nil {
			return fmt.Errorf("%.60s: %w", s, err)
		}
	}
	return nil
}

// edit puts another database and user into a connection URL; empty keeps what is there.
func edit(dsn, database, user string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn
	}
	if database != "" {
		u.Path = "/" + database
	}
	if user != "" {
		u.User = url.User(user)
	}
	return u.String()
}
