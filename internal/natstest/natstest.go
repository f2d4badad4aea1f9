// Package natstest gives tests a real NATS server with JetStream, in this process and on loopback.
package natstest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/natsjs"
)

// connectTimeout is far above what a loopback server needs; a test that reaches it has failed.
const connectTimeout = 30 * time.Second

// Server is a NATS server that ends with its test.
type Server struct {
	*natsjs.Server
	Dir string // store directory
}

// New starts a server on a random port with a store of its own.
func New(t testing.TB) *Server {
	t.Helper()
	dir := t.TempDir()
	s, err := natsjs.StartServer(natsjs.ServerOptions{StoreDir: dir, Logger: Quiet()})
	if err != nil {
		t.Fatalf("start NATS server: %v", err)
	}
	t.Cleanup(s.Shutdown)
	return &Server{Server: s, Dir: dir}
}

// URL is the server's address over TCP. It stays the same over Stop and Restart.
func (s *Server) URL() string { return s.ClientURL() }

// Restart stops the server and starts it on the same port and store.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	if err := s.Start(); err != nil {
		t.Fatalf("restart NATS server: %v", err)
	}
}

// WipeAndRestart is Restart with an empty store: all streams are lost.
func (s *Server) WipeAndRestart(t testing.TB) {
	t.Helper()
	s.Stop()
	if err := os.RemoveAll(filepath.Join(s.Dir, "jetstream")); err != nil {
		t.Fatalf("wipe NATS store: %v", err)
	}
	if err := s.Start(); err != nil {
		t.Fatalf("restart NATS server: %v", err)
	}
}

// Conn returns a connection over TCP with the product's settings, except that it reconnects faster. It is closed
// at the end of the test.
func (s *Server) Conn(t testing.TB, extra ...nats.Option) *nats.Conn {
	t.Helper()
	return connect(t, natsjs.ConnectOptions{URL: s.URL(), Extra: extra})
}

// InProcess is Conn without the network.
func (s *Server) InProcess(t testing.TB, extra ...nats.Option) *nats.Conn {
	t.Helper()
	return connect(t, natsjs.ConnectOptions{InProcess: s.Server, Extra: extra})
}

func connect(t testing.TB, o natsjs.ConnectOptions) *nats.Conn {
	t.Helper()
	o.Name, o.Logger = t.Name(), Quiet()
	o.Extra = append([]nats.Option{nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0)}, o.Extra...)
	nc, err := natsjs.Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	AwaitConnected(t, nc)
	return nc
}

// AwaitConnected waits until nc is connected, after a restart for instance.
func AwaitConnected(t testing.TB, nc *nats.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	if err := natsjs.WaitConnected(ctx, nc); err != nil {
		t.Fatal(err)
	}
}

// JetStream returns a JetStream context on a connection of its own.
func (s *Server) JetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(s.Conn(t))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Quiet is a logger that drops everything. Tests stop servers on purpose, which is noisy.
func Quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
