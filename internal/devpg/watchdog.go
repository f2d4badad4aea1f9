//go:build linux || darwin || freebsd

package devpg

import (
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// watchdog is a shell that waits for the end of this process, which it sees as
// the end of its input. It then stops the server, where the kernel does not do
// that for us, and removes a throw-away directory, which otherwise would stay
// until the next sweep.
type watchdog struct {
	cmd   *exec.Cmd
	input io.Closer
}

// $1 signal, $2 postmaster, $3 directory to remove or nothing. A dead server
// may stay a zombie for as long as init is slow, hence the bound.
const watchdogScript = `cat >/dev/null
kill -"$1" "$2" 2>/dev/null
[ -n "$3" ] || exit 0
i=0
while kill -0 "$2" 2>/dev/null && [ $i -lt 100 ]; do i=$((i+1)); sleep 0.05; done
rm -rf -- "$3"`

// watch starts the watchdog where there is something for it to do. Without a
// shell there is none: the sweep and the take-over of left-over servers remain.
func (s *Server) watch() *watchdog {
	if kernelBindsChildren && !s.remove {
		return nil
	}
	signal, dir := "INT", ""
	if s.remove {
		signal, dir = "QUIT", s.dir
	}
	return startWatchdog(signal, s.PID(), dir)
}

func startWatchdog(signal string, pid int, dir string) *watchdog {
	c := exec.Command("/bin/sh", "-c", watchdogScript, "sh", signal, strconv.Itoa(pid), dir) //nolint:noctx // outlives us
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := c.StdinPipe()
	if err != nil {
		return nil
	}
	if err := c.Start(); err != nil {
		_ = in.Close()
		return nil
	}
	return &watchdog{cmd: c, input: in}
}

// end calls the watchdog off: the server has ended under our eyes. It must not
// see the end of its input first.
func (w *watchdog) end() {
	if w == nil {
		return
	}
	_ = killGroup(w.cmd)
	_ = w.cmd.Wait()
	_ = w.input.Close()
}
