//go:build darwin || freebsd

package devpg

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// commandLine returns the command line of a process as one string,
// os.ErrNotExist if it is gone or a zombie.
func commandLine(pid int) ([]string, error) {
	out, err := exec.Command("ps", "-ww", "-o", "stat=", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	stat, line, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	switch {
	case stat == "" && errors.As(err, new(*exec.ExitError)), strings.HasPrefix(stat, "Z"):
		return nil, os.ErrNotExist
	case err != nil:
		return nil, err
	}
	line = strings.TrimSpace(line)
	name, _, _ := strings.Cut(line, " ")
	return []string{name, line}, nil
}

func containsPath(args []string, path string) bool {
	return strings.Contains(args[len(args)-1]+" ", " "+path+" ")
}

// bindToParent does nothing: no such thing here. The watchdog does it.
func bindToParent(*syscall.SysProcAttr) {}

const kernelBindsChildren = false

func mapRoot(*syscall.SysProcAttr, int, int) bool { return false }
