//go:build unix && !linux

package executor

import (
	"os"
	"sync/atomic"
	"syscall"
)

// session is the process tree of one command. Without waitid(WNOWAIT) the leader is reaped when it ends; a group that
// still has processes keeps its id, an empty one is not signalled because alive has said so a moment before.
type session struct {
	process *os.Process
	exited  atomic.Bool
	state   *os.ProcessState
	err     error
}

func attributes(cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: cred}
}

func (s *session) awaitExit() {
	s.state, s.err = s.process.Wait()
	s.exited.Store(true)
}

func (s *session) leaderExited() bool { return s.exited.Load() }

func (s *session) reap() (*os.ProcessState, error) { return s.state, s.err }

func (s *session) signal(sig syscall.Signal) { _ = syscall.Kill(-s.process.Pid, sig) }

func (s *session) alive() bool { return syscall.Kill(-s.process.Pid, 0) == nil }
