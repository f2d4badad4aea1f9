//go:build linux

package crashtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/crashpoint"
	"github.com/daybookhq/daybook/internal/crashtest/judge"
	"github.com/daybookhq/daybook/internal/pgtest"
)

// cluster is several engines and workers over one PostgreSQL and one NATS server,
// each a process.
type cluster struct {
	t       *testing.T
	r       *rand.Rand
	dir     string
	work    *workload
	pg      *pgtest.Cluster
	db      *pgtest.DB
	nats    *broker
	ports   []int // of the engines
	engines []*process
	workers []*process
	store   *eventstore.Store
	faults  []judge.Fault
}

const replicas = 2

func newCluster(t *testing.T, r *rand.Rand) *cluster {
	t.Helper()
	dir := shortDir(t)
	c := &cluster{t: t, r: r, dir: dir, pg: pgtest.Durable(t, nil)}
	c.work = newWorkload(t, setting(t, jobsVar, 60), filepath.Join(dir, "journal"))
	c.db = c.pg.New(t)
	c.nats = startBroker(t, dir)
	c.engines, c.workers = make([]*process, replicas), make([]*process, replicas)
	for i := range replicas {
		c.ports = append(c.ports, freePort(t))
		c.startEngine(i)
	}
	for i := range replicas {
		awaitReady(t, c.engines[i], httpURL(c.ports[i]))
		c.startWorker(i)
	}
	c.store = openStore(t, c.db.DSNFor("daybook_engine"))
	return c
}

func (c *cluster) startEngine(i int, env ...string) {
	c.t.Helper()
	env = append(env, "DATABASE_URL="+c.db.DSNFor("daybook_engine"), "NATS_URL="+c.nats.url())
	c.engines[i] = launch(c.t, c.dir, fmt.Sprintf("engine-%d", i), binary, env, "serve", "--nats-replicas", "1",
		"--http", fmt.Sprintf("127.0.0.1:%d", c.ports[i]), "--lease", leases)
}

// startWorker starts a worker that knows one engine by its address, and the
// others through NATS.
func (c *cluster) startWorker(i int) {
	c.t.Helper()
	env := []string{"NATS_URL=" + c.nats.url(), "DAYBOOK_URL=" + httpURL(c.ports[i])}
	c.workers[i] = launch(c.t, c.dir, fmt.Sprintf("worker-%d", i), binary, env, "worker", "--allow-exec", "--slots", "16")
}

func (c *cluster) processes() []*process {
	return append(append([]*process{c.nats.process}, c.engines...), c.workers...)
}

// faults by name. Each leaves the system as it was, except for what it broke.
var clusterFaults = map[string]func(*cluster){
	"engine killed": func(c *cluster) {
		i := c.r.IntN(replicas)
		c.engines[i].kill(syscall.SIGKILL)
		c.rest()
		c.startEngine(i)
	},
	"engine stopped": func(c *cluster) {
		i := c.r.IntN(replicas)
		c.engines[i].stop(patience)
		c.startEngine(i)
	},
	"engine frozen": func(c *cluster) { // in the middle of whatever it does
		p := c.engines[c.r.IntN(replicas)]
		p.signal(syscall.SIGSTOP)
		time.Sleep(between(c.r, time.Second, 12*time.Second))
		p.signal(syscall.SIGCONT)
	},
	"engine killed at a point": func(c *cluster) { // around a commit or a publication
		i := c.r.IntN(replicas)
		c.engines[i].kill(syscall.SIGKILL)
		points := crashpoint.All()
		point := points[c.r.IntN(len(points))]
		c.startEngine(i, fmt.Sprintf("%s=%s:%d:kill", crashpoint.Var, point, 1+c.r.IntN(10)))
		select {
		case <-c.engines[i].done:
			c.t.Logf("died at %s", point)
		case <-time.After(8 * time.Second): // not everything happens at any time
			c.engines[i].kill(syscall.SIGKILL)
		}
		c.startEngine(i)
	},
	"worker killed": func(c *cluster) {
		i := c.r.IntN(replicas)
		c.workers[i].kill(syscall.SIGKILL)
		c.rest()
		c.startWorker(i)
	},
	"worker stopped": func(c *cluster) {
		i := c.r.IntN(replicas)
		c.workers[i].stop(patience)
		c.startWorker(i)
	},
	"worker frozen": func(c *cluster) { // for longer than its leases
		p := c.workers[c.r.IntN(replicas)]
		p.signal(syscall.SIGSTOP)
		time.Sleep(between(c.r, 10*time.Second, 12*time.Second))
		p.signal(syscall.SIGCONT)
	},
	"nats killed": func(c *cluster) {
		c.nats.kill(syscall.SIGKILL)
		c.rest()
		c.nats.start()
	},
	"nats frozen": func(c *cluster) { // its clients' connections stay open
		c.nats.signal(syscall.SIGSTOP)
		time.Sleep(between(c.r, time.Second, 12*time.Second))
		c.nats.signal(syscall.SIGCONT)
	},
	"nats wiped": func(c *cluster) {
		c.nats.kill(syscall.SIGKILL)
		c.nats.wipe()
		c.nats.start()
	},
	"postmaster killed": func(c *cluster) {
		c.pg.Crash(c.t)
		c.rest()
		c.pg.Start(c.t)
	},
	"backend killed": func(c *cluster) { // the postmaster ends the others and recovers
		pids := c.backends()
		_ = syscall.Kill(pids[c.r.IntN(len(pids))], syscall.SIGKILL)
		awaitGone(c.t, "backends", pids)
	},
	"database frozen": func(c *cluster) { // in the middle of whatever it does
		pids := family(c.pg.PID())
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		time.Sleep(between(c.r, time.Second, 12*time.Second))
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	},
	"all killed": func(c *cluster) {
		for _, p := range c.processes() {
			p.signal(syscall.SIGKILL)
		}
		c.pg.Crash(c.t)
		for _, p := range c.processes() {
			p.kill(syscall.SIGKILL)
		}
		c.pg.Start(c.t)
		c.nats.start()
		for i := range replicas {
			c.startEngine(i)
			c.startWorker(i)
		}
	},
}

// backends are the server's processes that work for the engines.
func (c *cluster) backends() (pids []int) {
	c.t.Helper()
	for _, pid := range family(c.pg.PID()) {
		if p := programOf(pid); strings.HasPrefix(p, "postgres: ") && strings.Contains(p, "daybook_engine") {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		c.t.Fatal("no backends are found")
	}
	return pids
}

// rest is how long something stays away. At times it is back at once.
func (c *cluster) rest() { time.Sleep(between(c.r, 0, 3*time.Second)) }

// fault does something bad, or several things one after another, and waits until
// the system is whole again.
func (c *cluster) fault(kinds ...string) {
	c.t.Helper()
	from := time.Now()
	for _, kind := range kinds {
		c.t.Logf("%s", kind)
		clusterFaults[kind](c)
	}
	for i, e := range c.engines {
		awaitReady(c.t, e, httpURL(c.ports[i]))
	}
	c.work.await(c.t, c.processes()...)
	for _, kind := range kinds {
		c.faults = append(c.faults, judge.Fault{Kind: kind, Window: judge.Window{From: from, Until: time.Now()}})
	}
}

// clusterSample is what is done by default, and what the long run begins with.
var clusterSample = []string{"worker killed", "engine killed", "postmaster killed", "nats killed", "worker frozen", "backend killed"}

// TestClusterKilled kills each kind of process in turn.
func TestClusterKilled(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	c := newCluster(t, r)
	log := follow(t, filepath.Join(c.pg.Dir(), "log"))
	c.work.apply(t, c.store)
	c.work.await(t, c.processes()...)
	time.Sleep(calm)

	rounds := setting(t, roundsVar, len(clusterSample))
	all := slices.Sorted(maps.Keys(clusterFaults))
	for i := range rounds {
		time.Sleep(between(r, 200*time.Millisecond, 2*time.Second))
		switch {
		case i < len(clusterSample):
			c.fault(clusterSample[i])
		case i%3 == 0:
			c.fault(all[r.IntN(len(all))], all[r.IntN(len(all))])
		default:
			c.fault(all[i%len(all)])
		}
	}
	c.work.pause(t, c.store)
	left := drain(t, c.store, c.processes()...)
	h := collect(t, c.store, c.work, c.faults, left)
	if !slices.ContainsFunc(c.faults, func(f judge.Fault) bool { return f.Kind == "nats wiped" }) { // which takes the events along
		h.Feed = readFeed(t, c.nats.url(), len(h.Events))
	}
	c.store.Close()
	for _, p := range append(append([]*process{}, c.workers...), c.engines...) {
		p.stop(patience)
	}
	c.nats.stop(patience)
	pass(t, h)
	for _, p := range c.processes() {
		checkLog(t, p)
	}
	checkServerLog(t, log, c.excuses()...)
}

// excuses are what the server may complain about after what was done.
func (c *cluster) excuses() (more []judge.Excuse) {
	for _, f := range c.faults {
		switch f.Kind {
		case "database frozen":
			more = append(more,
				excuse(`^transaction took \S+ and would commit runs behind the claimers`, "a transaction was frozen in the middle, and is decided again"),
				excuse(`^canceling statement due to (user request|statement timeout|lock timeout)`, "who asked gave up waiting for a frozen server"))
		case "engine frozen":
			more = append(more,
				excuse(`^terminating connection due to idle-in-transaction timeout`, "an engine was frozen in the middle of a transaction"),
				excuse(`^canceling statement due to lock timeout`, "another engine waited for the rows of a frozen one"))
		}
	}
	return more
}
