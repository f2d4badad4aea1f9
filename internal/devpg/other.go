//go:build !(linux || darwin || freebsd)

package devpg

import "context"

// Server is a running private PostgreSQL. There is none on this system.
type Server struct{}

// Start returns ErrUnsupported.
func Start(context.Context, Options) (*Server, error) { return nil, ErrUnsupported }

func (*Server) BinDir() string             { return "" }
func (*Server) Dir() string                { return "" }
func (*Server) ServerMajor() int           { return 0 }
func (*Server) PID() int                   { return 0 }
func (*Server) DSN(string) string          { return "" }
func (*Server) Done() <-chan struct{}      { return nil }
func (*Server) Err() error                 { return nil }
func (*Server) Stop(context.Context) error { return nil }
