package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/engine"
	"github.com/daybookhq/daybook/internal/eventstream"
	"github.com/daybookhq/daybook/internal/httpapi"
	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/migrations"
)

// node is an engine replica with its connections and its HTTP port.
type node struct {
	store    *eventstore.Store
	api      *eventstore.Store // with a pool of its own; nil without the role
	engine   *engine.Engine
	registry *prometheus.Registry
	listener net.Listener
	log      *slog.Logger

	localToken string // of the worker in this process; empty: there is none
	ownerToken string // of the commands of whoever started it; empty: there is none
}

// close gives the connections back.
func (n *node) close() {
	n.store.Close()
	if n.api != nil {
		n.api.Close()
	}
}

// openNode connects an engine. The NATS connection stays the caller's.
func openNode(ctx context.Context, dsn string, nc *nats.Conn, topology natsjs.Topology, roles engine.Roles, retentionDir string, l net.Listener, log *slog.Logger) (*node, error) {
	have, err := migrations.Current(ctx, dsn)
	if err != nil {
		return nil, &exitError{code: exitUnreachable, err: err}
	}
	switch want := migrations.Latest(); {
	case have < want:
		return nil, fmt.Errorf("the database schema is at version %d, this binary needs %d: run 'daybook migrate up'", have, want)
	case have > want:
		log.WarnContext(ctx, "the database schema is newer than this binary", "have", have, "known", want)
	}
	id := processID()
	store, err := eventstore.Open(ctx, eventstore.Config{DSN: dsn, OpsConns: engine.OpsConns, Actor: "engine:" + id, Logger: log})
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	e, err := engine.New(engine.Config{ID: id, Host: hostname(), Version: version(), Roles: roles, Store: store, NATS: nc,
		Topology: topology, Registry: registry, Logger: log, RetentionDir: retentionDir})
	if err != nil {
		store.Close()
		return nil, err
	}
	prepare, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := e.Prepare(prepare); err != nil {
		store.Close()
		return nil, err
	}
	n := &node{store: store, engine: e, registry: registry, listener: l, log: log}
	if roles.API {
		if n.api, err = eventstore.Open(ctx, eventstore.Config{DSN: dsn, OpsConns: 1, LoopConns: apiConns, Actor: "http:" + id, Logger: log}); err != nil {
			store.Close()
			return nil, err
		}
	}
	if err := guarded(ctx, l, store); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// apiConns is how many connections the HTTP API may have to the database. They
// are its own: what people ask for does not hold up the engine's loops.
const apiConns = 8

// guarded refuses an address beyond loopback while there is no token to guard it.
func guarded(ctx context.Context, l net.Listener, store *eventstore.Store) error {
	if addr, ok := l.Addr().(*net.TCPAddr); ok && addr.IP.IsLoopback() {
		return nil
	}
	configured, err := httpapi.NewTokens(store.Pool()).Configured(ctx)
	if err == nil && !configured {
		err = usage("--http %s: without tokens Daybook listens on loopback addresses only, for example 127.0.0.1:7788: make a token with 'daybook token create' first", l.Addr())
	}
	return err
}

// run serves until ctx ends.
func (n *node) run(ctx context.Context) error {
	defer n.close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.engine.Run(ctx) })
	events := &eventstream.Handler{Log: n.api, Deployment: engine.Deployment, Problem: httpapi.WriteProblem, Done: ctx.Done()}
	h := httpapi.Handler(httpapi.Config{Store: n.api, Events: events, Work: n.engine.Service(), Wake: n.engine, Broker: n.engine, LocalToken: n.localToken, OwnerToken: n.ownerToken, Version: version(), Done: ctx.Done(),
		Ready: n.engine.Ready, Gather: n.registry, Logger: n.log})
	g.Go(func() error { return httpapi.Serve(ctx, n.listener, h, n.log) })
	return g.Wait()
}

// portPatience is how long a port may stay taken after its process was killed: a
// command that was being forked at that moment holds it until it is executed.
const portPatience = 3 * time.Second

// listen opens the HTTP port. Nothing is served on it before openNode has seen
// that the address is loopback or guarded.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, usage("--http %s: want HOST:PORT, for example 127.0.0.1:7788", addr)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	for deadline := time.Now().Add(portPatience); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(portPatience / 30):
		}
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use by another process, perhaps another 'daybook dev': stop it, or choose another port with --http", addr)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

// newLogger writes text to a terminal and JSON elsewhere.
func (a *app) newLogger(level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if f, ok := a.err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return slog.New(slog.NewTextHandler(a.err, o))
	}
	return slog.New(slog.NewJSONHandler(a.err, o))
}

func logLevel(s string) (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(s)); err != nil {
		return 0, usage("--log-level %s: want debug, info, warn or error", s)
	}
	return l, nil
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil || h == "" {
		return "unknown"
	}
	return h
}

// processID tells processes apart, also two that follow one another on a host.
func processID() string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	return hostname() + "-" + hex.EncodeToString(b)
}

// version is set by the build; otherwise the module's.
var buildVersion string

func version() string {
	if buildVersion != "" {
		return buildVersion
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && !strings.HasPrefix(info.Main.Version, "(") {
		return info.Main.Version
	}
	return "devel"
}
