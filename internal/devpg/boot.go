//go:build linux || darwin || freebsd

package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	readyPoll      = 5 * time.Millisecond
	readyPatience  = 3 * time.Second // then say what the wait is for
	orphanPatience = 30 * time.Second
)

// boot starts the postmaster and waits until it is ready. After a kill -9 of
// the postmaster its backends may live on until they notice; the server
// refuses to start until they have.
func (s *Server) boot(ctx context.Context) error {
	giveUp := time.Now().Add(orphanPatience)
	for first := true; ; first = false {
		err := s.bootOnce(ctx)
		if !errors.Is(err, errOldMemory) || time.Now().After(giveUp) {
			return err
		}
		if first {
			say(s.opt.Log, "waiting for what is left of the PostgreSQL that was killed")
		}
		if e := pause(ctx, 100*time.Millisecond); e != nil {
			return err
		}
		_ = os.Truncate(s.logFile(), 0) // the log of the crash, one file back, is the one to keep
		s.done = make(chan struct{})
	}
}

var errOldMemory = errors.New("backends of the server that was killed are still running")

func (s *Server) bootOnce(ctx context.Context) error {
	log, err := openLog(s.logFile())
	if err != nil {
		return explain(s.dir, err)
	}
	args := append([]string{"-D", s.data(), "-k", s.socketDir()}, s.settings()...)
	s.cmd = s.command(context.Background(), "postgres", args...) //nolint:contextcheck // ctx bounds the start alone
	bindToParent(s.cmd.SysProcAttr)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	started := make(chan error, 1)
	go s.supervise(log, started)
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", s.cmd.Path, err)
	}
	go trimLog(s.logFile(), s.done)
	return s.awaitReady(ctx)
}

// supervise starts the postmaster and reaps it. It keeps its thread all that
// time, because the kernel's signal at our death is tied to the thread that
// started the child, not to the process.
func (s *Server) supervise(log *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.done)
	defer log.Close()
	if err := s.cmd.Start(); err != nil {
		started <- err
		return
	}
	w := s.watch()
	started <- nil
	s.exitErr = s.cmd.Wait()
	w.end()
}

// awaitReady does what pg_ctl -w does: the last line of the pid file tells.
func (s *Server) awaitReady(ctx context.Context) error {
	begun, told := time.Now(), false
	for {
		l := readPIDFile(s.data())
		if len(l) >= 8 && l[0] == strconv.Itoa(s.PID()) && strings.TrimSpace(l[7]) == "ready" {
			return nil
		}
		if !told && time.Since(begun) > readyPatience {
			told = true
			say(s.opt.Log, "waiting for PostgreSQL, which is recovering from a crash or has a slow disk (its log: %s)", s.logFile())
		}
		timer := time.NewTimer(readyPoll)
		select {
		case <-s.done:
			timer.Stop()
			return s.bootError()
		case <-ctx.Done():
			timer.Stop()
			close(s.stopping)
			_ = s.shutdown(ctx)
			return fmt.Errorf("waiting for PostgreSQL in %s to accept connections: %w", s.dir, context.Cause(ctx))
		case <-timer.C:
		}
	}
}

func (s *Server) bootError() error {
	tail := logTail(s.logFile())
	err := fmt.Errorf("PostgreSQL in %s did not start: %s%s", s.dir, exitText(s.exitErr), tail)
	switch {
	case strings.Contains(tail, "pre-existing shared memory block"):
		return errors.Join(errOldMemory, err)
	case strings.Contains(tail, "No space left on device"):
		return explain(s.dir, errors.Join(syscall.ENOSPC, err))
	}
	return err
}

func exitText(err error) string {
	if err == nil {
		return "it ended with status 0"
	}
	return err.Error()
}

func killGroup(c *exec.Cmd) error {
	return syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
}
