//go:build linux

package crashtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/internal/crashpoint"
	"github.com/daybookhq/daybook/internal/proctest"
	"github.com/daybookhq/daybook/worker/protocol"
)

// partition is a way to part a pair of processes.
type partition struct {
	pair  string
	state linkState
}

// partitions are all of them, by name.
var partitions = func() map[string]partition {
	all := map[string]partition{}
	for _, pair := range []string{engineDatabase, engineBroker, workerBroker, workerEngine} {
		all[pair+" cut"] = partition{pair, severed}
		all[pair+" in a black hole"] = partition{pair, hole}
		all[pair+" without answers"] = partition{pair, deaf}
		all[pair+" without questions"] = partition{pair, mute}
	}
	all[engineDatabase+" without answers to COMMIT"] = partition{engineDatabase, forgetful}
	return all
}()

// part parts one pair of processes, or all pairs of the kind, and returns what
// joins them again.
func (c *cluster) part(p partition) (join func()) {
	links := c.links[p.pair]
	if c.r.IntN(2) == 0 {
		n := c.r.IntN(len(links))
		links = links[n : n+1]
	}
	for _, k := range links {
		c.t.Logf("%s is parted", k.name)
		k.set(p.state)
	}
	return func() {
		for _, k := range links {
			k.set(whole)
		}
	}
}

// commitsLost is how many answers to a COMMIT never arrived.
func (c *cluster) commitsLost() (n int) {
	for _, k := range c.links[engineDatabase] {
		n += k.swallowed()
	}
	return n
}

// serverFaults are done to the servers themselves, or to parts in the middle of
// something.
var serverFaults = map[string]func(*cluster){
	"database restarted": func(c *cluster) {
		if err := c.pg.Stop(c.t.Context()); err != nil {
			c.t.Error(err)
		}
		c.rest()
		c.pg.Start(c.t)
	},
	"database stopped at once": func(c *cluster) {
		_ = syscall.Kill(c.pg.PID(), syscall.SIGQUIT)
		c.restartDatabase()
	},
	"backends terminated": func(c *cluster) {
		c.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'daybook_engine'")
	},
	"database read-only": func(c *cluster) {
		c.sql("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
		time.Sleep(between(c.r, time.Second, 6*time.Second))
		c.sql("SET default_transaction_read_only = off", "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
	},
	"transaction held open": func(c *cluster) { // which keeps dead rows, and the xid horizon
		c.letGo()
		conn, err := pgx.Connect(c.t.Context(), c.db.DSN)
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := conn.Exec(c.t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id(), count(*) FROM jobs"); err != nil {
			c.t.Fatal(err)
		}
		over, gone := make(chan struct{}), make(chan struct{})
		go func() { // while other things happen
			defer close(gone)
			select {
			case <-over:
			case <-time.After(c.held):
			}
			_ = conn.Close(context.Background())
		}()
		c.letGo = sync.OnceFunc(func() { close(over); <-gone })
		c.t.Cleanup(c.letGo)
	},
	"stream deleted": func(c *cluster) {
		c.jetstream(func(ctx context.Context, js jetstream.JetStream) error {
			return js.DeleteStream(ctx, protocol.DispatchStream)
		})
	},
	"consumers deleted": func(c *cluster) {
		c.jetstream(func(ctx context.Context, js jetstream.JetStream) error {
			s, err := js.Stream(ctx, protocol.DispatchStream)
			if err != nil {
				return err
			}
			names := s.ConsumerNames(ctx)
			for name := range names.Name() {
				if err := s.DeleteConsumer(ctx, name); err != nil {
					return err
				}
			}
			return names.Err()
		})
	},
	// What is under way arrives when it is long too late.
	"worker cut off from everything": func(c *cluster) {
		n := c.r.IntN(len(c.workers))
		c.cutOff(c.links[workerBroker][n], c.links[workerEngine][n])
	},
	"engine cut off from everything": func(c *cluster) {
		n := c.r.IntN(replicas)
		c.cutOff(c.links[engineDatabase][n], c.links[engineBroker][n])
	},
	// As a worker says it whose claim is gone, or was never there: after a restore, or by mistake.
	"outcome of another claim": func(c *cluster) { c.strayOutcome() },
	"relay frozen":             func(c *cluster) { c.freezeAt(crashpoint.RelayPrePublish, 1+c.r.IntN(5)) },
	"reaper frozen": func(c *cluster) { // with the claims of a dead worker in its hands
		i := replicas + c.r.IntN(replicas)
		c.workers[i].Kill()
		c.freezeAt(crashpoint.ReaperPostSelect, 1)
		c.startWorker(i)
	},
	"claimer frozen": func(c *cluster) { c.freezeAt(crashpoint.ClaimPreCommit, 1+c.r.IntN(5)) },
}

// strayOutcome tells an engine that runs have succeeded which are running, by claims
// that are not theirs, until one of them was still running when it heard.
func (c *cluster) strayOutcome() {
	c.t.Helper()
	proctest.Await(c.t, "an outcome meets a run that is running", c.processes(), func() (bool, string) {
		ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
		defer cancel()
		rows, err := c.admin.Query(ctx, "SELECT run_id FROM claims WHERE started_at IS NOT NULL LIMIT 100")
		if err != nil {
			return false, err.Error()
		}
		running, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil || len(running) == 0 {
			return false, fmt.Sprint("no run is running ", err)
		}
		var q protocol.CompleteRequest
		for _, run := range running {
			q.Items = append(q.Items, protocol.CompleteItem{RunID: run, ClaimID: uuid.New()})
		}
		var reply protocol.Reply[protocol.Result]
		status, err := post(ctx, httpURL(c.ports[0])+protocol.HTTPPath(protocol.OpComplete), q, &reply)
		for _, r := range reply.Results {
			// What was recorded is for the judge to find.
			if r.Code == protocol.StaleClaim || r.Status == protocol.StatusRecorded {
				return true, ""
			}
		}
		return false, fmt.Sprint(status, " ", err, " ", reply.Error)
	})
}

// diskFaults need a disk that is small enough.
var diskFaults = map[string]func(*cluster){
	"database's disk full": func(c *cluster) {
		free := c.disk.fill(c.t, "postgres")
		time.Sleep(between(c.r, 2*time.Second, 5*time.Second))
		free()
		select {
		case <-c.pg.Done(): // it could not even recover
			c.restartDatabase()
		case <-time.After(3 * time.Second):
		}
	},
	"broker's disk full": func(c *cluster) {
		free := c.disk.fill(c.t, "nats")
		time.Sleep(between(c.r, 2*time.Second, 10*time.Second))
		free()
		// Its streams take nothing until it is started again, and seem to be well.
		// Workers poll meanwhile.
		c.work.await(c.t, c.processes()...)
		c.nats.Kill()
		c.nats.Start()
	},
}

// restartDatabase starts the database again after it has ended by itself.
func (c *cluster) restartDatabase() {
	c.t.Helper()
	<-c.pg.Done()
	_ = c.pg.Stop(c.t.Context()) // it says how the server ended
	c.rest()
	c.pg.Start(c.t)
}

// cutOff holds everything up on the links, for longer than a lease.
func (c *cluster) cutOff(links ...*link) {
	for _, k := range links {
		k.set(hole)
	}
	time.Sleep(between(c.r, 9*time.Second, 12*time.Second))
	for _, k := range links {
		k.set(whole)
	}
}

// sql runs statements as the superuser, all on one connection.
func (c *cluster) sql(statements ...string) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.db.DSN)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, s := range statements {
		if _, err := conn.Exec(c.t.Context(), s); err != nil {
			c.t.Fatalf("%s: %v", s, err)
		}
	}
}

func (c *cluster) jetstream(do func(context.Context, jetstream.JetStream) error) {
	c.t.Helper()
	nc, err := nats.Connect(c.nats.URL())
	if err != nil {
		c.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	if err := do(ctx, js); err != nil {
		c.t.Fatal(err)
	}
}

// freezeAt has an engine stop at the point, for longer than a lease. Not
// everything happens at any time: it is let go if it does not come there.
func (c *cluster) freezeAt(point crashpoint.Point, hit int) {
	c.t.Helper()
	i := c.r.IntN(replicas)
	c.engines[i].Kill()
	c.startEngine(i, fmt.Sprintf("%s=%s:%d:stop", crashpoint.Var, point, hit))
	p := c.engines[i]
	for deadline := time.Now().Add(20 * time.Second); !stopped(p.PID()); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Logf("%s was not reached", point)
			p.Kill() // else it would stop there later, with nobody to let it go on
			c.startEngine(i)
			return
		}
	}
	time.Sleep(between(c.r, 9*time.Second, 12*time.Second))
	p.Signal(syscall.SIGCONT)
}

// trapWorker has a worker killed, or stopped for longer than a lease, at the point.
func (c *cluster) trapWorker(point string, stop bool) {
	c.t.Helper()
	i := replicas + c.r.IntN(replicas)
	c.workers[i].Kill()
	c.startWitness(i, &trap{Point: point, Hit: 1 + c.r.Int64N(4), Stop: stop})
	p := c.workers[i]
	p.Expect(true)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		select {
		case <-p.Done():
			c.startWorker(i)
			return
		default:
		}
		if stop && stopped(p.PID()) {
			break
		}
		if time.Now().After(deadline) {
			c.t.Logf("%s was not reached", point)
			p.Kill()
			c.startWorker(i)
			return
		}
	}
	time.Sleep(between(c.r, 9*time.Second, 12*time.Second))
	p.Signal(syscall.SIGCONT)
	p.Expect(false)
}

// stopped reports whether a process is, by a signal.
func stopped(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	s := string(b)
	return strings.HasPrefix(s[strings.LastIndexByte(s, ')')+1:], " T")
}

// disk is file systems in memory, one for each server, which can be full.
type disk struct{ dir string }

// newDisk needs the right to mount.
func newDisk(t *testing.T, size string, names ...string) (*disk, error) {
	t.Helper()
	d := &disk{proctest.ShortDir(t)}
	for _, name := range names {
		dir := filepath.Join(d.dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,size="+size); err != nil {
			return nil, fmt.Errorf("mount a small disk: %w", err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	return d, nil
}

// sub is a directory of a server's on its disk.
func (d *disk) sub(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(d.dir, name, "d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fill takes all space that is left, and returns what gives it back.
func (d *disk) fill(t *testing.T, name string) (free func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(d.dir, name, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1<<20)
	for size := len(b); size >= 4096; {
		if _, err := f.Write(b[:size]); err != nil {
			size /= 2
		}
	}
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			t.Error(err)
		}
	}
}
