package pgtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, IgnoreServer()...) }

func scalar[T any](t *testing.T, dsn, sql string) (v T) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func execute(ctx context.Context, dsn, sql string) error {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, sql)
	return errors.Join(err, c.Close(context.WithoutCancel(ctx)))
}

// unique keeps templates of this run apart on a server that outlives it.
func unique(name string) string { return databaseName(name) }

func TestEachTestHasItsOwn(t *testing.T) {
	var runs atomic.Int32
	name := unique("own")
	setup := func(ctx context.Context, dsn string) error {
		runs.Add(1)
		return execute(ctx, dsn, "CREATE TABLE jobs (n int); INSERT INTO jobs VALUES (1)")
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			t.Run("", func(t *testing.T) {
				db := NewWith(t, name, setup)
				if err := execute(t.Context(), db.DSN, "INSERT INTO jobs VALUES (2)"); err != nil {
					t.Error(err)
					return
				}
				if n := scalar[int](t, db.DSN, "SELECT count(*) FROM jobs"); n != 2 {
					t.Errorf("%d rows, want 2: another test's are among them", n)
				}
			})
		})
	}
	wg.Wait()
	if n := runs.Load(); n != 1 {
		t.Errorf("set up %d times", n)
	}
}

func TestDroppedAtTheEnd(t *testing.T) {
	var db *DB
	t.Run("inner", func(t *testing.T) {
		db = Empty(t)
		pool := db.Pool(t, "")
		if err := pool.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		// A connection that nobody closed must not keep the database.
		c, err := pgx.Connect(t.Context(), db.DSN)
		if err != nil {
			t.Fatal(err)
		}
		_ = c
	})
	dsn := mustEdit(db.DSN, "postgres", "")
	if n := scalar[int](t, dsn, "SELECT count(*) FROM pg_database WHERE datname = '"+db.Name+"'"); n != 0 {
		t.Error("still there")
	}
}

func TestRoles(t *testing.T) {
	name := unique("roles")
	role := strings.ReplaceAll(name, "roles", "clerk")
	db := NewWith(t, name, func(ctx context.Context, dsn string) error {
		return execute(ctx, dsn, `CREATE ROLE `+role+` LOGIN; CREATE TABLE t (n int); GRANT SELECT ON t TO `+role)
	})
	t.Cleanup(func() { // roles belong to the server, not to the database
		_ = execute(context.Background(), db.DSN, "DROP OWNED BY "+role)
	})
	if got := scalar[string](t, db.DSNFor(role), "SELECT current_user::text"); got != role {
		t.Errorf("connected as %s", got)
	}
	if _, err := db.Pool(t, role).Exec(t.Context(), "INSERT INTO t VALUES (1)"); err == nil {
		t.Error("a role without the right inserted")
	}
}

func TestFailedSetupLeavesNothing(t *testing.T) {
	dsn, err := server()
	if err != nil {
		t.Fatal(err)
	}
	name := unique("broken")
	_, err = makeTemplate(t.Context(), dsn, name, func(ctx context.Context, dsn string) error {
		return execute(ctx, dsn, "CREATE TABLE half (n int); SELECT 1/0")
	})
	if err == nil || !strings.Contains(err.Error(), "division by zero") {
		t.Fatalf("got %v", err)
	}
	if n := scalar[int](t, mustEdit(dsn, "postgres", ""), "SELECT count(*) FROM pg_database WHERE datname LIKE 'template_"+name+"%'"); n != 0 {
		t.Error("left a database")
	}
}

// failingVar makes TestKeptOnFailure fail on purpose.
const failingVar = "PGTEST_FAIL"

func TestKeptOnFailure(t *testing.T) {
	if os.Getenv(failingVar) != "" {
		Empty(t)
		t.Fatal("on purpose")
	}
	dsn, err := server()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKeptOnFailure$")
	cmd.Env = append(os.Environ(), failingVar+"=1", URLVar+"="+dsn)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("did not fail")
	}
	_, rest, ok := strings.Cut(string(out), "psql '")
	kept, _, _ := strings.Cut(rest, "'")
	if !ok {
		t.Fatalf("printed no connection string:\n%s", out)
	}
	name := scalar[string](t, kept, "SELECT current_database()::text")
	if err := admin(t.Context(), dsn, "DROP DATABASE "+quote(name)+" WITH (FORCE)"); err != nil {
		t.Error(err)
	}
}

func TestDatabaseName(t *testing.T) {
	a, b := databaseName("TestClaim/skips_locked#01"), databaseName(strings.Repeat("Ä", 60))
	if !strings.HasPrefix(a, "testclaim_skips_locked_01_") {
		t.Errorf("%q", a)
	}
	if len(b) > 63 {
		t.Errorf("%q has %d bytes", b, len(b))
	}
}

func TestDurableSurvivesACrash(t *testing.T) {
	c := Durable(t, map[string]string{"work_mem": "5MB"})
	db := c.NewWith(t, "durable", func(ctx context.Context, dsn string) error {
		return execute(ctx, dsn, "CREATE TABLE kept (n int)")
	})
	if got := scalar[string](t, db.DSN, "SELECT current_setting('fsync') || current_setting('work_mem')"); got != "on5MB" {
		t.Errorf("settings: %s", got)
	}
	if err := execute(t.Context(), db.DSN, "INSERT INTO kept VALUES (7)"); err != nil {
		t.Fatal(err)
	}
	c.Crash(t)
	if err := execute(t.Context(), db.DSN, "SELECT 1"); err == nil {
		t.Fatal("still up")
	}
	c.Start(t)
	if n := scalar[int](t, db.DSN, "SELECT n FROM kept"); n != 7 {
		t.Errorf("kept %d", n)
	}
}

func TestSchema(t *testing.T) {
	db := New(t)
	if got := scalar[string](t, db.DSNFor("daybook_engine"), "SELECT current_setting('enable_seqscan')"); got != "off" {
		t.Errorf("the engine's role has enable_seqscan = %s", got)
	}
	if n := scalar[int](t, db.DSN, "SELECT count(*) FROM events"); n != 0 {
		t.Errorf("%d events in a new database", n)
	}
}
