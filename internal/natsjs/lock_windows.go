package natsjs

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock takes an exclusive lock on f without waiting. It covers a byte far behind the content, because Windows
// locks are mandatory and the content must stay readable for the error message of whoever comes second.
func tryLock(f *os.File) error {
	at := &windows.Overlapped{OffsetHigh: 1}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, at)
	if err == windows.ERROR_LOCK_VIOLATION {
		return errLocked
	}
	return err
}
