//go:build linux || darwin || freebsd

package devpg

import (
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	logLimit    = 16 << 20 // bytes; one older file of at most about this size is kept
	logInterval = 30 * time.Second
	logTailSize = 2000
	oldSuffix   = ".1"
)

// openLog begins a new log, keeping the one of the run before: after a crash
// that is the one to read.
func openLog(name string) (*os.File, error) {
	if fi, err := os.Stat(name); err == nil && fi.Size() > 0 {
		if err := os.Rename(name, name+oldSuffix); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
}

// trimLog bounds the log of a server that runs for long.
func trimLog(name string, done <-chan struct{}) {
	t := time.NewTicker(logInterval)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			_ = trimOnce(name, logLimit)
		}
	}
}

// trimOnce copies the newest part of a log that has outgrown the limit aside,
// and empties it. The server appends, so it goes on at the new end; a line
// written in between is lost.
func trimOnce(name string, limit int64) error {
	fi, err := os.Stat(name)
	if err != nil || fi.Size() <= limit {
		return err
	}
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := in.Seek(-limit, io.SeekEnd); err != nil {
		return err
	}
	out, err := os.OpenFile(name+oldSuffix, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, in, limit)
	if e := out.Close(); err == nil {
		err = e
	}
	if e := os.Truncate(name, 0); err == nil {
		err = e
	}
	return err
}

// logTail returns the last lines of the log, beginning with a line break, or
// nothing.
func logTail(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.Size() > logTailSize {
		_, _ = f.Seek(-logTailSize, io.SeekEnd)
	}
	b, _ := io.ReadAll(io.LimitReader(f, logTailSize))
	tail := strings.TrimSpace(string(b))
	if tail == "" {
		return ""
	}
	if len(b) == logTailSize { // begins in the middle of a line
		_, tail, _ = strings.Cut(tail, "\n")
	}
	return "\n  " + strings.ReplaceAll(tail, "\n", "\n  ")
}
