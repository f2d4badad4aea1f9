package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc: USER_HZ, 100 on every architecture Go runs on.
const tick = 10 * time.Millisecond

// processor is the time that the processes have used so far, those they have
// waited for included.
func processor(pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		f := statFields(pid)
		if len(f) < 15 {
			continue
		}
		for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime, counted from the state
			n, _ := strconv.ParseInt(f[i], 10, 64)
			sum += time.Duration(n) * tick
		}
	}
	return sum
}

// statFields are the fields of /proc/PID/stat from the state on: the name before
// it may hold spaces.
func statFields(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// family is a process and its children: a PostgreSQL server.
func family(parent int) []int {
	pids := []int{parent}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, s := range stats {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(s)))
		if f := statFields(pid); len(f) > 1 && f[1] == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// parentOf is the process that started pid, and what it is called.
func parentOf(pid int) (parent int, name string) {
	f := statFields(pid)
	if len(f) < 2 {
		return 0, ""
	}
	parent, _ = strconv.Atoi(f[1])
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	return parent, strings.TrimSpace(string(b))
}

// busy is the time that all processors of the machine have worked so far; stolen is
// that in which they would have, and the host of a virtual machine let others work.
func busy() (worked, stolen time.Duration) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	for i, v := range strings.Fields(line) {
		n, _ := strconv.ParseInt(v, 10, 64)
		switch i {
		case 1, 2, 3, 6, 7: // user, nice, system, irq, softirq; guests are counted in user
			worked += time.Duration(n) * tick
		case 8:
			stolen = time.Duration(n) * tick
		}
	}
	return worked, stolen
}

// peakRSS is the most memory that the process has had resident.
func peakRSS(pid int) int64 { return statusKB(pid, "VmHWM:") << 10 }

func statusKB(pid int, name string) int64 {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), name); ok {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb
		}
	}
	return 0
}

func processorName() string { return lineOf("/proc/cpuinfo", "model name") }

func memoryBytes() int64 {
	kb, _ := strconv.ParseInt(strings.TrimSuffix(lineOf("/proc/meminfo", "MemTotal"), " kB"), 10, 64)
	return kb << 10
}

func kernel() string {
	b, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return "Linux " + strings.TrimSpace(string(b))
}

// lineOf is what follows the colon in the first line that begins with the name.
func lineOf(path, name string) string {
	b, _ := os.ReadFile(path)
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
