package natsjs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// errLocked is what tryLock returns when somebody else holds the lock.
var errLocked = errors.New("locked")

// lockFileName lies in the store directory, beside what the server writes there.
const lockFileName = "daybook-nats.lock"

// lockPatience is how long a lock may outlive a killed holder: a program that it was just forking has the lock too,
// until it is executed.
const lockPatience = 3 * time.Second

// lockStore claims a store directory, which it creates if needed. nats-server itself takes no lock: two servers on
// one directory run without complaint and destroy each other's streams.
func lockStore(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("NATS store directory %s: %w", dir, err)
	}
	path := filepath.Join(dir, lockFileName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("NATS store directory %s: %w", dir, err)
	}
	err = tryLock(f)
	for deadline := time.Now().Add(lockPatience); errors.Is(err, errLocked) && time.Now().Before(deadline); err = tryLock(f) {
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		defer f.Close()
		if !errors.Is(err, errLocked) {
			return nil, fmt.Errorf("lock NATS store directory %s: %w", dir, err)
		}
		return nil, &StoreInUseError{Dir: dir, PID: readPID(f)}
	}
	// The pid only serves the error message, so failing to write it is no reason not to start.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

func readPID(f *os.File) int {
	b, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

// StoreInUseError says that another embedded server, of this or another process, runs on the store directory.
type StoreInUseError struct {
	Dir string
	PID int // of the holder; 0 if unknown
}

func (e *StoreInUseError) Error() string {
	holder := "another process"
	if e.PID == os.Getpid() {
		holder = "this process itself"
	} else if e.PID > 0 {
		holder = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("NATS store directory %s is in use by %s: stop it, or choose another directory", e.Dir, holder)
}
