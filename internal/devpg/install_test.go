package devpg

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMissingBinaries(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("PG_BINDIR", "")
	_, err := findBinDirs(t.Context(), nil)
	if !errors.Is(err, ErrNoBinaries) {
		t.Fatalf("got %v", err)
	}
	for _, way := range []string{"apt-get install postgresql", "brew install postgresql@17", "PG_BINDIR=", "DATABASE_URL="} {
		if !strings.Contains(err.Error(), way) {
			t.Errorf("the message does not name %q", way)
		}
	}
	empty := t.TempDir()
	t.Setenv("PG_BINDIR", empty)
	if _, err := FindBinDir(); err == nil || !strings.Contains(err.Error(), "PG_BINDIR="+empty) {
		t.Errorf("got %v", err)
	}
	if _, err := Start(t.Context(), Options{Dir: t.TempDir(), Log: t.Output()}); err == nil || !strings.Contains(err.Error(), "PG_BINDIR="+empty) {
		t.Errorf("got %v", err)
	}
}

func TestNewestPackagedVersionWins(t *testing.T) {
	t.Setenv("PG_BINDIR", "")
	t.Setenv("PATH", t.TempDir())
	root := t.TempDir()
	bin := func(path string) string {
		dir := filepath.Join(root, path)
		for _, f := range []string{"initdb", "postgres"} {
			script(t, filepath.Join(dir, f), "exit 1")
		}
		return dir
	}
	v15, v17, v16 := bin("usr/lib/postgresql/15/bin"), bin("usr/pgsql-17/bin"), bin("opt/postgresql@16/bin")
	_ = os.MkdirAll(filepath.Join(root, "usr/lib/postgresql/18/bin"), 0o755) // client only
	got, err := findBinDirs(t.Context(), []string{root + "/usr/lib/postgresql/*/bin", root + "/usr/pgsql-*/bin", root + "/opt/postgresql*/bin"})
	if want := []string{v17, v16, v15}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestInstallingIsRefused(t *testing.T) {
	if _, err := install(t.Context(), nil); !errors.Is(err, ErrNoBinaries) {
		t.Errorf("with nobody to tell: %v", err)
	}
	t.Setenv("DAYBOOK_PG_INSTALL", "never")
	if _, err := install(t.Context(), t.Output()); !errors.Is(err, ErrNoBinaries) || !strings.Contains(err.Error(), "DAYBOOK_PG_INSTALL") {
		t.Errorf("forbidden: %v", err)
	}
	t.Setenv("DAYBOOK_PG_INSTALL", "no")
	if _, err := install(t.Context(), t.Output()); err == nil || !strings.Contains(err.Error(), "the only value") {
		t.Errorf("mistyped: %v", err)
	}
}

// script writes an executable shell script.
func script(t *testing.T, name, body string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestNPMLinks(t *testing.T) {
	pkg := t.TempDir()
	lib := filepath.Join(pkg, "native", "lib")
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lib, "libx.so.1.2"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	list := func(json string) {
		if err := os.WriteFile(filepath.Join(pkg, "native", "pg-symlinks.json"), []byte(json), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list(`[{"source":"native/lib/libx.so.1.2","target":"native/lib/libx.so"}]`)
	for range 2 { // repeating is harmless
		if err := linkLibraries(pkg); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.Readlink(filepath.Join(lib, "libx.so")); err != nil || got != "libx.so.1.2" {
		t.Errorf("link to %q, %v", got, err)
	}
	for _, bad := range []string{
		`[{"source":"../../etc/passwd","target":"native/lib/y"}]`,
		`[{"source":"native/lib/libx.so.1.2","target":"../y"}]`,
		`[{"source":"/etc/passwd","target":"native/lib/y"}]`,
	} {
		list(bad)
		if err := linkLibraries(pkg); err == nil {
			t.Errorf("accepted %s", bad)
		}
	}
}

func TestAptPlan(t *testing.T) {
	const plan = `NOTE: This is only a simulation!
Inst libpq5 (15.1 Debian:12 [amd64])
Inst perl (5.36 Debian:12 [amd64])
Inst libjson-perl (4 Debian:12 [all])
Inst libllvm14 (1:14 Debian:12 [amd64])
Inst postgresql-client-common (248 Debian:12 [all])
Inst postgresql-client-15 (15.1 Debian:12 [amd64])
Inst postgresql-15 (15.1 Debian:12 [amd64])
Conf libpq5 (15.1 Debian:12 [amd64])
`
	got := neededPackages("postgresql-15", plan)
	if want := []string{"postgresql-15", "libpq5", "postgresql-client-15"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMainClusterIsForbidden(t *testing.T) {
	name := filepath.Join(t.TempDir(), "common", "createcluster.conf")
	if err := forbidMainCluster(name); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(name); err != nil || !strings.Contains(string(b), "create_main_cluster = false") {
		t.Errorf("%q, %v", b, err)
	}
	if err := os.WriteFile(name, []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := forbidMainCluster(name); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(name); string(b) != "theirs" {
		t.Errorf("overwritten: %q", b)
	}
}
