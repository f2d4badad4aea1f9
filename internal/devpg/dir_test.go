//go:build linux || darwin || freebsd

package devpg

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestRefusedDirectories(t *testing.T) {
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		filepath.Join(t.TempDir(), strings.Repeat("x", 100)): "too long by",
		filepath.Join(t.TempDir(), "a,b"):                    "comma",
		open:                                                 "written by everyone",
		filepath.Join(file, "pg"):                            "a file is in the way",
	} {
		_, err := Start(t.Context(), Options{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", dir, err, want)
		}
	}
}

func TestDataOfAnotherMajor(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "data-9"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data-9", "PG_VERSION"), []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{Dir: dir})
	if e, ok := errors.AsType[*MajorError](err); !ok || e.Have != 9 || e.Binary < MinMajor {
		t.Fatalf("got %v", err)
	}
	if _, err := takeLock(dir); err != nil {
		t.Errorf("the refused start kept the lock: %v", err)
	}
}

func TestDataUnderWrongName(t *testing.T) {
	t.Parallel()
	dir := seeded(t)
	s := start(t, Options{Dir: dir})
	data := s.data()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("14\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "made by PostgreSQL 14") {
		t.Errorf("got %v", err)
	}
}

func TestSweep(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	make := func(name string, files ...string) string {
		dir := filepath.Join(base, throwAwayPrefix()+name)
		if err := os.MkdirAll(filepath.Join(dir, "data-15"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	dead := make("dead", lockName)
	held := make("held", lockName)
	fresh := make("fresh")
	halfMade := filepath.Join(base, throwAwayPrefix()+"half")
	if err := os.Mkdir(halfMade, 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(halfMade, old, old); err != nil {
		t.Fatal(err)
	}
	lock, err := takeLock(held)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()

	sweep(t.Context())
	for dir, want := range map[string]bool{dead: false, held: true, fresh: true, halfMade: false} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: kept %v, want %v", filepath.Base(dir), err == nil, want)
		}
	}
}

func TestLogIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	f, err := openLog(name)
	if err != nil {
		t.Fatal(err)
	}
	write := func(s string) {
		t.Helper()
		if _, err := f.WriteString(s); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	write("second\n")
	if err := trimOnce(name, 100); err != nil {
		t.Fatal(err)
	}
	if err := trimOnce(name, 7); err != nil {
		t.Fatal(err)
	}
	write("third\n")
	expect := func(name, want string) {
		t.Helper()
		if b, err := os.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s holds %q, %v; want %q", filepath.Base(name), b, err, want)
		}
	}
	expect(name, "third\n")
	expect(name+oldSuffix, "second\n")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = openLog(name); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	expect(name, "")
	expect(name+oldSuffix, "third\n")
}

func TestWatchdogStopsItsServer(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Dir: seeded(t)})
	away := filepath.Join(t.TempDir(), "away")
	if err := os.MkdirAll(filepath.Join(away, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := startWatchdog("INT", s.PID(), away)
	if w == nil {
		t.Fatal("no watchdog")
	}
	defer w.end()
	_ = w.input.Close() // as the kernel does when the supervisor dies
	<-s.Done()
	await(t, "the directory is gone", func() bool {
		_, err := os.Stat(away)
		return errors.Is(err, os.ErrNotExist)
	})
}
