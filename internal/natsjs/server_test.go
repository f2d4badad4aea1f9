package natsjs_test

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
)

func TestSecondProcessOnTheStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), holdStore+"="+dir)
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	if line != "holding\n" {
		t.Fatalf("other process says %q", line)
	}

	_, err = natsjs.StartServer(natsjs.ServerOptions{StoreDir: dir, Logger: natstest.Quiet()})
	var inUse *natsjs.StoreInUseError
	if !errors.As(err, &inUse) {
		t.Fatalf("second server on %s: %v; want a StoreInUseError", dir, err)
	}
	if inUse.PID != other.Process.Pid || !strings.Contains(err.Error(), dir) {
		t.Errorf("%q names neither directory nor process %d", err, other.Process.Pid)
	}

	// A killed process leaves no lock behind.
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	stdin.Close()
	s, err := natsjs.StartServer(natsjs.ServerOptions{StoreDir: dir, Logger: natstest.Quiet()})
	if err != nil {
		t.Fatalf("after the other process was killed: %v", err)
	}
	s.Shutdown()
}

func TestSecondServerInOneProcessIsRefused(t *testing.T) {
	first := natstest.New(t)
	_, err := natsjs.StartServer(natsjs.ServerOptions{StoreDir: first.Dir, Logger: natstest.Quiet()})
	if err == nil || !strings.Contains(err.Error(), "this process itself") {
		t.Errorf("second server: %v", err)
	}
}

func TestOccupiedPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	port := l.Addr().(*net.TCPAddr).Port
	_, err = natsjs.StartServer(natsjs.ServerOptions{StoreDir: dir, Port: port, Logger: natstest.Quiet()})
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()+" is already in use") {
		t.Fatalf("StartServer on %s: %v", l.Addr(), err)
	}
	// The failed start holds nothing: neither store nor server.
	l.Close()
	s, err := natsjs.StartServer(natsjs.ServerOptions{StoreDir: dir, Port: port, Logger: natstest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
}

// Clients that were told the address of a server find the next one there.
func TestServerComesBackOnItsPort(t *testing.T) {
	o := natsjs.ServerOptions{StoreDir: t.TempDir(), Logger: natstest.Quiet()}
	start := func(o natsjs.ServerOptions) *natsjs.Server {
		t.Helper()
		s, err := natsjs.StartServer(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		return s
	}
	s := start(o)
	first := s.ClientURL()
	s.Shutdown()
	s = start(o)
	if got := s.ClientURL(); got != first {
		t.Errorf("came back at %s, was at %s", got, first)
	}
	s.Shutdown()
	l, err := net.Listen("tcp", strings.TrimPrefix(first, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	s = start(o)
	moved := s.ClientURL()
	if moved == first {
		t.Errorf("at %s, which somebody else has", moved)
	}
	s.Shutdown()
	l.Close()
	if got := start(o).ClientURL(); got != moved {
		t.Errorf("came back at %s, was at %s last", got, moved)
	}
}

func TestOnlyLoopback(t *testing.T) {
	for _, host := range []string{"0.0.0.0", "::", "192.0.2.1", "example.org"} {
		s, err := natsjs.StartServer(natsjs.ServerOptions{StoreDir: t.TempDir(), Host: host, Logger: natstest.Quiet()})
		if err == nil {
			s.Shutdown()
			t.Errorf("the server listens on %s without credentials", host)
		}
	}
}

// An in-process connection outlives the server it was made to, and what the store held is there again.
func TestConnectionsFindARestartedServer(t *testing.T) {
	s := natstest.New(t)
	tcp, inner := s.Conn(t), s.InProcess(t)
	js, err := jetstream.New(inner)
	if err != nil {
		t.Fatal(err)
	}
	before, err := natsjs.Ensure(within(t), js, natsjs.EmbeddedTopology())
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	eventually(t, "both connections notice", func() bool { return !tcp.IsConnected() && !inner.IsConnected() })
	if err := s.Health(); err == nil {
		t.Error("a stopped server is healthy")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	natstest.AwaitConnected(t, tcp)
	natstest.AwaitConnected(t, inner)
	if err := s.Health(); err != nil {
		t.Error(err)
	}
	after, err := natsjs.Ensure(within(t), js, natsjs.EmbeddedTopology())
	if err != nil {
		t.Fatal(err)
	}
	if !after.DispatchCreated.Equal(before.DispatchCreated) || len(after.Created) != 0 {
		t.Errorf("the restart changed the streams: %+v, then %+v", before, after)
	}
}

// What is published during an outage must fail and not be sent after it.
func TestConnectionsBufferNothing(t *testing.T) {
	s := natstest.New(t)
	for name, nc := range map[string]*nats.Conn{"tcp": s.Conn(t), "in-process": s.InProcess(t)} {
		s.Stop()
		eventually(t, name+" notices", func() bool { return !nc.IsConnected() })
		if err := nc.Publish("anything", nil); !errors.Is(err, nats.ErrReconnectBufExceeded) {
			t.Errorf("%s: Publish while disconnected: %v", name, err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConnectBeforeTheServerIsThere(t *testing.T) {
	s := natstest.New(t)
	s.Stop()
	nc, err := natsjs.Connect(natsjs.ConnectOptions{URL: s.URL(), Name: "early", Logger: natstest.Quiet()})
	if err != nil {
		t.Fatalf("Connect without a server: %v", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := natsjs.Ensure(within(t), js, natsjs.EmbeddedTopology()); err == nil || !strings.Contains(err.Error(), s.URL()) {
		t.Errorf("Ensure without a server: %v; want the address %s", err, s.URL())
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	natstest.AwaitConnected(t, nc)
}

func TestConnectKeepsPasswordsToItself(t *testing.T) {
	_, err := natsjs.Connect(natsjs.ConnectOptions{URL: "nats://user:s3cret@127.0.0.1:bad"})
	if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "127.0.0.1:bad") {
		t.Errorf("error is %v; want one with the address and without the password", err)
	}
}
