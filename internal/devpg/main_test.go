//go:build linux || darwin || freebsd

package devpg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// childVar makes the test binary a supervisor instead: its value says which.
const childVar = "DEVPG_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childVar); mode != "" {
		supervise(mode)
		return
	}
	// In memory where there is room: what is tested is not the disk.
	if free, err := freeBytes(memoryDir); err == nil && free > memoryWanted {
		_ = os.Setenv("TMPDIR", memoryDir)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(seedDir)
		os.Exit(code)
	}))
}

// supervise starts a server, commits a row, tells about it in one line, and
// waits for its input to end or for its death.
func supervise(mode string) {
	ctx := context.Background()
	s, err := Start(ctx, Options{Dir: os.Getenv(childVar + "_DIR"), Ephemeral: mode == "ephemeral", Log: os.Stderr})
	if err == nil {
		err = execSQL(ctx, s, "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (7)")
	}
	if err != nil {
		fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
	fmt.Println("ready", s.PID(), s.Dir())
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := s.Stop(ctx); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
}

// startChild runs the test binary (or a copy of it) as a supervisor.
func startChild(t *testing.T, binary, mode, dir string, attr *syscall.SysProcAttr) *child {
	t.Helper()
	c := &child{cmd: exec.Command(binary)}
	c.cmd.Env = append(os.Environ(), childVar+"="+mode, childVar+"_DIR="+dir)
	c.cmd.SysProcAttr = attr
	c.cmd.Dir = filepath.Dir(binary)
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(stdout)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.stdin.Close()
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	return c
}

// ready waits until the child's server is up.
func (c *child) ready(t *testing.T) (pid int, dir string) {
	t.Helper()
	for c.out.Scan() {
		if n, _ := fmt.Sscanf(c.out.Text(), "ready %d %s", &pid, &dir); n == 2 {
			return pid, dir
		}
		t.Logf("child: %s", c.out.Text())
	}
	t.Fatal("the child ended before its server was ready")
	return 0, ""
}

func start(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Log == nil {
		o.Log = testLog{t}
	}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func execSQL(ctx context.Context, s *Server, sql ...string) error {
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return err
	}
	for _, q := range sql {
		if _, e := c.Exec(ctx, q); e != nil {
			err = e
			break
		}
	}
	return errors.Join(err, c.Close(ctx))
}

func mustExec(t *testing.T, s *Server, sql ...string) {
	t.Helper()
	if err := execSQL(t.Context(), s, sql...); err != nil {
		t.Fatal(err)
	}
}

func query(t *testing.T, s *Server, sql string) (v string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

var seedDir string

var seed = sync.OnceValue(func() error {
	var err error
	if seedDir, err = os.MkdirTemp("", "devpg-seed-"); err != nil {
		return err
	}
	if err := os.Chmod(seedDir, 0o755); err != nil {
		return err
	}
	s, err := Start(context.Background(), Options{Dir: seedDir})
	if err != nil {
		return err
	}
	return s.Stop(context.Background())
})

// seeded returns a directory in which a server has run before: a copy, since
// initdb is most of the time that a new one takes.
func seeded(t *testing.T) string {
	t.Helper()
	if err := seed(); err != nil {
		t.Fatal(err)
	}
	dir := reachable(t)
	if out, err := exec.Command("cp", "-a", seedDir+"/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
	return dir
}

// await polls until ok, or fails after a time that only a broken program needs.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		if err := pause(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

func processGone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	_, err := commandLine(pid)
	return errors.Is(err, os.ErrNotExist)
}

// reachable is a directory that other accounts can pass through.
func reachable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "devpg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// copyOfTest copies the test binary to where any account can run it. A program
// that is forked meanwhile would hold the copy open for writing, and it could
// not be run until that is over.
func copyOfTest(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(reachable(t), "devpg.test")
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(name, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}
