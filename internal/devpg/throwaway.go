//go:build linux || darwin || freebsd

package devpg

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	memoryDir    = "/dev/shm"
	memoryWanted = 512 << 20 // containers often give 64 MB, which a test run fills
)

// throwAwayBases lists where throw-away directories may be, best first.
func throwAwayBases() []string {
	var bases []string
	if fi, err := os.Stat(memoryDir); err == nil && fi.IsDir() {
		bases = append(bases, memoryDir)
	}
	return append(bases, os.TempDir(), "/tmp")
}

// throwAwayPrefix holds the uid, so that nobody sweeps what is another's.
func throwAwayPrefix() string { return fmt.Sprintf("daybook-pg-%d-", os.Geteuid()) }

// claimThrowAway makes a directory that lives as long as the server.
func (s *Server) claimThrowAway() (err error) {
	for _, base := range throwAwayBases() {
		if base == memoryDir {
			if free, e := freeBytes(base); e != nil || free < memoryWanted {
				continue
			}
		}
		if base, err = filepath.EvalSymlinks(base); err != nil {
			continue
		}
		if err = checkPath(filepath.Join(base, throwAwayPrefix()+"1234567890")); err != nil {
			continue
		}
		if s.dir, err = os.MkdirTemp(base, throwAwayPrefix()); err != nil {
			err = explain(base, err)
			continue
		}
		// The account that root steps down to must get through.
		if err = os.Chmod(s.dir, 0o711); err == nil {
			s.lock, err = newLock(s.dir)
		}
		if err != nil {
			_ = os.RemoveAll(s.dir)
			continue
		}
		s.remove = true
		return nil
	}
	return err
}

// sweep removes throw-away directories whose supervisor is gone: each is some
// tens of megabytes, of memory usually.
func sweep(ctx context.Context) {
	for _, base := range throwAwayBases() {
		dirs, _ := filepath.Glob(filepath.Join(base, throwAwayPrefix()+"*"))
		for _, dir := range dirs {
			sweepOne(ctx, dir)
		}
	}
}

func sweepOne(ctx context.Context, dir string) {
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() || ownerOf(fi) != os.Geteuid() {
		return
	}
	if _, err := os.Lstat(filepath.Join(dir, lockName)); err != nil {
		// Being made, or left between two system calls: empty, or with a lock
		// that did not get its name.
		if time.Since(fi.ModTime()) > time.Minute {
			_ = os.Remove(filepath.Join(dir, lockName+newSuffix))
			_ = os.Remove(dir)
		}
		return
	}
	lock, err := takeLock(dir)
	if err != nil {
		return
	}
	defer lock.Close()
	data, _ := filepath.Glob(filepath.Join(dir, dataName(0)[:len("data-")]+"*"))
	for _, d := range data {
		if stopLeftOver(ctx, d, syscall.SIGQUIT) != nil {
			return
		}
	}
	_ = os.RemoveAll(dir)
}
