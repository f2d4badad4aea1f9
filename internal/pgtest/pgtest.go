// Package pgtest gives every test a PostgreSQL database of its own.
//
// A database is a file copy of a template in which the schema has been set up
// before, which takes some twenty milliseconds. Templates live on the server
// under a name made from their content, so that all test processes of a run
// share them.
//
// The server is that of $DAYBOOK_TEST_DATABASE_URL (make test sets it for a
// whole run), else an ephemeral one that ends with the test process. Both have
// fsync off: what is about crashes, dumps and restores uses Durable.
//
// Databases isolate everything but what PostgreSQL keeps per cluster: roles,
// transaction ids, and with them pg_snapshot_xmin. An open write transaction
// in another test's database holds that back, so tests wait for a reader of
// the log instead of asserting at once.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/internal/devpg"
)

// URLVar names the environment variable with the connection string of the
// server for all tests: a superuser of a PostgreSQL 15 or newer.
const URLVar = "DAYBOOK_TEST_DATABASE_URL"

// DB is a test's own database. It is dropped when the test has passed.
type DB struct {
	Name string
	DSN  string // as the superuser that owns it
}

// DSNFor returns a connection string for another role. On servers started
// by this module no role needs a password.
func (db *DB) DSNFor(role string) string { return mustEdit(db.DSN, "", role) }

// Pool connects to the database, as role or if that is empty as its owner.
// The pool is closed at the end of the test.
func (db *DB) Pool(t testing.TB, role string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), mustEdit(db.DSN, "", role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// NewWith returns a database that setup has prepared. Setup runs once for each
// name on a server, on an empty database, and must leave no connection open;
// name must tell all that differs between setups (up to 40 bytes count).
func NewWith(t testing.TB, name string, setup func(ctx context.Context, dsn string) error) *DB {
	t.Helper()
	dsn, err := server()
	if err != nil {
		t.Fatalf("test database server: %v", err)
	}
	return newDB(t, dsn, name, setup)
}

// Empty returns a database with nothing in it.
func Empty(t testing.TB) *DB {
	t.Helper()
	return NewWith(t, "empty", func(context.Context, string) error { return nil })
}

// IgnoreServer is for goleak: the goroutines that hold the server of this test
// process, which has to outlive the tests.
func IgnoreServer() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/daybookhq/daybook/internal/devpg.(*Server).supervise"),
		goleak.IgnoreAnyFunction("github.com/daybookhq/daybook/internal/devpg.trimLog"),
	}
}

var server = sync.OnceValues(func() (string, error) {
	if dsn := os.Getenv(URLVar); dsn != "" {
		if _, err := editDSN(dsn, "postgres", ""); err != nil {
			return "", fmt.Errorf("%s: %w", URLVar, err)
		}
		return dsn, nil
	}
	// Nothing stops it: it follows this process, and its directory goes with it.
	s, err := devpg.Start(context.Background(), devpg.Options{Ephemeral: true, Log: os.Stderr})
	if err != nil {
		return "", err
	}
	return s.DSN("postgres"), nil
})

func newDB(t testing.TB, serverDSN, template string, setup func(ctx context.Context, dsn string) error) *DB {
	t.Helper()
	ctx := t.Context()
	from, err := ensureTemplate(ctx, serverDSN, template, setup)
	if err != nil {
		t.Fatalf("template database %q: %v", template, err)
	}
	name := databaseName(t.Name())
	if err := admin(ctx, serverDSN, "CREATE DATABASE "+quote(name)+" TEMPLATE "+quote(from)+" STRATEGY FILE_COPY"); err != nil {
		t.Fatalf("create test database: %v", err)
	}
	db := &DB{Name: name, DSN: mustEdit(serverDSN, name, "")}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the test's database is kept while its server runs: psql '%s'", db.DSN)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := admin(ctx, serverDSN, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)"); err != nil {
			t.Errorf("drop test database: %v", err)
		}
	})
	return db
}

// databaseName is legible, unique, and within PostgreSQL's 63 bytes.
func databaseName(test string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, test)
	return name[:min(len(name), 50)] + "_" + strings.ToLower(rand.Text()[:12])
}

// admin runs one statement on the server's maintenance database.
func admin(ctx context.Context, serverDSN, sql string) error {
	return withConn(ctx, serverDSN, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, sql)
		return err
	})
}

func withConn(ctx context.Context, serverDSN string, f func(*pgx.Conn) error) error {
	dsn, err := editDSN(serverDSN, "postgres", "")
	if err != nil {
		return err
	}
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	err = f(c)
	return errors.Join(err, c.Close(context.WithoutCancel(ctx)))
}

// editDSN puts another database or role into a connection URL.
func editDSN(dsn, db, role string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", errors.New("not a connection URL of the form postgres://user@host/database")
	}
	if db != "" {
		u.Path = "/" + db
	}
	if role != "" {
		u.User = url.User(role)
	}
	return u.String(), nil
}

func mustEdit(dsn, db, role string) string {
	s, err := editDSN(dsn, db, role)
	if err != nil {
		panic(err) // the server's connection string has been parsed before
	}
	return s
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
