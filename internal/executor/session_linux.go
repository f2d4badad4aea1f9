package executor

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// session is the process tree of one command. Its id is the process id of the command, which leads it. As long as
// the leader is not reaped no other process, group or session can get that id, which is what makes it safe to
// signal the group after the leader has ended.
type session struct {
	process *os.Process
}

func attributes(cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: cred, Pdeathsig: syscall.SIGKILL}
}

// awaitExit blocks until the leader has ended, and leaves it unreaped.
func (s *session) awaitExit() {
	for unix.Waitid(unix.P_PID, s.process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

func (s *session) leaderExited() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, s.process.Pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && info.Signo != 0
}

func (s *session) reap() (*os.ProcessState, error) { return s.process.Wait() }

// signal reaches the command's own group first, as a whole and so without a race against fork, and then the processes
// that a shell with job control moved to groups of their own.
func (s *session) signal(sig syscall.Signal) {
	_ = syscall.Kill(-s.process.Pid, sig)
	for _, m := range s.members() {
		if m.group != s.process.Pid {
			s.signalMember(m.pid, sig)
		}
	}
}

// signalMember holds the process by a descriptor before it looks at its session, so that the id cannot come to
// mean another process in between.
func (s *session) signalMember(pid int, sig syscall.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if m, ok := readMember(pid); ok && m.session == s.process.Pid {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// alive reports whether any process of the session still runs.
func (s *session) alive() bool { return len(s.members()) > 0 }

type member struct {
	pid, group, session int
}

// members lists the running processes of the session; zombies do not count, they only wait for their parents.
func (s *session) members() []member {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var found []member
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if m, ok := readMember(pid); ok && m.session == s.process.Pid {
			found = append(found, m)
		}
	}
	return found
}

func readMember(pid int) (member, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return member{}, false
	}
	// "pid (name) state ppid group session …", where the name may hold anything, parentheses too.
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 4 || f[0][0] == 'Z' || f[0][0] == 'X' {
		return member{}, false
	}
	group, err1 := strconv.Atoi(string(f[2]))
	session, err2 := strconv.Atoi(string(f[3]))
	return member{pid: pid, group: group, session: session}, err1 == nil && err2 == nil
}
