package pgtest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/devpg"
)

// Cluster is a durable server of a test's own: what it has acknowledged
// survives Crash. Starting one takes a second or so.
type Cluster struct {
	*devpg.Server
	opt devpg.Options
}

// Durable starts a server with fsync on, with these settings (as in
// postgresql.conf; may be nil) over those of devpg's durable mode. It ends,
// and its data goes, with the test.
func Durable(t testing.TB, settings map[string]string) *Cluster {
	t.Helper()
	return DurableIn(t, "", settings)
}

// DurableIn is Durable with its data in a directory of the caller's, which stays;
// empty makes one. Its path must be short: it holds a socket.
func DurableIn(t testing.TB, dir string, settings map[string]string) *Cluster {
	t.Helper()
	if dir == "" {
		// Not t.TempDir, whose path holds the test's name.
		made, err := os.MkdirTemp("", "pgtest-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(made) })
		dir = made
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the server's account must get through
		t.Fatal(err)
	}
	c := &Cluster{opt: devpg.Options{Dir: dir, Settings: settings, Log: t.Output()}}
	c.Start(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = c.Stop(ctx) // a crash is not shut down cleanly, and its data is thrown away
	})
	return c
}

// Start starts the server again after a Crash or a Stop. Connection strings
// stay the same.
func (c *Cluster) Start(t testing.TB) {
	t.Helper()
	s, err := devpg.Start(t.Context(), c.opt)
	if err != nil {
		t.Fatalf("durable test server: %v", err)
	}
	c.Server = s
}

// Crash kills the postmaster with SIGKILL and returns when it is gone. Its
// backends may live on until they notice; Start waits for them.
func (c *Cluster) Crash(t testing.TB) {
	t.Helper()
	p, err := os.FindProcess(c.PID())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatalf("kill the postmaster: %v", err)
	}
	<-c.Done()
	if err := c.Stop(t.Context()); err != nil {
		t.Fatalf("release the crashed server's directory: %v", err)
	}
}

// NewWith is the package's NewWith on this server.
func (c *Cluster) NewWith(t testing.TB, name string, setup func(ctx context.Context, dsn string) error) *DB {
	t.Helper()
	return newDB(t, c.DSN("postgres"), name, setup)
}
