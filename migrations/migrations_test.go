package migrations_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/migrations"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()...) }

func TestReplicasMigrateAtOnce(t *testing.T) {
	db := pgtest.Empty(t)
	g, ctx := errgroup.WithContext(t.Context())
	for range 6 {
		g.Go(func() error { return migrations.Up(ctx, db.DSN) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	have, want, err := migrations.Versions(t.Context(), db.DSN)
	if err != nil || have != want || want != migrations.Latest() {
		t.Errorf("schema at %d of %d, newest %d, %v", have, want, migrations.Latest(), err)
	}
	all, err := migrations.Status(t.Context(), db.DSN)
	if err != nil || len(all) == 0 {
		t.Fatal(err)
	}
	for _, m := range all {
		if !m.Done {
			t.Errorf("%s is missing", m.Name)
		}
	}
	current, err := migrations.Current(t.Context(), db.DSNFor("daybook_engine"))
	if err != nil || current != want {
		t.Errorf("the application's role reads version %d, %v", current, err)
	}
}

func TestDatabaseWithoutSchemaIsVersionZero(t *testing.T) {
	db := pgtest.Empty(t)
	if v, err := migrations.Current(t.Context(), db.DSN); err != nil || v != 0 {
		t.Errorf("version %d, %v", v, err)
	}
}

// A file that was released never changes: databases that have it would differ
// from those that get it. SUMS has the checksum of each; a new file adds a line.
func TestReleasedFilesDoNotChange(t *testing.T) {
	f, err := os.Open("SUMS")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	sums := map[string]string{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		sum, name, ok := strings.Cut(sc.Text(), "  ")
		if !ok {
			t.Fatalf("SUMS: %q", sc.Text())
		}
		sums[name] = sum
	}
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		if sums[name] != hex.EncodeToString(sum[:]) {
			t.Errorf("%s is not what SUMS says; if it is new or was never released: sha256sum *.sql > SUMS", name)
		}
		delete(sums, name)
	}
	for name := range sums {
		t.Errorf("%s is gone", name)
	}
}
