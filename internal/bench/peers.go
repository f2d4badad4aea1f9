package bench

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a private PostgreSQL to compare programs on.
type Server struct {
	DSN      string // of a superuser
	Machine  Machine
	Settings map[string]string
	lab      *lab
}

// StartServer starts a server as the measurements have it.
func StartServer(ctx context.Context, dir string) (*Server, error) {
	l, err := openLab(ctx, Options{Dir: dir, Say: func(string, ...any) {}})
	if err != nil {
		return nil, err
	}
	return &Server{DSN: l.dsn, Machine: l.Machine, Settings: l.settings, lab: l}, nil
}

// Stop ends the server and removes its files.
func (s *Server) Stop() { s.lab.close() }

// Postmaster is the process of the server at the other end, 0 if it is not on
// this machine.
func Postmaster(ctx context.Context, c *pgx.Conn) int {
	var backend int
	if err := c.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return 0
	}
	pid, name := parentOf(backend)
	if name != "postgres" && name != "postmaster" {
		return 0
	}
	return pid
}

// ServerTime is the processor time that a server has used so far.
func ServerTime(postmaster int) time.Duration {
	if postmaster == 0 {
		return 0
	}
	return processor(family(postmaster)...)
}

// ProcessTime is the processor time that a process has used so far.
func ProcessTime(pid int) time.Duration { return processor(pid) }
