//go:build linux

package crashtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/crashtest/judge"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/internal/proctest"
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
	nats    *proctest.NATS
	ports   []int // of the engines
	engines []*proctest.Process
	workers []*proctest.Process // replicas of the built-in one, then as many with a witness
	seen    *witnesses
	store   *eventstore.Store
	admin   *pgxpool.Pool
	asker   *asker
	reader  *reader
	links   map[string][]*link // by the pair of processes that they join
	faults  []judge.Fault
	healed  time.Time    // when the last one was over
	ending  judge.Window // when all were asked to stop
	burst   []judge.Asked
	letGo   func() // of the transaction that is held open
	options
}

// options are what differs between tests. The zero value is what most have.
type options struct {
	program string // instead of the program under test: one that is broken on purpose
	jobs    int
	disk    *disk         // to keep the servers' files on, small enough to be filled
	held    time.Duration // how long a transaction is kept open, at most
}

const replicas = 2

func newCluster(t *testing.T, r *rand.Rand, o options) *cluster {
	t.Helper()
	dir := proctest.ShortDir(t)
	c := &cluster{t: t, r: r, dir: dir, links: map[string][]*link{}, letGo: func() {}, options: o}
	c.held = cmp.Or(o.held, 4*time.Second)
	c.program, c.jobs = cmp.Or(o.program, binary), cmp.Or(o.jobs, setting(t, jobsVar, 60))
	pgDir, natsDir := "", dir
	if o.disk != nil {
		pgDir, natsDir = o.disk.sub(t, "postgres"), o.disk.sub(t, "nats")
	}
	c.pg = pgtest.DurableIn(t, pgDir, nil)
	c.work = newWorkload(t, c.jobs, filepath.Join(dir, "journal"))
	c.seen = &witnesses{dir: dir}
	c.work.watch(t, c.seen)
	c.db = c.pg.New(t)
	c.admin = c.db.Pool(t, "")
	watchOutbox(t, c.admin)
	c.nats = proctest.StartNATS(t, natsDir)
	c.engines, c.workers = make([]*proctest.Process, replicas), make([]*proctest.Process, 2*replicas)
	for i := range replicas {
		c.ports = append(c.ports, proctest.FreePort(t))
		c.join(engineDatabase, c.dialDatabase)
		c.join(engineBroker, toPort(c.nats.Port()))
		c.startEngine(i)
	}
	for i := range 2 * replicas {
		c.join(workerBroker, toPort(c.nats.Port()))
		c.join(workerEngine, toPort(c.ports[i%replicas]))
	}
	for i := range replicas {
		awaitReady(t, c.engines[i], httpURL(c.ports[i]))
		c.startWorker(i)
		c.startWorker(replicas + i)
	}
	c.store = openStore(t, c.db.DSNFor("daybook_engine"))
	return c
}

// The pairs of processes that a link joins. Each process has a link of its own.
const (
	engineDatabase = "engine and database"
	engineBroker   = "engine and broker"
	workerBroker   = "worker and broker"
	workerEngine   = "worker and engine"
)

func (c *cluster) join(pair string, target func() (net.Conn, error)) {
	c.t.Helper()
	c.links[pair] = append(c.links[pair], newLink(c.t, fmt.Sprintf("%s %d", pair, len(c.links[pair])), target))
}

func (c *cluster) dialDatabase() (net.Conn, error) {
	return net.DialTimeout("unix", filepath.Join(c.pg.Dir(), "s", ".s.PGSQL.5432"), 5*time.Second)
}

// startWitness starts a worker with a witness, which may be trapped.
func (c *cluster) startWitness(i int, tr *trap) {
	c.t.Helper()
	broker, engine := natsURL(c.links[workerBroker][i].port()), httpURL(c.links[workerEngine][i].port())
	c.workers[i] = c.seen.launch(c.t, fmt.Sprintf("witness-%d", i-replicas), broker, engine, 16, tr)
}

// begin sets everything going.
func (c *cluster) begin() {
	c.t.Helper()
	c.work.apply(c.t, c.store)
	c.reader = startReading(c.store)
	var urls []string
	for _, p := range c.ports {
		urls = append(urls, httpURL(p))
	}
	c.asker = startAsking(c.r.Uint64(), asked, urls)
	c.work.await(c.t, c.processes()...)
}

// end stops everything, and tells what there was.
func (c *cluster) end(s judge.Settings) judge.History {
	c.t.Helper()
	c.letGo()
	requests := append(c.asker.end(), c.burst...)
	c.work.pause(c.t, c.store)
	left := drain(c.t, c.store, c.processes()...)
	c.leftovers(left)
	h := collect(c.t, c.store, c.work, c.faults, left)
	h.Settings, h.Asked, h.Tail = s, requests, c.reader.end()
	h.Settings.Healed, h.Settings.CommitsLost = c.healed, c.commitsLost()
	readDispatches(c.t, c.admin, &h)
	if !slices.ContainsFunc(c.faults, func(f judge.Fault) bool { return losesEvents[f.Kind] }) {
		h.Feed = readFeed(c.t, c.nats.URL(), len(h.Events))
	}
	c.store.Close()
	c.admin.Close()
	c.ending.From = time.Now()
	for _, p := range append(append([]*proctest.Process{}, c.workers...), c.engines...) {
		p.Stop()
	}
	c.ending.Until = time.Now()
	c.nats.Stop()
	if err := c.seen.read(&h); err != nil {
		c.t.Fatal(err)
	}
	return h
}

// losesEvents are the faults that take the published events along.
var losesEvents = map[string]bool{"nats wiped": true}

// leftovers counts what is left in the broker and of transactions. Both have a
// while: messages go with their leases, and a transaction may be under way.
func (c *cluster) leftovers(left map[string]int) {
	c.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		open := 0
		err := c.admin.QueryRow(c.t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND state LIKE 'idle in transaction%' AND clock_timestamp() - xact_start > interval '2 s'`).Scan(&open)
		if err != nil {
			c.t.Fatal(err)
		}
		messages, pending, err := undelivered(c.nats.URL())
		left[judge.OpenTransactions], left["messages to workers"], left["unacknowledged messages"] = open, messages, pending
		if err == nil && open+messages+pending == 0 || time.Now().After(deadline) {
			if err != nil {
				c.t.Error(err)
			}
			return
		}
	}
}

func (c *cluster) startEngine(i int, env ...string) {
	c.t.Helper()
	database := fmt.Sprintf("postgres://daybook_engine@127.0.0.1:%d/%s?sslmode=disable", c.links[engineDatabase][i].port(), c.db.Name)
	env = append(env, "DATABASE_URL="+database, "NATS_URL="+natsURL(c.links[engineBroker][i].port()))
	c.engines[i] = proctest.Launch(c.t, c.dir, fmt.Sprintf("engine-%d", i), c.program, env, "serve", "--nats-replicas", "1",
		"--http", fmt.Sprintf("127.0.0.1:%d", c.ports[i]), "--lease", leases)
}

// startWorker starts a worker that knows one engine by its address, and the
// others through NATS.
func (c *cluster) startWorker(i int) {
	c.t.Helper()
	broker, engine := natsURL(c.links[workerBroker][i].port()), httpURL(c.links[workerEngine][i].port())
	if i >= replicas {
		c.startWitness(i, nil)
		return
	}
	env := []string{"NATS_URL=" + broker, "DAYBOOK_URL=" + engine}
	c.workers[i] = proctest.Launch(c.t, c.dir, fmt.Sprintf("worker-%d", i), c.program, env, "worker", "--allow-exec", "--slots", "16")
}

// logs are the files that the processes wrote.
func (c *cluster) logs() (names []string) {
	for _, p := range c.processes() {
		names = append(names, p.Log())
	}
	return names
}

func (c *cluster) processes() []*proctest.Process {
	return append(append([]*proctest.Process{c.nats.Process}, c.engines...), c.workers...)
}

// backends are the server's processes that work for the engines.
func (c *cluster) backends() (pids []int) {
	c.t.Helper()
	// Whoever was parted from the database a moment ago has to come back first.
	proctest.Await(c.t, "backends", c.processes(), func() (bool, string) {
		for _, pid := range family(c.pg.PID()) {
			if p := programOf(pid); strings.HasPrefix(p, "postgres: ") && strings.Contains(p, "daybook_engine") {
				pids = append(pids, pid)
			}
		}
		return len(pids) > 0, "none is found"
	})
	return pids
}

// rest is how long something stays away. At times it is back at once.
func (c *cluster) rest() { time.Sleep(between(c.r, 0, 3*time.Second)) }

// fault does something bad, or several things one after another, and waits until
// the system is whole again. A pair of processes that is parted stays so while the
// others happen.
func (c *cluster) fault(kinds ...string) {
	c.t.Helper()
	began := make([]time.Time, len(kinds))
	// A fault that meets no run proves nothing, and a lull between two runs is not rare.
	var strikes int
	proctest.Await(c.t, "a run is in hand", c.processes(), func() (bool, string) {
		strikes = c.inHand()
		return strikes > 0, "no claims"
	})
	var heal []func()
	for i, kind := range kinds {
		began[i] = time.Now()
		c.t.Logf("%s, with %d runs in hand", kind, strikes)
		switch p, ok := partitions[kind]; {
		case diskFaults[kind] != nil:
			diskFaults[kind](c)
		case clusterFaults[kind] != nil:
			clusterFaults[kind](c)
		case i+1 < len(kinds):
			heal = append(heal, c.part(p))
		case !ok:
			c.t.Fatalf("no fault is named %q", kind)
		default:
			join := c.part(p)
			time.Sleep(between(c.r, time.Second, 12*time.Second))
			join()
		}
	}
	for _, join := range heal {
		join()
	}
	c.healed = time.Now()
	for i, e := range c.engines {
		awaitReady(c.t, e, httpURL(c.ports[i]))
	}
	c.work.await(c.t, c.processes()...)
	for i, kind := range kinds {
		c.faults = append(c.faults, judge.Fault{Kind: kind, Window: judge.Window{From: began[i], Until: time.Now()}, Stalls: strings.HasSuffix(kind, "frozen"), Strikes: strikes})
	}
}

// inHand is how many runs a fault is about to meet; none if the database is away
// already.
func (c *cluster) inHand() (n int) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
	defer cancel()
	_ = c.admin.QueryRow(ctx, "SELECT count(*) FROM claims").Scan(&n)
	return n
}

// clusterSample is what is done by default, and what the long run begins with.
var clusterSample = []string{
	"worker killed", "engine killed", "postmaster killed", "nats killed", "worker frozen", "backend killed", "outcome of another claim",
	engineDatabase + " without answers to COMMIT", workerBroker + " in a black hole", "consumers deleted", "database read-only",
}

// TestClusterKilled kills each kind of process in turn.
func TestClusterKilled(t *testing.T) {
	t.Parallel()
	r, seed := newSeededRand(t)
	c := newCluster(t, r, options{})
	log := follow(t, filepath.Join(c.pg.Dir(), "log"))
	c.begin()
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
	c.verdict(settings("killed", seed), log)
}

// excuses are what the server may complain about after what was done.
func (c *cluster) excuses() (more []judge.Excuse) {
	for _, f := range c.faults {
		more = append(more, complaints[f.Kind]...)
		if p, ok := partitions[f.Kind]; ok && p.pair == engineDatabase {
			more = append(more, parted...)
		}
	}
	return append(more, withdrawn(append(stoppedBy(c.faults), c.ending)...))
}
