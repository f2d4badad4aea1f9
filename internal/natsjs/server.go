package natsjs

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Defaults of ServerOptions. MaxStore leaves room for EmbeddedTopology and nothing else.
const (
	DefaultMaxMemory    = 64 << 20
	DefaultMaxStore     = 2 << 30
	DefaultSyncInterval = 10 * time.Second

	startTimeout = 30 * time.Second
)

// ServerOptions configures an embedded NATS server with JetStream.
type ServerOptions struct {
	StoreDir string // required; created if absent, and locked while the server lives
	Host     string // loopback only, since the server asks for no credentials; default 127.0.0.1
	Port     int    // 0 picks the port of the directory's last server if it is free, else any; -1 picks any
	Logger   *slog.Logger

	MaxMemory    int64         // bytes of memory-backed streams
	MaxStore     int64         // bytes of all streams on disk; a stream's MaxBytes is reserved from it
	SyncInterval time.Duration // between fsyncs of streams; a lost tail delays runs by at most a lease
}

// Server is an embedded NATS server. It stays the same value over Stop and Start, so in-process connections made
// through it find the new server by themselves.
type Server struct {
	opts ServerOptions
	log  *slog.Logger
	lock *os.File

	mu   sync.Mutex
	ns   *server.Server // nil while stopped
	port int            // remembered, so that clients over TCP find a restarted server too
	shut bool
}

// StartServer starts a server and waits until it takes connections. A store directory that another server uses
// is a *StoreInUseError.
func StartServer(opts ServerOptions) (*Server, error) {
	opts.Host = cmp.Or(opts.Host, "127.0.0.1")
	opts.MaxMemory = cmp.Or(opts.MaxMemory, DefaultMaxMemory)
	opts.MaxStore = cmp.Or(opts.MaxStore, DefaultMaxStore)
	opts.SyncInterval = cmp.Or(opts.SyncInterval, DefaultSyncInterval)
	if opts.StoreDir == "" {
		return nil, errors.New("embedded NATS server: no store directory given")
	}
	if ip := net.ParseIP(opts.Host); opts.Host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("embedded NATS server: host %q is not a loopback address; the embedded server asks for "+
			"no credentials: use 127.0.0.1, or run nats-server with authentication and point NATS_URL at it", opts.Host)
	}
	lock, err := lockStore(opts.StoreDir)
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: opts,
		log:  cmp.Or(opts.Logger, slog.Default()).With("component", "nats-server"),
		lock: lock,
		port: opts.Port,
	}
	if opts.Port == 0 {
		s.port = lastPort(opts.Host, opts.StoreDir)
	}
	err = s.Start()
	if err != nil && s.port != opts.Port {
		s.port = opts.Port // taken since we looked
		err = s.Start()
	}
	if err != nil {
		s.Shutdown()
		return nil, err
	}
	rememberPort(opts.StoreDir, s.port)
	return s, nil
}

// Start starts a stopped server again, on the same store and port. It does nothing if the server runs.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return errors.New("embedded NATS server: already shut down")
	}
	if s.ns != nil {
		return nil
	}
	ns, err := s.launch()
	if err != nil {
		return fmt.Errorf("embedded NATS server: %w", err)
	}
	if addr, ok := ns.Addr().(*net.TCPAddr); ok {
		s.port = addr.Port
	}
	s.ns = ns
	return nil
}

func (s *Server) launch() (*server.Server, error) {
	ns, err := server.NewServer(&server.Options{
		ServerName:             "daybook-embedded",
		Host:                   s.opts.Host,
		Port:                   cmp.Or(s.port, server.RANDOM_PORT), // 0 would mean 4222
		JetStream:              true,
		StoreDir:               s.opts.StoreDir,
		JetStreamMaxMemory:     s.opts.MaxMemory,
		JetStreamMaxStore:      s.opts.MaxStore,
		SyncInterval:           s.opts.SyncInterval,
		NoSigs:                 true,
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return nil, err
	}
	log := &serverLog{log: s.log}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start()

	// Start has opened the listener when it returns, so a fatal error is known now; waiting would not help.
	err = log.fatalErr()
	if err == nil && !ns.ReadyForConnections(startTimeout) {
		err = fmt.Errorf("not ready for connections within %s", startTimeout)
	}
	if err == nil && !ns.JetStreamEnabled() {
		err = fmt.Errorf("JetStream did not start on %s", s.opts.StoreDir)
	}
	if err == nil {
		return ns, nil
	}
	ns.Shutdown()
	ns.WaitForShutdown()
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %s:%d is already in use: stop what listens there, or choose another port "+
			"(-1 picks a free one)", s.opts.Host, s.port)
	}
	return nil, err
}

// ClientURL is the address for clients over TCP, nats://127.0.0.1:<port>.
func (s *Server) ClientURL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("nats://%s", net.JoinHostPort(s.opts.Host, fmt.Sprint(s.port)))
}

// InProcessConn opens a connection that does not touch the network, to whichever server runs now. It makes Server
// a nats.InProcessConnProvider: a *server.Server given to the client directly would be dialled for ever after a
// restart.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	ns := s.ns
	s.mu.Unlock()
	if ns == nil {
		return nil, errors.New("embedded NATS server is stopped")
	}
	return ns.InProcessConn()
}

// Health is nil while the server runs with JetStream. A server that met a full disk or a broken store goes on
// without JetStream; only a restart brings that back.
func (s *Server) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ns == nil:
		return errors.New("embedded NATS server is stopped")
	case !s.ns.JetStreamEnabled():
		return fmt.Errorf("embedded NATS server: JetStream is disabled, see its log; is the disk of %s full?", s.opts.StoreDir)
	}
	return nil
}

// Stop stops the server and waits for it. The store directory stays locked and the port remembered for Start.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

func (s *Server) stop() {
	if s.ns != nil {
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
		s.ns = nil
	}
}

// Shutdown stops the server for good, waits for it, and gives the store directory back. Drain or close the
// connections first, so that they do not report a disconnect.
func (s *Server) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	if !s.shut {
		s.shut = true
		s.lock.Close() // releases the lock. The file stays: removing it would let two servers hold two locks
	}
}
