//go:build linux

package proctest

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/pgtest"
)

// Program is the path of the program under test. The first call builds it.
func Program(t testing.TB) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var binDir string // made by the first call of program

var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "daybook-bin-")
	if err != nil {
		return "", err
	}
	binDir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // other accounts run it, too
		return "", err
	}
	path := filepath.Join(dir, "daybook")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "github.com/daybookhq/daybook/cmd/daybook")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program under test: %w\n%s", err, out)
	}
	return path, nil
})

// A test binary with these in its environment is a NATS server.
const (
	natsDirVar  = "DAYBOOK_PROCTEST_NATS_DIR"
	natsPortVar = "DAYBOOK_PROCTEST_NATS_PORT"
)

// Main is for TestMain: it runs the tests, looks for goroutines that they left,
// and removes the program.
func Main(m *testing.M) {
	BeNATS()
	code := m.Run()
	if binDir != "" {
		_ = os.RemoveAll(binDir)
	}
	if code == 0 {
		if err := goleak.Find(pgtest.IgnoreServer()...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// BeNATS makes this process a NATS server if [StartNATS] started it as one, and
// does not return then. It is for a TestMain of its own.
func BeNATS() {
	if dir := os.Getenv(natsDirVar); dir != "" {
		os.Exit(serveNATS(dir))
	}
}

func serveNATS(dir string) int {
	port, err := strconv.Atoi(os.Getenv(natsPortVar))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := natsjs.StartServer(natsjs.ServerOptions{StoreDir: dir, Port: port, Logger: log, MaxStore: 16 << 30})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	fmt.Fprintln(os.Stderr, "listening") // who stops it waits for a word
	<-stop
	s.Shutdown()
	return 0
}

// NATS is a NATS server in a process of its own. Its address stays the same over
// Start.
type NATS struct {
	*Process
	Store string // directory

	t    testing.TB
	dir  string
	port int
}

// StartNATS starts a server with its store in dir.
func StartNATS(t testing.TB, dir string) *NATS {
	t.Helper()
	n := &NATS{t: t, dir: dir, Store: filepath.Join(dir, "nats"), port: FreePort(t)}
	n.Start()
	return n
}

// Start starts the server again after it was ended.
func (n *NATS) Start() {
	n.t.Helper()
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	n.Process = Launch(n.t, n.dir, "nats", self, []string{natsDirVar + "=" + n.Store, natsPortVar + "=" + strconv.Itoa(n.port)})
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port))
	Await(n.t, "NATS listens", []*Process{n.Process}, func() (bool, string) {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return false, err.Error()
		}
		return c.Close() == nil, ""
	})
}

// Wipe takes everything from a server that is not running.
func (n *NATS) Wipe() {
	n.t.Helper()
	if err := os.RemoveAll(filepath.Join(n.Store, "jetstream")); err != nil {
		n.t.Fatal(err)
	}
}

// Port is where it listens.
func (n *NATS) Port() int { return n.port }

// URL is where clients connect.
func (n *NATS) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", n.port) }

// Site is where the processes of a deployment find one another.
type Site struct {
	Dir   string // of their logs
	DSN   string // of the engines
	NATS  *NATS
	Lease string // as --lease takes it; empty: the defaults
}

// Engine starts an engine replica. One that is started again may have its old URL.
func (s Site) Engine(t testing.TB, name, url string) *Process {
	t.Helper()
	url = cmp.Or(url, fmt.Sprintf("http://127.0.0.1:%d", FreePort(t)))
	args := []string{"serve", "--nats-replicas", "1", "--http", url[len("http://"):]}
	if s.Lease != "" {
		args = append(args, "--lease", s.Lease)
	}
	p := Launch(t, s.Dir, name, Program(t), []string{"DATABASE_URL=" + s.DSN, "NATS_URL=" + s.NATS.URL()}, args...)
	p.URL = url
	return p
}

// Worker starts a worker that executes commands.
func (s Site) Worker(t testing.TB, name, url string, slots int) *Process {
	t.Helper()
	env := []string{"NATS_URL=" + s.NATS.URL()}
	if url != "" {
		env = append(env, "DAYBOOK_URL="+url)
	}
	return Launch(t, s.Dir, name, Program(t), env, "worker", "--allow-exec", "--slots", strconv.Itoa(slots))
}
