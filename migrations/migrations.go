// Package migrations holds the database schema as numbered files and applies
// them. Files are forward only: one that was released never changes.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver that goose uses
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// FS holds the migration files.
//
//go:embed *.sql
var FS embed.FS

// Applied is one migration and whether the database has it.
type Applied struct {
	Version int64
	Name    string
	Done    bool
}

// Up applies what is missing. Any number of processes may call it at once: one
// applies, the others wait (they poll a try-lock; a blocking lock would deadlock
// with CREATE INDEX CONCURRENTLY). The connection must be direct, not through a
// pooler in transaction mode, and its user must own the tables.
func Up(ctx context.Context, dsn string) error {
	return with(dsn, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		if err != nil {
			return fmt.Errorf("apply migrations: %w", err)
		}
		return nil
	})
}

// Status lists all migrations that this binary knows, oldest first.
func Status(ctx context.Context, dsn string) ([]Applied, error) {
	var out []Applied
	err := with(dsn, func(p *goose.Provider) error {
		all, err := p.Status(ctx)
		if err != nil {
			return fmt.Errorf("read migration status: %w", err)
		}
		for _, s := range all {
			out = append(out, Applied{Version: s.Source.Version, Name: path.Base(s.Source.Path), Done: s.State == goose.StateApplied})
		}
		return nil
	})
	return out, err
}

// Latest is the newest version this binary knows.
func Latest() int64 {
	files, err := fs.Glob(FS, "*.sql")
	if err != nil || len(files) == 0 {
		return 0
	}
	slices.Sort(files)
	var v int64
	number, _, _ := strings.Cut(files[len(files)-1], "_")
	if _, err := fmt.Sscanf(number, "%d", &v); err != nil {
		return 0
	}
	return v
}

// Versions gives the newest version the database has, and the newest this
// binary knows. A database without the schema has version 0.
func Versions(ctx context.Context, dsn string) (have, want int64, err error) {
	err = with(dsn, func(p *goose.Provider) error {
		have, want, err = p.GetVersions(ctx)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("read schema version: %w", err)
	}
	return have, want, nil
}

// Current is the newest version that the database has, read as the application's
// role; 0 without the schema.
func Current(ctx context.Context, dsn string) (v int64, err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return 0, fmt.Errorf("connect to database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	err = conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&v)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42P01" {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return v, nil
}

func with(dsn string, use func(*goose.Provider) error) (err error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	const everySecond, fiveMinutes = 1, 300
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(everySecond, fiveMinutes))
	if err != nil {
		return fmt.Errorf("make migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, FS, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("load migrations: %w", err)
	}
	return use(p)
}
