//go:build linux

// Package proctest runs the program under test as what it is: processes, over a
// real PostgreSQL and a NATS server in a process of its own.
package proctest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Patience is for what should take a second or two. It is long because the
// machine may be slow and PostgreSQL may have to recover; whoever meets it has
// failed.
const Patience = 90 * time.Second

// Process is a process under test. The kernel kills it if the test dies.
type Process struct {
	Name string
	URL  string // of its HTTP port, if it has one

	t    testing.TB
	cmd  *exec.Cmd
	log  string
	from int64         // where in the log its own lines begin
	done chan struct{} // closed when it has been reaped
	err  error         // set before done is closed
	want atomic.Bool   // its end was asked for
}

// Launch starts a program whose output goes to NAME.log in dir. Of this
// process's environment it gets what does not configure Daybook, and env.
func Launch(t testing.TB, dir, name, path string, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{Name: name, t: t, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if end, err := out.Stat(); err == nil {
		p.from = end.Size()
	}
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	p.cmd.Env = append(Environ(), env...)
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
	t.Cleanup(func() { p.Kill() })
	return p
}

// Environ is this process's environment without what would configure Daybook.
func Environ() (out []string) {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if name == "PG_BINDIR" || name != "LD_PRELOAD" && !strings.HasPrefix(name, "FAKETIME") && !strings.HasPrefix(name, "DAYBOOK_") && !strings.HasPrefix(name, "NATS_") && !strings.HasPrefix(name, "PG") &&
			name != "DATABASE_URL" && name != "MIGRATE_DATABASE_URL" {
			out = append(out, v)
		}
	}
	return out
}

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal unless the process has been reaped: its number may be
// another's then.
func (p *Process) Signal(s syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Signal(s)
	}
}

// Kill ends the process at once and waits until it is gone.
func (p *Process) Kill() {
	p.want.Store(true)
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Stop asks the process to end, as an operator does, and expects that it does so
// without complaint.
func (p *Process) Stop() {
	p.t.Helper()
	// One that has said nothing yet may not have come to listen for signals, and would just die.
	Await(p.t, p.Name+" says something", []*Process{p}, func() (bool, string) {
		info, err := os.Stat(p.log)
		return err == nil && info.Size() > p.from, "its log is empty"
	})
	p.Expect(true)
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(Patience):
		p.t.Errorf("%s did not stop within %s\n%s", p.Name, Patience, p.Tail())
		p.Kill()
		return
	}
	if p.err != nil {
		p.t.Errorf("%s stopped with %v\n%s", p.Name, p.err, p.Tail())
	}
}

// Expect says whether the process may end from now on.
func (p *Process) Expect(end bool) { p.want.Store(end) }

// Done is closed when the process has ended and been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how it ended, once Done is closed.
func (p *Process) Err() error { return p.err }

// Log is the file of what the process and those of its name before it wrote.
func (p *Process) Log() string { return p.log }

// Ended reports whether the process ended without being asked to.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return !p.want.Load()
	default:
		return false
	}
}

// Output is everything that the process and those of its name before it wrote.
func (p *Process) Output() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Tail is the end of its output.
func (p *Process) Tail() string {
	const most = 4000
	s := p.Output()
	return s[max(0, len(s)-most):]
}

// Await polls until the condition holds, and fails the test if it never does or
// if a process ends that should not.
func Await(t testing.TB, what string, procs []*Process, holds func() (bool, string)) {
	t.Helper()
	var why string
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, p := range procs {
			if p.Ended() {
				t.Fatalf("%s: %s ended unasked: %v\n%s", what, p.Name, p.err, p.Tail())
			}
		}
		var ok bool
		if ok, why = holds(); ok {
			return
		}
	}
	for _, p := range procs {
		why += "\n" + p.Name + ": " + p.Tail()
	}
	t.Fatalf("%s: not within %s: %s", what, Patience, why)
}

// Get asks a process over HTTP.
func Get(url string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Ready tells whether an engine says that it can work, and if not, why.
func (p *Process) Ready() (bool, string) { return Ready(p.URL) }

// Ready asks the engine of that URL.
func Ready(url string) (bool, string) {
	status, body, err := Get(url + "/readyz")
	return err == nil && status == http.StatusOK, fmt.Sprint(status, " ", body, err)
}

// AwaitReady waits until the engine can work.
func (p *Process) AwaitReady() {
	p.t.Helper()
	Await(p.t, p.Name+" is ready", []*Process{p}, p.Ready)
}

// FreePort finds a port for a server that will be away at times. It is not one of
// those the kernel gives to outgoing connections (32768 and up): one of these may
// take it meanwhile, even a client that asks for that very server, since TCP lets a
// connection meet itself.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.IntN(22_000))))
		if err == nil {
			defer l.Close()
			return l.Addr().(*net.TCPAddr).Port
		}
	}
	t.Fatal("no free port below the ephemeral ones")
	return 0
}

// ShortDir is a directory for unix sockets, whose paths are bounded, that the
// account of a database server can pass through. It is kept if the test fails.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dbpt-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kept: %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	return dir
}

// Wait waits until a process has ended that ends by itself, whatever its status.
func (p *Process) Wait() {
	p.want.Store(true)
	<-p.done
}

// Usage is what a process holds of the system.
type Usage struct {
	Resident    int64 // bytes
	Threads     int
	Descriptors int
}

// Usage reads it from /proc.
func (p *Process) Usage() (u Usage, err error) {
	dir := fmt.Sprintf("/proc/%d/", p.PID())
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		switch f := strings.Fields(line); f[0] {
		case "VmRSS:": // in kB
			u.Resident, err = strconv.ParseInt(f[1], 10, 64)
			u.Resident <<= 10
		case "Threads:":
			u.Threads, err = strconv.Atoi(f[1])
		}
		if err != nil {
			return u, err
		}
	}
	fds, err := os.ReadDir(dir + "fd")
	u.Descriptors = len(fds)
	return u, err
}

// Metrics reads an engine's metrics, summed over their labels.
func Metrics(url string) (map[string]float64, error) {
	status, body, err := Get(url + "/metrics")
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("metrics: %d %w", status, err)
	}
	sums := map[string]float64{}
	for line := range strings.Lines(body) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] == "#" {
			continue
		}
		name, _, _ := strings.Cut(f[0], "{")
		v, err := strconv.ParseFloat(f[len(f)-1], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %q: %w", line, err)
		}
		sums[name] += v
	}
	return sums, nil
}
