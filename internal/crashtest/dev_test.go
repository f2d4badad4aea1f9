//go:build linux

package crashtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/crashtest/judge"
	"github.com/daybookhq/daybook/internal/needs"
	"github.com/daybookhq/daybook/internal/proctest"
)

// dev is `daybook dev`, which is killed and started again.
type dev struct {
	*proctest.Process
	t      *testing.T
	dir    string
	port   int
	work   *workload
	worker *proctest.Process // beside it, and never killed
	file   devFile
	faults []judge.Fault
	starts []time.Duration // from exec to ready
}

type devFile struct {
	PID      int    `json:"pid"`
	Database string `json:"database"`
	HTTP     string `json:"http"`
	NATS     string `json:"nats"`
}

func (d *dev) start() {
	d.t.Helper()
	d.Process = proctest.Launch(d.t, d.dir, "dev", binary, nil, "dev", "--data", filepath.Join(d.dir, "data"), "--http", fmt.Sprintf("127.0.0.1:%d", d.port),
		"--slots", "32", "--log-level", "info", "--lease", leases)
}

// awaitReady waits for the process that runs now, not for the file that its
// predecessor left behind.
func (d *dev) awaitReady() {
	d.t.Helper()
	began := time.Now()
	proctest.Await(d.t, "dev is ready", []*proctest.Process{d.Process}, func() (bool, string) {
		b, err := os.ReadFile(filepath.Join(d.dir, "data", "dev.json"))
		if err != nil {
			return false, err.Error()
		}
		var f devFile
		if err := json.Unmarshal(b, &f); err != nil || f.PID != d.PID() {
			return false, fmt.Sprintf("dev.json is of process %d: %v", f.PID, err)
		}
		d.file = f
		return proctest.Ready(f.HTTP)
	})
	d.starts = append(d.starts, time.Since(began))
}

// postgres finds the private server's processes, the postmaster first.
func (d *dev) postgres() (postmaster int, backends []int) {
	for _, pid := range family(d.PID()) {
		program := programOf(pid)
		switch {
		case strings.Contains(program, "-D "+filepath.Join(d.dir, "data", "postgres")):
			postmaster = pid
		case strings.HasPrefix(program, "postgres: ") && strings.Contains(program, "daybook_engine"):
			backends = append(backends, pid)
		}
	}
	return postmaster, backends
}

// fault does something bad and waits until the system is whole again.
func (d *dev) fault(r *rand.Rand, kind string) {
	d.t.Helper()
	from := time.Now()
	postmaster, backends := d.postgres()
	if postmaster == 0 || len(backends) == 0 {
		d.t.Fatalf("PostgreSQL is not found among the processes: postmaster %d, backends %v", postmaster, backends)
	}
	d.t.Logf("%s", kind)
	switch kind {
	case "everything":
		annihilate(d.Process)
		d.start()
	case "dev":
		d.Kill()
		d.start()
	case "stopped": // as an operator does
		d.Stop()
		d.start()
	case "twice": // the second time while it recovers
		annihilate(d.Process)
		d.start()
		time.Sleep(between(r, 0, 1500*time.Millisecond))
		annihilate(d.Process)
		d.start()
	case "postmaster": // its backends follow
		_ = syscall.Kill(postmaster, syscall.SIGKILL)
		awaitGone(d.t, "backends", append(backends, postmaster))
	case "backend": // the postmaster ends the others and recovers
		_ = syscall.Kill(backends[r.IntN(len(backends))], syscall.SIGKILL)
		awaitGone(d.t, "backends", backends)
	}
	if d.file.PID != d.PID() {
		d.awaitReady()
	} else {
		proctest.Await(d.t, "dev works again", []*proctest.Process{d.Process}, func() (bool, string) { return proctest.Ready(d.file.HTTP) })
	}
	d.work.await(d.t, d.Process, d.worker)
	d.faults = append(d.faults, judge.Fault{Kind: kind, Window: judge.Window{From: from, Until: time.Now()}})
}

// TestDevKilled kills `daybook dev`, the database under it and the commands that
// run, starts it again, and expects that nobody has to help.
func TestDevKilled(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	dir := proctest.ShortDir(t)
	d := &dev{t: t, dir: dir, port: proctest.FreePort(t)}
	log := follow(t, filepath.Join(dir, "data", "postgres", "log"))

	// The first start makes the database. What a kill in the middle of that
	// leaves behind must not be taken for one.
	d.start()
	time.Sleep(between(r, 100*time.Millisecond, 3*time.Second))
	annihilate(d.Process)
	d.start()
	d.awaitReady()

	// A worker that was started beside it has to find it again by itself.
	d.worker = proctest.Launch(t, dir, "worker", binary, nil, "worker", "--data", filepath.Join(dir, "data"), "--allow-exec", "--queue", outside, "--slots", "4")
	d.work = newWorkload(t, setting(t, jobsVar, 60), filepath.Join(dir, "journal"), filepath.Join(dir, "journal-outside"))
	store := openStore(t, d.file.Database)
	d.work.apply(t, store)
	d.work.await(t, d.Process, d.worker)
	time.Sleep(calm)

	rounds := setting(t, roundsVar, 3)
	kinds := []string{"everything", "postmaster", "twice", "dev", "backend", "stopped"}
	for i := range rounds {
		kind := kinds[i%len(kinds)]
		time.Sleep(between(r, 500*time.Millisecond, 4*time.Second))
		d.fault(r, kind)
	}
	d.work.pause(t, store)
	left := drain(t, store, d.Process, d.worker)
	h := collect(t, store, d.work, d.faults, left)
	h.Feed = readFeed(t, d.file.NATS, len(h.Events))
	store.Close()
	ending := judge.Window{From: time.Now()}
	d.worker.Stop()
	d.Stop()
	ending.Until = time.Now()
	h.Settings = settings("dev killed", 0)
	save(t, dir, h, d.Log(), d.worker.Log())
	pass(t, h)
	t.Logf("from start to ready: %s", durations(d.starts))
	checkLog(t, d.Process)
	checkLog(t, d.worker)
	checkServerLog(t, log, withdrawn(append(stoppedBy(d.faults), ending)...))
	if _, err := os.Stat(filepath.Join(dir, "data", "dev.json")); err == nil {
		t.Error("dev.json is left after a clean stop")
	}
}

// TestFirstStartKilled kills `daybook dev` while it makes its database, at another
// moment each time, over what the kill before left behind.
func TestFirstStartKilled(t *testing.T) {
	needs.Asked(t, roundsVar, "TestDevKilled does it one time")
	t.Parallel()
	r := newRand(t)
	dir := proctest.ShortDir(t)
	d := &dev{t: t, dir: dir, port: proctest.FreePort(t)}
	log := follow(t, filepath.Join(dir, "data", "postgres", "log"))
	for range setting(t, roundsVar, 1) {
		d.start()
		time.Sleep(between(r, 0, 4*time.Second))
		if d.Ended() {
			t.Fatalf("dev ended unasked: %v\n%s", d.Err(), d.Tail())
		}
		annihilate(d.Process)
	}
	d.start()
	d.awaitReady()
	ending := judge.Window{From: time.Now()}
	d.Stop()
	ending.Until = time.Now()
	checkLog(t, d.Process)
	checkServerLog(t, log, withdrawn(ending))
}

func durations(all []time.Duration) string {
	var s []string
	for _, d := range all {
		s = append(s, strconv.FormatFloat(d.Seconds(), 'f', 1, 64)+" s")
	}
	return strings.Join(s, ", ")
}
