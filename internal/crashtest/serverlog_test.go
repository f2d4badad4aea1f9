//go:build linux

package crashtest

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/crashtest/judge"
)

// follower keeps a whole PostgreSQL log, whose file is put aside at each start of
// the server: it holds each file open until it has read it to its end.
type follower struct {
	name string
	file *os.File
	text bytes.Buffer
	stop chan struct{}
	done chan struct{}
}

func follow(t *testing.T, name string) *follower {
	f := &follower{name: name, stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for {
			select {
			case <-f.stop:
				f.look()
				return
			case <-time.After(20 * time.Millisecond):
				f.look()
			}
		}
	}()
	t.Cleanup(func() { f.end() })
	return f
}

func (f *follower) look() {
	if f.file != nil {
		_, _ = io.Copy(&f.text, f.file)
		if sameFile(f.file, f.name) {
			return
		}
		// It has been put aside. Nobody writes to it any more.
		_, _ = io.Copy(&f.text, f.file)
		f.file.Close()
	}
	f.file, _ = os.Open(f.name)
	if f.file != nil {
		_, _ = io.Copy(&f.text, f.file)
	}
}

func sameFile(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b) && b.Size() >= a.Sys().(*syscall.Stat_t).Size
}

// end stops following and returns the whole log.
func (f *follower) end() string {
	select {
	case <-f.stop:
	default:
		close(f.stop)
		<-f.done
		if f.file != nil {
			f.file.Close()
		}
	}
	return f.text.String()
}

// excuses are what PostgreSQL may complain about when its processes and those of
// its clients are killed. Nothing that a statement of the program has done wrong
// is among them: no constraint, no fence, no deadlock, no time limit.
var excuses = []judge.Excuse{
	excuse(`^terminating connection due to unexpected postmaster exit`, "a backend whose postmaster was killed ends"),
	excuse(`^the database system is (starting up|in recovery mode|not yet accepting connections|shutting down)`, "a client came back before the server could serve it"),
	excuse(`^could not attach to dynamic shared area`, "a process of the server was started while the others ended"),
	excuse(`^pre-existing shared memory block`, "the server was started while backends of the killed one still ran, and is started again"),
	excuse(`^connection to client lost`, "a client was killed in the middle of a statement"),
	excuse(`^terminating (connection|background worker ".*") due to administrator command`, "a client was connected, or a query had helpers, when the server was stopped"),
}

// withdrawn excuses questions of a process that is asked to stop, while it does.
// At any other time somebody's limit was too short.
func withdrawn(stopping ...judge.Window) judge.Excuse {
	e := excuse(`^canceling statement due to user request`, "who asked was told to stop, and withdrew the question")
	e.In = append([]judge.Window{}, stopping...)
	return e
}

// stoppedBy are the times in which a fault asked a process to stop.
func stoppedBy(faults []judge.Fault) (stopping []judge.Window) {
	for _, f := range faults {
		if strings.HasSuffix(f.Kind, "stopped") {
			stopping = append(stopping, f.Window)
		}
	}
	return stopping
}

func checkServerLog(t *testing.T, f *follower, more ...judge.Excuse) {
	t.Helper()
	text := f.end()
	faults, used := judge.ServerLog(text, append(more, excuses...))
	for why, n := range used {
		t.Logf("PostgreSQL log, %d times: %s", n, why)
	}
	const most = 20
	for i, line := range faults {
		if i == most {
			t.Errorf("PostgreSQL: and %d more", len(faults)-most)
			break
		}
		t.Errorf("PostgreSQL: %s", line)
	}
}

func excuse(pattern, why string) judge.Excuse {
	return judge.Excuse{Why: why, Pattern: regexp.MustCompile(pattern)}
}
