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
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookhq/daybook/internal/proctest"
)

// entry is a line of a program's log.
type entry struct {
	Level, Msg, Loop, Error string
	Status                  int
}

// checkLog finds in what a process wrote, in all its lives, what no outage explains.
func checkLog(t *testing.T, p *proctest.Process) {
	t.Helper()
	log, err := os.ReadFile(p.Log())
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
				t.Errorf("%s: %s", p.Name, line)
			}
		case strings.HasPrefix(line, "panic:"), strings.HasPrefix(line, "fatal error:"), strings.Contains(line, "DATA RACE"):
			t.Errorf("%s: %s", p.Name, line)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(complaints)) {
		t.Logf("%s, %d times: %s", p.Name, complaints[what], what)
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
func annihilate(p *proctest.Process) {
	all := family(p.PID())
	p.Expect(true)
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-p.Done()
}

// awaitGone waits until none of the processes exists any more.
func awaitGone(t *testing.T, what string, pids []int) {
	t.Helper()
	proctest.Await(t, what+" are gone", nil, func() (bool, string) {
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
