package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/httpapi"
	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/worker"
	"github.com/daybookhq/daybook/worker/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()...) }

// cluster is one database and one broker, with any number of engines and
// workers.
type cluster struct {
	t     *testing.T
	db    *pgtest.DB
	admin *pgxpool.Pool
	nats  *natstest.Server
	store *eventstore.Store // for the test's own commands
	url   string            // HTTP of the first engine
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, db: pgtest.New(t), nats: natstest.New(t)}
	c.admin = c.db.Pool(t, "")
	c.store = c.openStore()
	return c
}

func (c *cluster) openStore() *eventstore.Store {
	c.t.Helper()
	s, err := eventstore.Open(c.t.Context(), eventstore.Config{DSN: c.db.DSNFor("daybook_engine"), Actor: "test"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(s.Close)
	return s
}

// background runs f until the test ends or stop is called, and fails the test if
// it returns an error.
func (c *cluster) background(name string, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil {
			c.t.Errorf("%s: %v", name, err)
		}
	}()
	stop = func() { cancel(); <-done }
	c.t.Cleanup(stop)
	return stop
}

func topology() natsjs.Topology { return natsjs.EmbeddedTopology() }

// newEngine makes one replica with stores and connections of its own.
func (c *cluster) newEngine(id string, topology natsjs.Topology) *Engine {
	c.t.Helper()
	nc, err := natsjs.Connect(natsjs.ConnectOptions{URL: c.nats.URL(), Name: id, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	e, err := New(Config{ID: id, Host: "test", Version: "test", Roles: AllRoles, Store: c.openStore(), NATS: nc, Topology: topology,
		Registry: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(testWriter{c.t}, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		c.t.Fatal(err)
	}
	return e
}

// startEngine starts one replica.
func (c *cluster) startEngine(id string) (e *Engine, stop func()) {
	c.t.Helper()
	e = c.newEngine(id, topology())
	if err := e.Prepare(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	stopLoops := c.background(id, e.Run)
	srv := httptest.NewServer(httpapi.Handler(httpapi.Config{Work: e.Service(), Ready: e.Ready, Gather: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)}))
	if c.url == "" {
		c.url = srv.URL
	}
	var once sync.Once
	stop = func() { once.Do(func() { srv.Close(); stopLoops(); e.c.NATS.Close() }) }
	c.t.Cleanup(stop)
	return e, stop
}

// startWorker starts a worker for the kind noop.
func (c *cluster) startWorker(name string, slots int, f func(context.Context, worker.Run[json.RawMessage]) error) (stop func()) {
	c.t.Helper()
	w := worker.New(worker.Config{NATSURL: c.nats.URL(), URL: c.url, Slots: slots, Name: name, DrainTimeout: 5 * time.Second,
		NATSOptions: []nats.Option{nats.ReconnectWait(20 * time.Millisecond)}, Logger: slog.New(slog.DiscardHandler)})
	worker.Handle(w, "noop", f)
	return c.background(name, w.Run)
}

func (c *cluster) apply(spec domain.JobSpec) {
	c.t.Helper()
	if _, err := c.store.CommandJobs(c.t.Context(), []eventstore.JobCommand{{Name: spec.Name, Do: domain.ApplyJob{Spec: spec}}}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) request(job string, n int) []uuid.UUID {
	c.t.Helper()
	got, err := c.store.Request(c.t.Context(), make([]eventstore.RunRequest, 0))
	if err != nil || len(got) != 0 {
		c.t.Fatal(got, err)
	}
	requests := make([]eventstore.RunRequest, n)
	for i := range requests {
		requests[i].Job = job
	}
	if got, err = c.store.Request(c.t.Context(), requests); err != nil {
		c.t.Fatal(err)
	}
	ids := make([]uuid.UUID, n)
	for i, g := range got {
		if g.Err != nil {
			c.t.Fatal(g.Err)
		}
		ids[i] = g.RunID
	}
	return ids
}

func noop(name string) domain.JobSpec {
	return domain.JobSpec{Name: name, TimeZone: "UTC", Queue: "default", Kind: "noop", Retry: domain.DefaultRetry(), Overlap: domain.OverlapAllow,
		Misfire: domain.MisfireLatest, CatchupWindow: domain.DefaultCatchupWindow, MaxCatchup: 100, Priority: 5}
}

// count runs a query that yields one number.
func (c *cluster) count(sql string, args ...any) int {
	c.t.Helper()
	var n int
	if err := c.admin.QueryRow(c.t.Context(), sql, args...).Scan(&n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// await waits until the query yields n.
func (c *cluster) await(n int, within time.Duration, sql string, args ...any) {
	c.t.Helper()
	deadline := time.Now().Add(within)
	got := 0
	for time.Now().Before(deadline) {
		if got = c.count(sql, args...); got == n {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.t.Fatalf("%s: %d after %s, want %d\n%s", sql, got, within, n, c.describe())
}

func (c *cluster) describe() string {
	rows, err := c.admin.Query(context.WithoutCancel(c.t.Context()), `SELECT 'due ' || count(*) FROM due_runs UNION ALL
		SELECT 'claims ' || count(*) || ' started ' || count(start_token) FROM claims UNION ALL SELECT 'outbox ' || count(*) || ' ' || coalesce(max(last_error), '') FROM outbox UNION ALL
		SELECT type || ' ' || count(*) FROM events GROUP BY type`)
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	out := ""
	for rows.Next() {
		var s string
		_ = rows.Scan(&s)
		out += s + "\n"
	}
	return out
}

// checkLog folds every stream: legal paths, at most one terminal event, and with
// attempts as many attempts as each run was to need.
func (c *cluster) checkLog(attempts int) {
	c.t.Helper()
	cursor := eventstore.Cursor{}
	runs := map[uuid.UUID]domain.Run{}
	for {
		page, next, err := c.store.Read(c.t.Context(), cursor, 5000)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, rec := range page {
			ev, err := rec.Event()
			if err != nil {
				c.t.Fatal(err)
			}
			if re, ok := ev.(domain.RunEvent); ok {
				r := runs[rec.StreamID]
				r.ID = rec.StreamID
				if r, err = domain.EvolveRun(r, re, rec.At); err != nil {
					c.t.Error(err)
				}
				runs[rec.StreamID] = r
			}
		}
		if cursor = next; len(page) < 5000 {
			break
		}
	}
	for id, r := range runs {
		if !r.State.Terminal() {
			c.t.Errorf("run %s is %s", id, r.State)
		}
		if attempts > 0 && r.Attempt != attempts {
			c.t.Errorf("run %s was charged %d attempts, want %d", id, r.Attempt, attempts)
		}
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) { w.t.Logf("%s", p); return len(p), nil }

const succeededRuns = "SELECT count(*) FROM events WHERE type = 'RunSucceeded'"

func TestRunsGoThroughBrokerAndWorkers(t *testing.T) {
	c := newCluster(t)
	c.startEngine("engine-1")
	var calls atomic.Int64
	var mu sync.Mutex
	seen := map[string]int{}
	c.startWorker("w-1", 20, func(_ context.Context, r worker.Run[json.RawMessage]) error {
		calls.Add(1)
		mu.Lock()
		defer mu.Unlock()
		seen[r.ID]++
		if string(r.Args) != `{"n":7}` {
			return worker.Fatal(fmt.Errorf("arguments are %s", r.Args))
		}
		return nil
	})
	s := noop("report")
	s.Args = json.RawMessage(`{"n":7}`)
	c.apply(s)
	ids := c.request("report", 300)
	c.await(len(ids), 30*time.Second, succeededRuns)
	if n := calls.Load(); n != int64(len(ids)) {
		t.Errorf("%d executions of %d runs, without any fault", n, len(ids))
	}
	for _, id := range ids {
		if seen[id.String()] != 1 {
			t.Errorf("run %s executed %d times", id, seen[id.String()])
		}
	}
	c.await(0, 5*time.Second, "SELECT (SELECT count(*) FROM claims) + (SELECT count(*) FROM due_runs) + (SELECT count(*) FROM outbox)")
	c.checkLog(1)
}

func TestFailuresAreRetriedAndThenFinal(t *testing.T) {
	c := newCluster(t)
	c.startEngine("engine-1")
	c.startWorker("w-1", 4, func(context.Context, worker.Run[json.RawMessage]) error { return errors.New("no luck") })
	s := noop("unlucky")
	s.Retry = domain.RetryPolicy{MaxAttempts: 3, Initial: domain.Duration(10 * time.Millisecond), Max: domain.Duration(20 * time.Millisecond), Multiplier: 2}
	c.apply(s)
	c.request("unlucky", 5)
	c.await(5, 20*time.Second, "SELECT count(*) FROM events WHERE type = 'RunFailed'")
	c.checkLog(3)
}

// What was claimed for a stream that is gone is dispatched again to the new one,
// and costs nobody an attempt.
func TestStreamDeletedMidFlight(t *testing.T) {
	c := newCluster(t)
	c.startEngine("engine-1")
	release := make(chan struct{})
	c.startWorker("w-1", 5, func(ctx context.Context, _ worker.Run[json.RawMessage]) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	})
	c.apply(noop("report"))
	c.request("report", 200)
	c.await(5, 20*time.Second, "SELECT count(*) FROM claims WHERE start_token IS NOT NULL")
	if err := c.nats.JetStream(t).DeleteStream(t.Context(), protocol.DispatchStream); err != nil {
		t.Fatal(err)
	}
	close(release)
	c.await(200, 60*time.Second, succeededRuns)
	c.checkLog(1)
}

// A broker that does not answer while an engine starts is no reason for the
// engine to end: whoever starts it again would meet the same broker.
func TestStartsWhileTheBrokerIsNotReady(t *testing.T) {
	c := newCluster(t)
	e := c.newEngine("engine-1", topology())
	passed, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if err := e.Prepare(passed); err != nil {
		t.Fatalf("Prepare: %v, want it left to Run", err)
	}
	if err := e.Ready(t.Context()); err == nil {
		t.Error("ready, and no stream was looked at")
	}
	c.background("engine-1", e.Run)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := e.Ready(t.Context())
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	other := topology()
	other.Dispatch.MaxMsgs--
	var differs *natsjs.MismatchError
	if err := c.newEngine("engine-2", other).Prepare(t.Context()); !errors.As(err, &differs) {
		t.Errorf("streams that are not as configured: %v, want the difference", err)
	}
}

// A worker goes on over HTTP while the broker is away, and nobody is charged.
func TestBrokerAwayForAWhile(t *testing.T) {
	c := newCluster(t)
	c.startEngine("engine-1")
	c.startWorker("w-1", 10, func(context.Context, worker.Run[json.RawMessage]) error { time.Sleep(5 * time.Millisecond); return nil })
	c.apply(noop("report"))
	c.request("report", 100)
	c.nats.Stop()
	c.request("report", 200)
	away := time.After(3 * time.Second)
	<-away
	c.nats.Restart(t)
	c.await(300, 60*time.Second, succeededRuns)
	c.checkLog(1)
}

func TestTwoEnginesTwoWorkersAndOneOfEachDies(t *testing.T) {
	c := newCluster(t)
	_, stop1 := c.startEngine("engine-1")
	c.startEngine("engine-2")
	handler := func(context.Context, worker.Run[json.RawMessage]) error { time.Sleep(2 * time.Millisecond); return nil }
	stopW := c.startWorker("w-1", 10, handler)
	c.startWorker("w-2", 10, handler)
	c.apply(noop("report"))
	c.request("report", 500)
	c.await(1, 20*time.Second, "SELECT least(count(*), 1) FROM events WHERE type = 'RunSucceeded'")
	stop1()
	c.request("report", 500)
	stopW()
	c.await(1000, 90*time.Second, succeededRuns)
	c.checkLog(0)
}
