//go:build linux

package crashtest

import (
	"fmt"
	"maps"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/internal/crashpoint"
)

// clusterFaults by name. Each leaves the system as it was, except for what it
// broke.
var clusterFaults = func() map[string]func(*cluster) {
	all := maps.Clone(processFaults)
	maps.Copy(all, serverFaults)
	for _, point := range workerPoints {
		all["worker killed at "+point] = func(c *cluster) { c.trapWorker(point, false) }
		all["worker stopped at "+point+", and frozen"] = func(c *cluster) { c.trapWorker(point, true) }
	}
	return all
}()

var processFaults = map[string]func(*cluster){
	"engine killed": func(c *cluster) {
		i := c.r.IntN(replicas)
		c.engines[i].Kill()
		c.rest()
		c.startEngine(i)
	},
	"engine stopped": func(c *cluster) {
		i := c.r.IntN(replicas)
		c.engines[i].Stop()
		c.startEngine(i)
	},
	"engine frozen": func(c *cluster) { // in the middle of whatever it does
		p := c.engines[c.r.IntN(replicas)]
		p.Signal(syscall.SIGSTOP)
		time.Sleep(between(c.r, time.Second, 12*time.Second))
		p.Signal(syscall.SIGCONT)
	},
	"engine killed at a point": func(c *cluster) { // around a commit or a publication
		i := c.r.IntN(replicas)
		c.engines[i].Kill()
		points := crashpoint.All()
		point := points[c.r.IntN(len(points))]
		c.startEngine(i, fmt.Sprintf("%s=%s:%d:kill", crashpoint.Var, point, 1+c.r.IntN(10)))
		select {
		case <-c.engines[i].Done():
			c.t.Logf("died at %s", point)
		case <-time.After(8 * time.Second): // not everything happens at any time
			c.engines[i].Kill()
		}
		c.startEngine(i)
	},
	"worker killed": func(c *cluster) {
		i := c.r.IntN(len(c.workers))
		c.workers[i].Kill()
		c.rest()
		c.startWorker(i)
	},
	"worker stopped": func(c *cluster) {
		i := c.r.IntN(len(c.workers))
		c.workers[i].Stop()
		c.startWorker(i)
	},
	"worker frozen": func(c *cluster) { // for longer than its leases
		p := c.workers[c.r.IntN(len(c.workers))]
		p.Signal(syscall.SIGSTOP)
		time.Sleep(between(c.r, 10*time.Second, 12*time.Second))
		p.Signal(syscall.SIGCONT)
	},
	"nats killed": func(c *cluster) {
		c.nats.Kill()
		c.rest()
		c.nats.Start()
	},
	"nats frozen": func(c *cluster) { // its clients' connections stay open
		c.nats.Signal(syscall.SIGSTOP)
		time.Sleep(between(c.r, time.Second, 12*time.Second))
		c.nats.Signal(syscall.SIGCONT)
	},
	"nats wiped": func(c *cluster) {
		c.nats.Kill()
		c.nats.Wipe()
		c.nats.Start()
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
			p.Signal(syscall.SIGKILL)
		}
		c.pg.Crash(c.t)
		for _, p := range c.processes() {
			p.Kill()
		}
		c.pg.Start(c.t)
		c.nats.Start()
		for i := range replicas {
			c.startEngine(i)
			c.startWorker(i)
			c.startWorker(replicas + i)
		}
	},
}
