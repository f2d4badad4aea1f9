//go:build linux

package crashtest

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/crashtest/judge"
	"github.com/daybookhq/daybook/internal/pgtest"
)

// cluster is several engines and workers over one PostgreSQL and one NATS server,
// each a process.
type cluster struct {
	t       *testing.T
	r       *rand.Rand
	dir     string
	journal string
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
	c := &cluster{t: t, r: r, dir: dir, journal: filepath.Join(dir, "journal"), pg: pgtest.Durable(t, nil)}
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

func (c *cluster) startEngine(i int) {
	c.t.Helper()
	env := []string{"DATABASE_URL=" + c.db.DSNFor("daybook_engine"), "NATS_URL=" + c.nats.url()}
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

// fault does something bad and waits until the system is whole again.
func (c *cluster) fault(kind string) {
	c.t.Helper()
	c.t.Logf("%s", kind)
	from := time.Now()
	clusterFaults[kind](c)
	for i, e := range c.engines {
		awaitReady(c.t, e, httpURL(c.ports[i]))
	}
	awaitWork(c.t, c.journal, c.processes()...)
	c.faults = append(c.faults, judge.Fault{Kind: kind, Window: judge.Window{From: from, Until: time.Now()}})
}

// TestClusterKilled kills each kind of process in turn.
func TestClusterKilled(t *testing.T) {
	t.Parallel()
	r := newRand(t)
	c := newCluster(t, r)
	log := follow(t, filepath.Join(c.pg.Dir(), "log"))
	w := newWorkload(t, setting(t, jobsVar, 60), c.journal)
	w.apply(t, c.store)
	awaitWork(t, c.journal, c.processes()...)

	kinds := []string{"worker killed", "engine killed", "postmaster killed", "nats killed", "worker frozen", "backend killed"}
	if long() {
		kinds = append(kinds, "nats wiped", "engine frozen", "worker stopped", "all killed", "engine stopped")
	}
	for i := range setting(t, roundsVar, len(kinds)) {
		time.Sleep(between(r, 200*time.Millisecond, 2*time.Second))
		c.fault(kinds[i%len(kinds)])
	}
	w.pause(t, c.store)
	left := drain(t, c.store, c.processes()...)
	h := collect(t, c.store, w.jobs, c.journal, c.faults, left)
	c.store.Close()
	for _, p := range append(append([]*process{}, c.workers...), c.engines...) {
		p.stop(patience)
	}
	c.nats.stop(patience)
	pass(t, h)
	for _, p := range c.processes() {
		for _, line := range crashed(p.tail()) {
			t.Errorf("%s: %s", p.name, line)
		}
	}
	checkServerLog(t, log)
}
