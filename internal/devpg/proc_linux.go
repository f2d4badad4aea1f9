package devpg

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// commandLine returns the arguments of a process, os.ErrNotExist if it is
// gone or a zombie. Unlike /proc/PID/cwd it may be read across accounts.
func commandLine(pid int) ([]string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	if i := bytes.LastIndexByte(stat, ')'); i >= 0 && bytes.HasPrefix(stat[i:], []byte(") Z")) {
		return nil, os.ErrNotExist
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), nil
}

func containsPath(args []string, path string) bool { return slices.Contains(args, path) }

// bindToParent makes the kernel send the child a fast-shutdown signal when the
// thread that started it ends. Go sets it after the change of user, which
// would clear it.
func bindToParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGINT }

const kernelBindsChildren = true

// mapRoot makes the child uid and gid of a user namespace that holds nothing
// but them, which stand for our own.
func mapRoot(a *syscall.SysProcAttr, uid, gid int) bool {
	a.Cloneflags = syscall.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getegid(), Size: 1}}
	return true
}
