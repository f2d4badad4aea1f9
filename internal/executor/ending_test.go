//go:build unix

package executor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/needs"
)

// long is far more than any test waits for: what lasts that long was not ended.
const long = time.Hour

// running reports whether the process still runs; a zombie, which only waits for its parent, does not.
func running(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

// pidsIn waits until n lines stand in the file, each a process id.
func pidsIn(t *testing.T, file string, n int) []int {
	t.Helper()
	var pids []int
	eventually(t, fmt.Sprintf("%d process ids in %s", n, file), func() bool {
		text, _ := os.ReadFile(file)
		pids = nil
		for f := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
		return len(pids) == n && strings.HasSuffix(string(text), "\n")
	})
	return pids
}

// runUntil runs the line, which writes n process ids to $F, and ends its context with cause once it has done so.
func runUntil(t *testing.T, line string, n int, o Options, cause error) (Result, []int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	done := make(chan Result, 1)
	target := Target{Shell: line, Env: map[string]EnvValue{"F": Literal(file)}}
	go func() { done <- Run(ctx, target, o) }()
	pids := pidsIn(t, file, n)
	cancel(cause)
	return <-done, pids
}

func TestEveryProcessOfTheCommandEndsWithItsContext(t *testing.T) {
	bash, _ := exec.LookPath("bash")
	for _, c := range []struct {
		name, line string
		pids       int
		grace      time.Duration
		how        string
	}{
		{"shell and grandchild", `echo $$ >>$F; sh -c 'echo $$ >>$F; sleep 3600; :'; :`, 2, long, "ended by SIGTERM"},
		{"background grandchild", `echo $$ >>$F; sleep 3600 >/dev/null & echo $! >>$F; wait`, 2, long, "ended by SIGTERM"},
		{"grandchild deaf to SIGTERM", `echo $$ >>$F; sh -c 'trap "" TERM; echo $$ >>$F; while :; do sleep 1; done' >/dev/null; :`,
			2, 100 * time.Millisecond, "killed, because it was still running 100ms after SIGTERM"},
		{"deaf to SIGTERM", `trap "" TERM; echo $$ >>$F; while :; do sleep 1; done`,
			1, 100 * time.Millisecond, "killed, because it was still running 100ms after SIGTERM"},
		{"stopped", `echo $$ >>$F; kill -STOP $$; sleep 3600`, 1, long, "ended by SIGTERM"},
		{"job control", bash + ` -c 'set -m; echo $$ >>$F; sleep 3600 >/dev/null & echo $! >>$F; wait'`, 2, long, "ended by SIGTERM"},
		{"job control, deaf", bash + ` -c 'set -m; (trap "" TERM; echo $BASHPID >>$F; while :; do sleep 1; done) >/dev/null & wait'`,
			1, 100 * time.Millisecond, "killed, because it was still running 100ms after SIGTERM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			needs.That(t, !strings.HasPrefix(c.name, "job control") || bash != "" && runtime.GOOS == "linux", "machine has no bash, or is not Linux")
			cause := errors.New("the lease is lost")
			r, pids := runUntil(t, c.line, c.pids, Options{Grace: c.grace}, cause)
			wantError(t, r, TypeCancelled, Retry)
			if !errors.Is(r.Err, cause) {
				t.Fatalf("error %v does not wrap the cause", r.Err)
			}
			if want := "cancelled (the lease is lost); " + c.how; r.Err.Message != want {
				t.Fatalf("message %q, want %q", r.Err.Message, want)
			}
			for _, pid := range pids {
				if running(pid) {
					t.Errorf("process %d still runs", pid)
				}
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := Run(ctx, sh("echo begun; sleep 3600"), Options{Grace: long})
	wantError(t, r, TypeTimeout, Retry)
	if !errors.Is(r.Err, context.DeadlineExceeded) || !strings.HasPrefix(r.Err.Message, "timed out after ") || !strings.HasSuffix(r.Err.Message, "; ended by SIGTERM") {
		t.Fatalf("error %q", r.Err)
	}
}

func TestCommandMayTidyUpInItsGrace(t *testing.T) {
	r, _ := runUntil(t, `exec 2>/dev/null; trap 'echo tidied; exit 0' TERM; echo $$ >>$F; while :; do sleep 0.01; done`, 1, Options{Grace: long}, nil)
	wantError(t, r, TypeCancelled, Retry) // status 0, and yet nobody knows that the work was done
	if r.Output.Head != "tidied\n" || r.ExitCode != 0 {
		t.Fatalf("output %q, status %d", r.Output, r.ExitCode)
	}

	// A shell without a trap ends at once; what it had started has the grace all the same.
	r, _ = runUntil(t, `exec 2>/dev/null; (trap 'sleep 0.2; echo tidied; exit 0' TERM; sh -c 'echo $PPID >>$F'; while :; do sleep 0.01; done) & wait`, 1, Options{Grace: long}, nil)
	wantError(t, r, TypeCancelled, Retry)
	if r.Output.Head != "tidied\n" {
		t.Fatalf("output %q", r.Output)
	}
}

func TestOutcomeThatCameFirstStands(t *testing.T) {
	c, e := prepare(sh("exit 0"), Options{})
	if e != nil {
		t.Fatal(e)
	}
	p, err := start(c, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.out.Close()
	ctx, cancel := context.WithCancel(t.Context())
	p.awaitExit()
	cancel()
	// Nobody has told watch of the exit yet: it must look before it signals.
	if how := p.watch(ctx, nil, long); how != notEnded {
		t.Fatalf("a command that had succeeded counts as ended: %v", how)
	}
	if state, err := p.reap(); err != nil || !state.Success() {
		t.Fatalf("state %v, error %v", state, err)
	}
}

func TestBackgroundProcessNeitherHoldsTheRunNorIsEnded(t *testing.T) {
	r := Run(t.Context(), sh("sleep 3600 & echo $!"), Options{WaitDelay: 50 * time.Millisecond})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(r.Output.Head))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	if !running(pid) {
		t.Fatal("the background process was ended; cron leaves it alone")
	}
}

func TestCommandDiesWithItsWorker(t *testing.T) {
	needs.That(t, runtime.GOOS == "linux", "machine has not the parent-death signal of Linux")
	file := filepath.Join(t.TempDir(), "pids")
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), asWorker+"=echo $$ >"+file+"; exec sleep 3600")
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	pid := pidsIn(t, file, 1)[0]
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	eventually(t, "the command of a killed worker has ended", func() bool { return !running(pid) })
}

func TestManyCommandsAtOnce(t *testing.T) {
	const n = 40
	results := make(chan Result, n)
	for i := range n {
		go func() { results <- Run(t.Context(), sh(fmt.Sprintf("cat; echo %d", i)), Options{Args: []byte(`"x"`)}) }()
	}
	var got []string
	for range n {
		r := <-results
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		got = append(got, strings.TrimPrefix(strings.TrimSpace(r.Output.Head), `"x"`))
	}
	slices.Sort(got)
	if got = slices.Compact(got); len(got) != n {
		t.Fatalf("%d different outputs, want %d", len(got), n)
	}
}

func TestCommandHasNoTerminalAndItsOwnSession(t *testing.T) {
	r := Run(t.Context(), sh("ps -o sid=,pgid=,tty= -p $$; echo $$"), Options{})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	lines := bufio.NewScanner(strings.NewReader(r.Output.Head))
	lines.Scan()
	f := strings.Fields(lines.Text())
	lines.Scan()
	if pid := lines.Text(); len(f) != 3 || f[0] != pid || f[1] != pid || strings.Trim(f[2], "?") != "" {
		t.Fatalf("session, group, terminal %v of process %s", f, pid)
	}
}
