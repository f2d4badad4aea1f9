//go:build linux || darwin || freebsd

package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxSocketPath is what fits a unix socket address everywhere (104 bytes with
// the closing zero on macOS and FreeBSD, 108 on Linux).
const maxSocketPath = 103

// claimDir settles s.dir, makes it, and takes its lock.
func (s *Server) claimDir(ctx context.Context) error {
	dir := s.opt.Dir
	if dir == "" && s.opt.Ephemeral {
		return s.claimThrowAway()
	}
	if dir == "" {
		dir = filepath.Join(DefaultDir("daybook"), "postgres")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := checkPath(dir); err != nil {
		return err
	}
	if err := makeDirs(dir); err != nil {
		return explain(dir, err)
	}
	if s.dir, err = filepath.EvalSymlinks(dir); err != nil {
		return explain(dir, err)
	}
	if err := checkPath(s.dir); err != nil {
		return err
	}
	fi, err := os.Stat(s.dir)
	if err != nil {
		return explain(dir, err)
	}
	if m := fi.Mode(); m&0o002 != 0 && m&os.ModeSticky == 0 {
		return fmt.Errorf("%s may be written by everyone (mode %04o), who could then take the database's place: chmod o-w it, or choose another directory", s.dir, m.Perm())
	}
	s.lock, err = awaitLock(ctx, s.dir)
	return explain(s.dir, err)
}

// checkPath refuses what the socket's address, or the drivers' reading of it,
// cannot hold.
func checkPath(dir string) error {
	sock := filepath.Join(socketDir(dir), ".s.PGSQL.5432")
	if n := len(sock) - maxSocketPath; n > 0 {
		return fmt.Errorf("the path %s is too long by %d bytes for a unix socket in it: choose a shorter directory", dir, n)
	}
	if strings.ContainsAny(dir, ",\n") {
		return fmt.Errorf("the path %q contains a comma or a line break, which separate hosts in a connection string: choose another directory", dir)
	}
	return nil
}

// makeDirs is MkdirAll, but whatever the umask, the account that root steps
// down to can pass through what root makes. Directories that exist are left
// as they are: they may hold other things.
func makeDirs(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := makeDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o755
	}
	if err := os.Mkdir(dir, mode); err != nil {
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chmod(dir, mode)
}

// makePrivate makes a directory that only the server's account may enter. That
// is what makes a server without passwords safe.
func (s *Server) makePrivate(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("%s is not a directory: remove it", dir)
	}
	uid, gid := s.id.owner()
	if have := ownerOf(fi); os.Geteuid() != 0 && have != uid {
		return fmt.Errorf("%s belongs to uid %d, not to uid %d: remove it, or choose another directory", dir, have, uid)
	}
	if err := os.Lchown(dir, uid, gid); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

func (s *Server) makeSocketDir() error { return explain(s.dir, s.makePrivate(s.socketDir())) }

func ownerOf(fi os.FileInfo) int { return int(fi.Sys().(*syscall.Stat_t).Uid) }

// explain turns what the file system answers into what to do about it.
func explain(dir string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return fmt.Errorf("the PostgreSQL directory %s cannot be written by uid %d: choose another directory, or make this one writable (%w)", dir, os.Geteuid(), err)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("the PostgreSQL directory %s cannot be made, a file is in the way: choose another directory (%w)", dir, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the disk of the PostgreSQL directory %s is full: free some space, or choose another directory (%w)", dir, err)
	}
	return err
}
