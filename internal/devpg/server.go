//go:build linux || darwin || freebsd

package devpg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Server is a running private PostgreSQL. Its methods may be called from any
// goroutine.
type Server struct {
	opt    Options
	dir    string // absolute, without symbolic links
	binDir string
	major  int
	id     identity
	remove bool // the directory was made for this server alone

	lock     *os.File
	cmd      *exec.Cmd
	done     chan struct{} // closed once the postmaster has been reaped
	exitErr  error         // set before done is closed
	stop     sync.Once
	stopping chan struct{}
	stopErr  error
}

// Start runs a server and returns once it accepts connections, after crash
// recovery if that is due. ctx bounds the start alone; the server then runs
// until Stop, or until this process ends. Whoever starts a server must Stop it,
// also after it ended by itself.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	s := &Server{opt: o, done: make(chan struct{}), stopping: make(chan struct{})}
	if o.Ephemeral {
		sweep(ctx)
	}
	if err := s.claimDir(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.giveUpDir()
		}
	}()
	if err := s.chooseBinaries(ctx); err != nil {
		return nil, err
	}
	if err := s.chooseIdentity(ctx); err != nil {
		return nil, err
	}
	if err := s.makeSocketDir(); err != nil {
		return nil, err
	}
	if err := stopLeftOver(ctx, s.data(), syscall.SIGINT); err != nil {
		return nil, err
	}
	if err := s.ensureCluster(ctx); err != nil {
		return nil, err
	}
	if err := s.boot(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// DSN returns a connection URL for the superuser postgres, for pgx and libpq
// alike. Any role that may log in can be put in its place; none has a password.
func (s *Server) DSN(db string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/" + db}
	// The drivers take "+" for itself, not for a space; slashes may stay legible.
	host := strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(s.socketDir()))
	u.RawQuery = "host=" + host + "&sslmode=disable"
	return u.String()
}

// BinDir is where the server's binaries are.
func (s *Server) BinDir() string { return s.binDir }

// Dir is the directory that holds the server's data, socket and log.
func (s *Server) Dir() string { return s.dir }

// ServerMajor is the server's major version, 15 say.
func (s *Server) ServerMajor() int { return s.major }

// PID is the process id of the postmaster.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Done is closed when the server has ended, asked for or not. To go on after
// an unexpected end, Stop the server and Start a new one on its directory.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says why the server ended by itself. It is nil while the server runs
// and when Stop ended it.
func (s *Server) Err() error {
	select {
	case <-s.done:
	default:
		return nil
	}
	select {
	case <-s.stopping:
		return nil
	default:
		return fmt.Errorf("PostgreSQL (process %d) ended unexpectedly: %s%s", s.PID(), exitText(s.exitErr), logTail(s.logFile()))
	}
}

const (
	fastShutdown      = 30 * time.Second
	immediateShutdown = 6 * time.Second // the postmaster kills its children itself after 5 s
)

// Stop ends the server, first by a fast shutdown (open transactions are rolled
// back), then by an immediate one once ctx or 30 s are over; only after that is
// recovery due at the next start, and Stop returns an error saying so. It then
// releases the directory. Later calls return what the first returned.
func (s *Server) Stop(ctx context.Context) error {
	s.stop.Do(func() {
		select {
		case <-s.done: // an end that nobody asked for stays one
		default:
			close(s.stopping)
			s.stopErr = s.shutdown(ctx)
		}
		s.giveUpDir()
	})
	return s.stopErr
}

func (s *Server) shutdown(ctx context.Context) error {
	if !s.remove {
		ctx, cancel := context.WithTimeout(ctx, fastShutdown)
		defer cancel()
		_ = s.cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-s.done:
			return nil
		case <-ctx.Done():
		}
	}
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	timer := time.NewTimer(immediateShutdown)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		_ = s.cmd.Process.Kill()
		<-s.done
	}
	if s.remove {
		return nil
	}
	return errors.New("PostgreSQL did not shut down in time and was stopped at once: it will recover at its next start")
}

// giveUpDir lets another supervisor have the directory, or removes it if it
// was made for this server.
func (s *Server) giveUpDir() {
	if s.remove {
		_ = os.RemoveAll(s.dir)
	}
	_ = s.lock.Close()
}

func (s *Server) data() string      { return filepath.Join(s.dir, dataName(s.major)) }
func (s *Server) socketDir() string { return socketDir(s.dir) }
func (s *Server) logFile() string   { return filepath.Join(s.dir, "log") }

func socketDir(dir string) string { return filepath.Join(dir, "s") }
