//go:build unix

package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// command is a target made ready for this machine.
type command struct {
	path string
	argv []string
	env  []string
	dir  string
	who  identity
}

func prepare(t Target, o Options) (command, *Error) {
	if err := t.Validate(); err != nil {
		return command{}, &Error{Type: TypeInvalidTarget, Verdict: Fatal, Message: "exec." + err.Error(), cause: err}
	}
	who, e := identify(t.User, os.Geteuid())
	if e != nil {
		return command{}, e
	}
	env, e := newEnvironment(t, o, who)
	if e != nil {
		return command{}, e
	}
	c := command{argv: t.Argv, env: env.list(), who: who}
	if c.dir, e = directory(t, env); e != nil {
		return command{}, e
	}
	if t.Shell != "" {
		c.argv = []string{t.shellPath(), "-c", t.Shell}
	}
	c.path, e = lookup(c.argv[0], c.dir, env["PATH"])
	return c, e
}

func directory(t Target, env environment) (string, *Error) {
	dir := t.Dir
	if dir == "" {
		dir = env["HOME"]
		if fi, err := os.Stat(dir); err != nil || !fi.IsDir() || !filepath.IsAbs(dir) {
			return "/", nil //nolint:nilerr // as cron has it: a home that is not there is the root
		}
		return dir, nil
	}
	fi, err := os.Stat(dir)
	if err == nil && !fi.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return "", &Error{Type: TypeDirectory, Verdict: Retry, cause: err,
			Message: fmt.Sprintf("cannot enter the working directory %s: %v", dir, reason(err))}
	}
	return dir, nil
}

// lookup finds a program as the command's own PATH and directory have it; os/exec would use the worker's.
func lookup(name, dir, path string) (string, *Error) {
	if strings.ContainsRune(name, '/') {
		p := name
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		if err := executable(p); err != nil {
			return "", notFound(fmt.Sprintf("cannot run %s: %v", p, reason(err)), err)
		}
		return p, nil
	}
	var denied string
	for _, d := range filepath.SplitList(path) {
		p := filepath.Join(dir, d, name)
		if filepath.IsAbs(d) {
			p = filepath.Join(d, name)
		}
		err := executable(p)
		if err == nil {
			return p, nil
		}
		if denied == "" && errors.Is(err, fs.ErrPermission) {
			denied = p
		}
	}
	if denied != "" {
		return "", notFound(fmt.Sprintf("cannot run %s: %s is not executable", name, denied), fs.ErrPermission)
	}
	return "", notFound(fmt.Sprintf("command not found: %s is in none of the directories of PATH=%s", name, path), fs.ErrNotExist)
}

func executable(path string) error {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case fi.IsDir():
		return syscall.EISDIR
	case fi.Mode()&0o111 == 0:
		return syscall.EACCES
	}
	return nil
}

func notFound(message string, cause error) *Error {
	return &Error{Type: TypeCommandNotFound, Verdict: Fatal, Message: message, cause: cause}
}

// startError explains why the system refused a command that was found.
func startError(c command, err error) *Error {
	as := ""
	if c.who.cred != nil {
		as = " as user " + c.who.name
	}
	switch {
	case errors.Is(err, syscall.EPERM) && c.who.cred != nil:
		return userErrorf(c.who.name, "this worker may not change its user (it lacks CAP_SETUID or CAP_SETGID)")
	case errors.Is(err, syscall.EACCES):
		return notFound(fmt.Sprintf("cannot run %s in %s%s: permission denied", c.path, c.dir, as), err)
	case errors.Is(err, syscall.ENOENT):
		return notFound(fmt.Sprintf("cannot run %s: the interpreter it names does not exist", c.path), err)
	case errors.Is(err, syscall.ENOEXEC):
		return notFound(fmt.Sprintf("cannot run %s: not a program for this machine, nor a script that starts with #!", c.path), err)
	case errors.Is(err, syscall.E2BIG):
		return &Error{Type: TypeInvalidTarget, Verdict: Fatal, cause: err,
			Message: fmt.Sprintf("cannot run %s: its arguments and environment together are more than the system passes", c.path)}
	}
	return &Error{Type: TypeStart, Verdict: Retry, cause: err,
		Message: fmt.Sprintf("cannot start %s%s: %v", c.path, as, reason(err))}
}

// reason is the bare system error: the path is already in the sentence.
func reason(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}
