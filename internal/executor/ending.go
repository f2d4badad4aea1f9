//go:build unix

package executor

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ending says whether we ended the command, and with what.
type ending int

const (
	notEnded ending = iota
	terminated
	killed
)

func (e ending) describe(grace time.Duration) string {
	if e == killed {
		return fmt.Sprintf("killed, because it was still running %v after SIGTERM", grace)
	}
	return "ended by SIGTERM"
}

// watch ends the session when ctx ends. exited is closed once the leader has ended, by itself or not; watch returns only
// after that or after SIGKILL, and the leader must not be reaped before watch has returned.
func (s *session) watch(ctx context.Context, exited <-chan struct{}, grace time.Duration) ending {
	select {
	case <-exited:
		return notEnded
	case <-ctx.Done():
	}
	if s.leaderExited() { // it was faster; what it said counts
		return notEnded
	}
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	s.signal(syscall.SIGTERM)
	s.signal(syscall.SIGCONT) // a stopped process would see SIGTERM only after this

	select {
	case <-exited:
	case <-deadline.C:
		s.kill()
		return killed
	}
	// A shell ends at once and leaves the work to its children, which have the same grace.
	for pause := 2 * time.Millisecond; s.alive(); pause = min(2*pause, 100*time.Millisecond) {
		select {
		case <-deadline.C:
			s.kill()
			return killed
		case <-time.After(pause):
		}
	}
	return terminated
}

// kill repeats itself because a process outside the leader's group may fork between being listed and being killed.
func (s *session) kill() {
	for range 20 {
		s.signal(syscall.SIGKILL)
		if !s.alive() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func endedError(ctx context.Context, started time.Time, how string) *Error {
	cause := context.Cause(ctx)
	e := &Error{Type: TypeCancelled, Verdict: Retry, Message: "cancelled", cause: cause}
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		e.Type = TypeTimeout
		after := time.Since(started)
		if d, ok := ctx.Deadline(); ok {
			after = max(0, d.Sub(started))
		}
		e.Message = fmt.Sprintf("timed out after %v", after.Round(time.Millisecond))
	case !errors.Is(cause, context.Canceled):
		e.Message = fmt.Sprintf("cancelled (%v)", cause)
	}
	e.Message += "; " + how
	return e
}

// Exit statuses with a meaning of their own: sysexits(3), and the shell's two.
const (
	exUsage       = 64
	exDataErr     = 65
	exTempFail    = 75
	notExecutable = 126
	notFoundExit  = 127
)

// exitError is nil for status 0. Its message ends with what the command said last, which is mostly the reason.
func exitError(ws syscall.WaitStatus, shell bool, lastLine string) *Error {
	if ws.Signaled() {
		e := &Error{Type: TypeSignal, Verdict: Retry, Message: "ended by signal " + signalName(ws.Signal())}
		if ws.Signal() == syscall.SIGKILL {
			e.Message += ", which was not sent by Daybook; perhaps the system ran out of memory"
		}
		if ws.CoreDump() {
			e.Message += " (core dumped)"
		}
		return e.says(lastLine)
	}
	code := ws.ExitStatus()
	e := &Error{Type: TypeExitStatus, Verdict: Retry, Message: fmt.Sprintf("exit status %d", code)}
	switch {
	case code == 0:
		return nil
	case code == exTempFail:
		e.Verdict = Later
	case code == exUsage || code == exDataErr:
		e.Verdict = Fatal
	case shell && code == notFoundExit:
		e.Type, e.Verdict = TypeCommandNotFound, Fatal
		e.Message += " (command not found)"
	case shell && code == notExecutable:
		e.Type, e.Verdict = TypeCommandNotFound, Fatal
		e.Message += " (command not executable)"
	case shell && code > 128 && unix.SignalName(syscall.Signal(code-128)) != "":
		e.Message += fmt.Sprintf(" (a command was ended by signal %s)", signalName(syscall.Signal(code-128)))
	}
	return e.says(lastLine)
}

func (e *Error) says(lastLine string) *Error {
	if lastLine != "" {
		e.Message += ": " + lastLine
	}
	return e
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprint(int(s))
}
