//go:build unix

package executor

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// identity is the account a command runs as.
type identity struct {
	name string
	home string
	cred *syscall.Credential // nil for the worker's own
}

// identify finds the account for a target's user; euid is the worker's. It never falls back to another account.
func identify(name string, euid int) (identity, *Error) {
	if name == "" {
		return ownIdentity(euid), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		e := userErrorf(name, "%v", err)
		if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
			return identity{}, userErrorf(name, "this machine has no such account")
		}
		e.Verdict = Retry // the directory service may be back next time
		return identity{}, e
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return identity{}, userErrorf(name, "its user id %q is not a number", u.Uid)
	}
	who := identity{name: u.Username, home: u.HomeDir}
	if int(uid) == euid {
		return who, nil
	}
	if euid != 0 {
		return identity{}, userErrorf(name, "this worker runs as uid %d", euid)
	}
	who.cred, err = credential(u, uint32(uid))
	if err != nil {
		e := userErrorf(name, "%v", err)
		e.Verdict = Retry
		return identity{}, e
	}
	return who, nil
}

func ownIdentity(euid int) identity {
	u, err := user.LookupId(strconv.Itoa(euid))
	if err != nil { // an arbitrary uid, as containers give them
		return identity{name: strconv.Itoa(euid), home: os.Getenv("HOME")}
	}
	return identity{name: u.Username, home: u.HomeDir}
}

// credential carries the supplementary groups too: without them the command would keep the worker's, root's.
func credential(u *user.User, uid uint32) (*syscall.Credential, error) {
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("its group id %q is not a number", u.Gid)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("list its groups: %w", err)
	}
	c := &syscall.Credential{Uid: uid, Gid: uint32(gid)}
	for _, id := range ids {
		g, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("its group id %q is not a number", id)
		}
		c.Groups = append(c.Groups, uint32(g))
	}
	return c, nil
}

func userErrorf(name, format string, args ...any) *Error {
	return &Error{Type: TypeUser, Verdict: Fatal,
		Message: fmt.Sprintf("cannot run as user %s: ", name) + fmt.Sprintf(format, args...)}
}
