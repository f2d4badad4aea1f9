//go:build linux || darwin || freebsd

package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	lockName  = "lock"
	newSuffix = ".new"
)

// takeLock makes this process the supervisor of dir. The kernel ends the lock
// with the process, so that it can never be left over.
func takeLock(dir string) (*os.File, error) {
	name := filepath.Join(dir, lockName)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		b := make([]byte, 20)
		n, _ := f.ReadAt(b, 0)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
		return nil, &InUseError{Dir: dir, PID: pid}
	}
	return f, writePID(f)
}

// lockPatience is how long a lock may outlive a killed holder: a program that it
// was just forking has the lock too, until it is executed.
const lockPatience = 3 * time.Second

// awaitLock is takeLock for a directory whose supervisor may just have been killed.
func awaitLock(ctx context.Context, dir string) (*os.File, error) {
	for deadline := time.Now().Add(lockPatience); ; {
		f, err := takeLock(dir)
		if _, held := errors.AsType[*InUseError](err); !held || time.Now().After(deadline) || pause(ctx, 20*time.Millisecond) != nil {
			return f, err
		}
	}
}

// newLock makes the lock of a new throw-away directory. It gets its name only
// when it is held: a sweeper must not see it free before.
func newLock(dir string) (*os.File, error) {
	name := filepath.Join(dir, lockName)
	f, err := os.OpenFile(name+newSuffix, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB),
		writePID(f),
		os.Rename(name+newSuffix, name))
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// writePID is for the message that a second supervisor gives; nothing is
// decided by it.
func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

const leftOverShutdown = 20 * time.Second

// stopLeftOver ends a server on the data directory that a killed supervisor
// left running. The caller holds the lock.
func stopLeftOver(ctx context.Context, data string, how syscall.Signal) error {
	deadline := time.Now().Add(leftOverShutdown)
	signalled := 0
	for {
		pid, state := leftOver(data)
		switch {
		case state == gone:
			return nil
		case state == unknown: // the server itself will refuse, if it must
			return nil
		case state == otherProgram, state == unreaped:
			return disown(data)
		case signalled != pid:
			_ = syscall.Kill(pid, how)
			signalled = pid
		case time.Now().After(deadline) && how != syscall.SIGQUIT:
			how, signalled = syscall.SIGQUIT, 0
			deadline = time.Now().Add(immediateShutdown)
		case time.Now().After(deadline):
			return fmt.Errorf("the PostgreSQL left over from before (process %d) does not stop: kill it", pid)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for the PostgreSQL left over from before (process %d) to stop: %w", pid, err)
		}
	}
}

// processState is what can be known of the process a pid file names.
type processState int

const (
	gone         processState = iota
	ours                      // a postmaster on that data directory
	otherProgram              // the pid has been given to another program since
	unreaped                  // it has ended, and nobody has taken note of it yet
	unknown                   // alive, and not to be looked at
)

func leftOver(data string) (int, processState) {
	l := readPIDFile(data)
	if len(l) == 0 {
		return 0, gone
	}
	pid, err := strconv.Atoi(l[0])
	if err != nil || pid <= 1 || pid == os.Getpid() {
		return 0, gone
	}
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return pid, gone
	}
	args, err := commandLine(pid)
	switch {
	case errors.Is(err, os.ErrNotExist) && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH):
		return pid, gone
	case errors.Is(err, os.ErrNotExist):
		return pid, unreaped
	case err != nil:
		return pid, unknown
	case strings.HasPrefix(filepath.Base(args[0]), "postgres") && containsPath(args, data):
		return pid, ours
	}
	return pid, otherProgram
}

// disown rewrites the pid in a stale pid file to our own. A server refuses to
// start while the process named there exists, even if that is a program which
// got the number after a reboot, or a dead server that its new parent has not
// reaped: in a container, whose first process may be any program, it never is.
// Its parent's number the server knows to be stale. The rest of the file stays,
// because by it the server finds out whether orphaned backends are still attached
// to the old shared memory.
//
// The lock of the socket names the same process and is taken away: in a directory
// that we supervise nobody else serves.
func disown(data string) error {
	lock := filepath.Join(socketDir(filepath.Dir(data)), socketLock)
	if err := os.Remove(lock); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	name := filepath.Join(data, pidFile)
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(b), "\n")
	return os.WriteFile(name, []byte(strconv.Itoa(os.Getpid())+"\n"+rest), 0o600)
}

const (
	pidFile    = "postmaster.pid"
	socketLock = ".s.PGSQL.5432.lock"
)

// readPIDFile returns the lines of the server's pid file: pid, data directory,
// start time, port, socket directory, address, shared memory, status.
func readPIDFile(data string) []string {
	b, err := os.ReadFile(filepath.Join(data, pidFile))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
