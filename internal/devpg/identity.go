//go:build linux || darwin || freebsd

package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// identity is who the server runs as. PostgreSQL refuses root, and wants an
// account that the user database knows.
type identity struct {
	uid, gid  int
	switches  bool // change to uid and gid
	namespace bool // be uid and gid in a user namespace; outside, files stay ours
}

func (id identity) owner() (uid, gid int) {
	if id.switches {
		return id.uid, id.gid
	}
	return os.Geteuid(), os.Getegid()
}

func (id identity) String() string {
	switch {
	case id.switches:
		return fmt.Sprintf("as uid %d", id.uid)
	case id.namespace:
		return fmt.Sprintf("as uid %d of a user namespace", id.uid)
	}
	return fmt.Sprintf("as uid %d", os.Geteuid())
}

func (id identity) attr() *syscall.SysProcAttr {
	// A Ctrl-C at the terminal reaches us, not the database under us.
	a := &syscall.SysProcAttr{Setpgid: true}
	switch {
	case id.switches:
		a.Credential = &syscall.Credential{Uid: uint32(id.uid), Gid: uint32(id.gid)}
	case id.namespace:
		mapRoot(a, id.uid, id.gid)
	}
	return a
}

// chooseIdentity tries the ways to run the binaries in the directory, and
// keeps the first that works.
func (s *Server) chooseIdentity(ctx context.Context) error {
	ids, err := identities(s.data())
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		s.id = id
		// What can be refused is all in it: the change of user, entering the
		// directory, reaching the program and its libraries.
		_, err := s.command(ctx, "postgres", "--version").Output()
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", id, withStderr(err)))
	}
	return fmt.Errorf("PostgreSQL (%s) cannot be run in %s: choose a directory and binaries that an ordinary account can reach, or run as one: %w",
		s.binDir, s.dir, errors.Join(errs...))
}

// identities lists the candidates, best first. An existing data directory has
// an owner, and only that account can use it.
func identities(data string) ([]identity, error) {
	acct, ok := account()
	space := identity{uid: acct.uid, gid: acct.gid, namespace: true}
	canMap := ok && mapRoot(&syscall.SysProcAttr{}, acct.uid, acct.gid)
	if os.Geteuid() != 0 {
		ids := []identity{{}}
		if _, err := user.LookupId(strconv.Itoa(os.Geteuid())); err != nil && canMap {
			return []identity{space}, nil // initdb looks its user up
		}
		return ids, nil
	}
	if fi, err := os.Stat(data); err == nil {
		st := fi.Sys().(*syscall.Stat_t)
		if st.Uid != 0 {
			return []identity{{uid: int(st.Uid), gid: int(st.Gid), switches: true}}, nil
		}
		if !canMap {
			return nil, fmt.Errorf("%s belongs to root, as whom PostgreSQL does not run: chown it to another account", data)
		}
		return []identity{space}, nil
	}
	if !ok {
		return nil, errors.New("PostgreSQL does not run as root, and there is no account \"postgres\" or \"nobody\" to run it as: add one")
	}
	ids := []identity{{uid: acct.uid, gid: acct.gid, switches: true}}
	if canMap {
		ids = append(ids, space)
	}
	return ids, nil
}

// account is an ordinary account to step down to.
func account() (identity, bool) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil && uid > 0 {
			return identity{uid: uid, gid: gid}, true
		}
	}
	return identity{}, false
}

// command prepares one of PostgreSQL's programs to run as the server's account.
// The end of ctx kills it with all that it started.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(s.binDir, name), args...)
	c.Dir = s.dir
	c.Env = childEnv(s.binDir)
	c.SysProcAttr = s.id.attr()
	c.Cancel = func() error { return killGroup(c) }
	return c
}
