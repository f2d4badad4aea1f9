//go:build linux

package crashtest

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/daybookhq/daybook/internal/natsjs"
)

// natsVar makes the test binary a NATS server on that directory, so that it is a
// process that can be killed.
const (
	natsVar     = "DAYBOOK_CRASHTEST_NATS_DIR"
	natsPortVar = "DAYBOOK_CRASHTEST_NATS_PORT"
)

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

// broker is a NATS server in a process of its own.
type broker struct {
	*process
	t    *testing.T
	dir  string
	port int
}

func startBroker(t *testing.T, dir string) *broker {
	t.Helper()
	b := &broker{t: t, dir: dir, port: freePort(t)}
	b.start()
	return b
}

func (b *broker) start() {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	env := []string{natsVar + "=" + filepath.Join(b.dir, "nats"), natsPortVar + "=" + strconv.Itoa(b.port)}
	b.process = launch(b.t, b.dir, "nats", self, env)
	awaitPort(b.t, b.process, b.port)
}

func (b *broker) url() string { return natsURL(b.port) }

func natsURL(port int) string { return fmt.Sprintf("nats://127.0.0.1:%d", port) }

// wipe takes everything from a server that is not running.
func (b *broker) wipe() {
	b.t.Helper()
	if err := os.RemoveAll(filepath.Join(b.dir, "nats", "jetstream")); err != nil {
		b.t.Fatal(err)
	}
}
