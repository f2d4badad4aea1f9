package crashpoint_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/crashpoint"
	"github.com/daybookhq/daybook/internal/engine"
	"github.com/daybookhq/daybook/internal/natsjs"
)

// The environment of an engine process.
const (
	engineID   = "DAYBOOK_CRASHPOINT_ENGINE"
	engineDSN  = "DAYBOOK_CRASHPOINT_DSN"
	engineNATS = "DAYBOOK_CRASHPOINT_NATS"
)

// topology has leases short enough to wait for, and still within their budget.
// The worker repeats an unanswered request after 5 s, before its lease is over.
func topology() natsjs.Topology {
	t := natsjs.EmbeddedTopology()
	t.Lease = domain.LeaseBudget{
		Publish: time.Second, QueueWait: time.Second, AckWait: time.Second, MaxDeliver: 5, Execution: 5 * time.Second, Complete: time.Second,
		DispatchLease: 12 * time.Second, ExecutionLease: 12 * time.Second,
	}
	return t
}

// runEngine is the main of an engine process. It ends when its standard input
// does, so that it does not outlive the test.
func runEngine() (status int) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	id, log := os.Getenv(engineID), slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := func() error {
		store, err := eventstore.Open(ctx, eventstore.Config{DSN: os.Getenv(engineDSN), Actor: id, Logger: log, OpsConns: 3, LoopConns: 5})
		if err != nil {
			return err
		}
		defer store.Close()
		nc, err := natsjs.Connect(natsjs.ConnectOptions{URL: os.Getenv(engineNATS), Name: id, Logger: log})
		if err != nil {
			return err
		}
		defer nc.Close()
		e, err := engine.New(engine.Config{ID: id, Host: "test", Version: "test", Roles: engine.AllRoles, Store: store, NATS: nc, Topology: topology(), Logger: log})
		if err != nil {
			return err
		}
		if err := e.Prepare(ctx); err != nil {
			// An injected error of a part that Run tries again.
			log.Warn("prepare", "error", err)
		}
		return e.Run(ctx)
	}()
	if err != nil {
		log.Error("engine", "error", err)
		return 1
	}
	return 0
}

// process is an engine process.
type process struct {
	reached chan struct{} // it hit the point it is armed for
	ended   chan struct{}
	err     error // of the process, once it has ended
	stdin   io.Closer
	cmd     *exec.Cmd

	mu   sync.Mutex
	log  []string
	hits map[string]bool // points that it told of
}

// hit reports whether the process told that it came by the point.
func (p *process) hit(point crashpoint.Point) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits[point.String()]
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// startEngine starts an engine process; armed is the value of crashpoint.Var,
// empty for a sound one.
func (w *world) startEngine(t *testing.T, id, armed string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), child+"=engine", engineID+"="+id, engineDSN+"="+w.db.DSNFor("daybook_engine"), engineNATS+"="+w.nats.URL())
	if armed != "" {
		cmd.Env = append(cmd.Env, crashpoint.Var+"="+armed)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{reached: make(chan struct{}), ended: make(chan struct{}), stdin: in, cmd: cmd, hits: map[string]bool{}}
	w.engines = append(w.engines, p)
	point, _, _ := strings.Cut(armed, ":")
	go func() {
		defer close(p.ended)
		once := sync.OnceFunc(func() { close(p.reached) })
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.mu.Lock()
			if at, ok := strings.CutPrefix(lines.Text(), crashpoint.Reported); ok {
				p.hits[at] = true
			} else {
				p.log = append(p.log, lines.Text())
			}
			p.mu.Unlock()
			if armed != "" && lines.Text() == crashpoint.Reported+point {
				once()
			}
		}
		p.err = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT) // it may have been stopped
		p.stop(t)
		if t.Failed() {
			t.Logf("%s %s:\n%s", id, armed, p.logged())
		}
	})
	return p
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log[max(0, len(p.log)-60):], "\n")
}

// stop lets the process end in good order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.stdin.Close()
	p.await(t, p.ended, "the end of the engine")
}

func (p *process) await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s did not come within %s", what, patience)
	}
}
