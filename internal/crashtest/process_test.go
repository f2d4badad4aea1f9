//go:build linux

package crashtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// process is a process under test. The kernel kills it if the test dies.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	log  string
	from int64         // where in the log its own lines begin
	done chan struct{} // closed when it has been reaped
	err  error         // set before done is closed
	want atomic.Bool   // its end was asked for
}

// launch starts a program whose output goes to a file of the test's.
func launch(t *testing.T, dir, name, path string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if end, err := out.Stat(); err == nil {
		p.from = end.Size()
	}
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.Env = append(clean(os.Environ()), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The signal comes when the thread ends that started the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		defer out.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() { p.kill(syscall.SIGKILL) })
	return p
}

// clean takes out of the environment what would configure the program.
func clean(env []string) (out []string) {
	for _, v := range env {
		if !strings.HasPrefix(v, "DAYBOOK_") && !strings.HasPrefix(v, "DATABASE_URL=") && !strings.HasPrefix(v, "NATS_") && !strings.HasPrefix(v, "LD_PRELOAD=") && !strings.HasPrefix(v, "FAKETIME") && !strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "PG_BINDIR=") {
			out = append(out, v)
		}
	}
	return out
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s syscall.Signal) {
	select {
	case <-p.done: // reaped: the number may be another process's
	default:
		_ = p.cmd.Process.Signal(s)
	}
}

// kill ends the process and waits until it is gone.
func (p *process) kill(s syscall.Signal) {
	p.want.Store(true)
	p.signal(s)
	if s == syscall.SIGKILL {
		<-p.done
	}
}

// stop asks the process to end, as an operator does, and expects that it does so
// without complaint.
func (p *process) stop(within time.Duration) {
	p.t.Helper()
	// One that has said nothing yet may not have come to listen for signals, and would just die.
	await(p.t, p.name+" says something", []*process{p}, func() (bool, string) {
		info, err := os.Stat(p.log)
		return err == nil && info.Size() > p.from, "its log is empty"
	})
	p.kill(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Errorf("%s did not stop within %s\n%s", p.name, within, p.tail())
		p.kill(syscall.SIGKILL)
		return
	}
	if p.err != nil {
		p.t.Errorf("%s stopped with %v\n%s", p.name, p.err, p.tail())
	}
}

// ended reports whether the process ended without being asked to.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return !p.want.Load()
	default:
		return false
	}
}

// tail is the end of what the process wrote.
func (p *process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 4000
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return string(b)
}

// entry is a line of a program's log.
type entry struct {
	Level, Msg, Loop, Error string
	Status                  int
}

// checkLog finds in what a process wrote, in all its lives, what no outage explains.
func checkLog(t *testing.T, p *process) {
	t.Helper()
	log, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	complaints := map[string]int{}
	for line := range strings.Lines(string(log)) {
		line = strings.TrimSpace(line)
		var e entry
		switch err := json.Unmarshal([]byte(line), &e); {
		case err == nil && (e.Level == "WARN" || e.Level == "ERROR"):
			what := strings.TrimSpace(e.Level + " " + e.Msg + " " + e.Loop)
			complaints[what]++
			if e.Level == "ERROR" && !e.excused() && complaints[what] == 1 {
				t.Errorf("%s: %s", p.name, line)
			}
		case strings.HasPrefix(line, "panic:"), strings.HasPrefix(line, "fatal error:"), strings.Contains(line, "DATA RACE"):
			t.Errorf("%s: %s", p.name, line)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(complaints)) {
		t.Logf("%s, %d times: %s", p.name, complaints[what], what)
	}
}

// excused reports whether the complaint is about the database or the broker being
// away, which is what the test did.
func (e entry) excused() bool {
	switch e.Msg {
	case "PostgreSQL ended unasked and is started again", "PostgreSQL does not start":
		return true
	case "request failed":
		return e.Status == http.StatusServiceUnavailable
	}
	return outage.MatchString(e.Error)
}

// outage is how errors read that tell of a server that is away.
var outage = regexp.MustCompile(`dial error|failed to connect|connection re(fused|set)|broken pipe|unexpected EOF|conn closed|` +
	`SQLSTATE (57P0[123]|25006|25P03|53100)|i/o timeout|deadline exceeded|nats: (timeout|no responders|connection closed|disconnected)`)

// family is the process with all its descendants, children before their parents'
// siblings.
func family(pid int) []int {
	children := map[int][]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		if child, parent, err := parentOf(d); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

func parentOf(dir string) (pid, parent int, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, 0, err
	}
	// "pid (name) state ppid …", where the name may hold anything.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 2 {
		return 0, 0, fmt.Errorf("%s/stat: %q", dir, b)
	}
	pid, err1 := strconv.Atoi(filepath.Base(dir))
	parent, err2 := strconv.Atoi(string(f[1]))
	return pid, parent, errors.Join(err1, err2)
}

// annihilate kills the process with all its descendants, the parent first, so
// that it sees nobody die before it.
func (p *process) annihilate() {
	all := family(p.pid())
	p.want.Store(true)
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-p.done
}

// awaitGone waits until none of the processes exists any more.
func awaitGone(t *testing.T, what string, pids []int) {
	t.Helper()
	await(t, what+" are gone", nil, func() (bool, string) {
		for _, pid := range pids {
			if programOf(pid) != "" {
				return false, fmt.Sprintf("process %d", pid)
			}
		}
		return true, ""
	})
}

// programOf is the command line of a process; empty if it is gone or a zombie.
func programOf(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
}
