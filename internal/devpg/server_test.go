//go:build linux || darwin || freebsd

package devpg

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestEphemeral(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Ephemeral: true, Settings: map[string]string{"work_mem": "5MB"}})
	for name, want := range map[string]string{
		"fsync": "off", "synchronous_commit": "off", "listen_addresses": "", "timezone": "UTC", "work_mem": "5MB",
	} {
		if got := query(t, s, "SHOW "+name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done is open after Stop")
	}
	if err := s.Err(); err != nil {
		t.Errorf("Err after Stop: %v", err)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", s.Dir(), err)
	}
}

func TestDurableKeepsData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "a b+c&d", "pg") // made, and any name will do
	s := start(t, Options{Dir: dir})
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		if got := query(t, s, "SHOW "+name); got != "on" {
			t.Errorf("%s = %s", name, got)
		}
	}
	for _, d := range []string{s.socketDir(), s.data()} {
		fi, err := os.Stat(d)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v: others could connect", d, fi.Mode())
		}
	}
	mustExec(t, s, "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (7)")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = start(t, Options{Dir: dir})
	if got := query(t, s, "SELECT n::text FROM kept"); got != "7" {
		t.Errorf("kept %s", got)
	}
}

func TestPostmasterKilled(t *testing.T) {
	t.Parallel()
	dir := seeded(t)
	s := start(t, Options{Dir: dir})
	mustExec(t, s, "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (7)")
	if err := s.Err(); err != nil {
		t.Errorf("Err while it runs: %v", err)
	}
	// A backend that computes does not notice the end of the postmaster, and
	// the next server has to wait for it.
	busy := make(chan error, 1)
	go func() {
		busy <- execSQL(t.Context(), s, "DO $$ BEGIN WHILE clock_timestamp() < now() + interval '2 s' LOOP END LOOP; END $$")
	}()
	defer func() { <-busy }()
	await(t, "a backend is busy", func() bool {
		return query(t, s, "SELECT count(*)::text FROM pg_stat_activity WHERE query LIKE 'DO %' AND state = 'active'") == "1"
	})
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err = %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("Stop of a dead server: %v", err)
	}
	s = start(t, Options{Dir: dir})
	if got := query(t, s, "SELECT n::text FROM kept"); got != "7" {
		t.Errorf("kept %s", got)
	}
}

func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	dir := seeded(t)
	c := startChild(t, os.Args[0], "durable", dir, nil)
	pid, _ := c.ready(t)
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "the server has followed its supervisor", func() bool { return processGone(pid) })
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "database system is shut down") {
		t.Errorf("no clean shutdown in its log:\n%s", log)
	}
	s := start(t, Options{Dir: dir})
	if got := query(t, s, "SELECT n::text FROM kept"); got != "7" {
		t.Errorf("kept %s", got)
	}
}

func TestEphemeralSupervisorKilled(t *testing.T) {
	t.Parallel()
	c := startChild(t, os.Args[0], "ephemeral", "", nil)
	_, dir := c.ready(t)
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, dir+" is removed", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
}

func TestLeftOverServerIsTakenOver(t *testing.T) {
	t.Parallel()
	dir := seeded(t)
	s := start(t, Options{Dir: dir})
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A server whose supervisor was killed, on a system that lets it live.
	orphan := s.command(context.Background(), "postgres", "-D", s.data(), "-k", s.socketDir(), "-c", "listen_addresses=")
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- orphan.Wait() }()
	await(t, "the orphan is ready", func() bool {
		l := readPIDFile(s.data())
		return len(l) >= 8 && strings.TrimSpace(l[7]) == "ready"
	})
	s = start(t, Options{Dir: dir})
	if err := <-ended; err != nil {
		t.Errorf("the orphan was not shut down cleanly: %v", err)
	}
	if s.PID() == orphan.Process.Pid {
		t.Error("still the orphan")
	}
	query(t, s, "SELECT 'alive'")
}

// A server that was killed leaves its number in two files. After a reboot it may
// be any program's.
func TestStalePIDOfAnotherProgram(t *testing.T) {
	t.Parallel()
	startOver(t, func(t *testing.T, id identity) int {
		other := exec.Command("sleep", "600")
		other.SysProcAttr = id.attr() // the server refuses only for a process of its own account
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if processGone(other.Process.Pid) {
				t.Error("the other program was killed")
			}
			_ = other.Process.Kill()
			_ = other.Wait()
		})
		return other.Process.Pid
	})
}

// Where nobody reaps orphans, the number goes on to exist.
func TestServerIsDeadAndNotReaped(t *testing.T) {
	t.Parallel()
	startOver(t, func(t *testing.T, id identity) int {
		dead := exec.Command("sleep", "600")
		dead.SysProcAttr = id.attr()
		if err := dead.Start(); err != nil {
			t.Fatal(err)
		}
		if err := dead.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dead.Wait() })
		await(t, "it is dead", func() bool { return processGone(dead.Process.Pid) })
		return dead.Process.Pid
	})
}

// startOver starts a server over the files of one that was killed, which name
// the process that holder makes.
func startOver(t *testing.T, holder func(*testing.T, identity) int) {
	dir := seeded(t)
	s := start(t, Options{Dir: dir})
	files := map[string][]byte{filepath.Join(s.data(), pidFile): nil, filepath.Join(s.socketDir(), socketLock): nil}
	for name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = b
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := holder(t, s.id)
	uid, gid := s.id.owner()
	for name, b := range files {
		_, rest, _ := strings.Cut(string(b), "\n")
		if err := os.WriteFile(name, []byte(itoa(pid)+"\n"+rest), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(name, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	start(t, Options{Dir: dir})
}

func TestSecondSupervisorIsRefused(t *testing.T) {
	t.Parallel()
	dir := seeded(t)
	start(t, Options{Dir: dir, Ephemeral: true})
	_, err := Start(t.Context(), Options{Dir: dir})
	inUse, ok := errors.AsType[*InUseError](err)
	if !ok || inUse.PID != os.Getpid() {
		t.Errorf("got %v", err)
	}
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := reachable(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "data*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	lock, err := awaitLock(t.Context(), dir)
	if err != nil {
		t.Fatalf("the lock was kept: %v", err)
	}
	_ = lock.Close()
}

func TestLockOfAKilledSupervisorIsAwaited(t *testing.T) {
	t.Parallel()
	dir := reachable(t)
	held, err := takeLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(lockPatience/10, func() { _ = held.Close() })
	lock, err := awaitLock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = lock.Close()
}
