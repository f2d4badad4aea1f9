//go:build linux

package restoretest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/devpg"
	"github.com/daybookhq/daybook/internal/proctest"
	"github.com/daybookhq/daybook/worker/protocol"
)

// leases are long enough for messages of the lost part to outlive the restore,
// and short enough for claims of the kept part to be waited for.
const leases = "publish=2s,queue_wait=2s,ack_wait=1s,max_deliver=3,execution=3s,complete=3s,dispatch_lease=45s,execution_lease=8s"

// world is a deployment whose database is lost and brought back.
type world struct {
	t                          *testing.T
	dir, bin, backups, archive string
	primary                    *devpg.Server
	dsn                        string // of the engines
	nats                       *proctest.NATS
	engines                    []*proctest.Process
	worker                     *proctest.Process
	journal                    string
	settings                   map[string]string
}

// jobsFile is a job that fires every second and makes up for everything, one
// that takes a while, and one that runs on request.
const jobsFile = `
jobs:
  - name: tick
    schedule: "@every 1s"
    misfire: all
    catchup_window: 24h
    max_catchup: 10000
    overlap: allow
    timeout: 1m
    retry: {max_attempts: 20, initial: 200ms, max: 1s}
    exec: {argv: [/bin/sh, -c, 'echo "$DAYBOOK_RUN_ID $DAYBOOK_JOB" >> JOURNAL']}
  - name: slow
    schedule: "@every 2s"
    misfire: all
    catchup_window: 24h
    max_catchup: 10000
    overlap: allow
    timeout: 1m
    retry: {max_attempts: 20, initial: 200ms, max: 1s}
    exec: {argv: [/bin/sh, -c, 'sleep 1; echo "$DAYBOOK_RUN_ID $DAYBOOK_JOB" >> JOURNAL']}
  - name: ask
    timeout: 1m
    retry: {max_attempts: 20, initial: 200ms, max: 1s}
    exec: {argv: [/bin/sh, -c, 'echo "$DAYBOOK_RUN_ID $DAYBOOK_JOB" >> JOURNAL']}
`

func newWorld(t *testing.T, settings map[string]string) *world {
	t.Helper()
	w := &world{t: t, dir: proctest.ShortDir(t), settings: settings}
	w.backups, w.archive = w.mkdir("backups"), w.mkdir("archive")
	for i, v := range w.settings {
		w.settings[i] = strings.ReplaceAll(v, "ARCHIVE", w.archive)
	}
	w.nats = proctest.StartNATS(t, w.dir)
	w.primary = w.server("a", w.settings)
	w.bin = w.primary.BinDir()
	w.own(w.backups)
	w.own(w.archive)
	w.dsn = w.engineDSN(w.primary)
	w.shell(w.backups, "install", "SERVER_URL="+w.primary.DSN("postgres"), "MIGRATE_DATABASE_URL="+w.primary.DSN("daybook"))
	return w
}

func (w *world) mkdir(name string) string {
	w.t.Helper()
	dir := filepath.Join(w.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// own gives a directory to the account of the database servers.
func (w *world) own(dir string) {
	w.t.Helper()
	if out, err := w.try(w.dir, "chown --reference="+w.data(w.primary)+" "+dir+"; chmod 700 "+dir); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
}

// server starts a server on a directory of that name, which may have data.
func (w *world) server(name string, settings map[string]string) *devpg.Server {
	w.t.Helper()
	s, err := devpg.Start(w.t.Context(), devpg.Options{Dir: filepath.Join(w.dir, name), Settings: settings, Log: w.t.Output()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = s.Stop(ctx) // one that was killed has no clean end
	})
	return s
}

// empty makes the directory of a server that gets its data from elsewhere.
func (w *world) empty(name string) (data string) {
	w.t.Helper()
	w.mkdir(name)
	data = filepath.Join(w.dir, name, filepath.Base(w.data(w.primary)))
	if err := os.Mkdir(data, 0o700); err != nil {
		w.t.Fatal(err)
	}
	w.own(data)
	return data
}

func (w *world) data(s *devpg.Server) string {
	return filepath.Join(s.Dir(), fmt.Sprintf("data-%d", s.ServerMajor()))
}

// engineDSN names the servers as an operator names the hosts.
func (w *world) engineDSN(servers ...*devpg.Server) string {
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, filepath.Join(s.Dir(), "s"))
	}
	return "postgres://daybook_engine@/daybook?sslmode=disable&target_session_attrs=read-write&host=" + strings.Join(hosts, ",")
}

func (w *world) site() proctest.Site {
	return proctest.Site{Dir: w.dir, DSN: w.dsn, NATS: w.nats, Lease: leases}
}

// start starts two engines and a worker, and has jobs running.
func (w *world) start() {
	w.t.Helper()
	for i := range 2 {
		w.engines = append(w.engines, w.site().Engine(w.t, "engine-"+strconv.Itoa(i), ""))
	}
	for _, e := range w.engines {
		e.AwaitReady()
	}
	w.startWorker()
	w.journal = filepath.Join(w.dir, "journal")
	file := filepath.Join(w.dir, "jobs.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(jobsFile, "JOURNAL", w.journal)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.daybook("job", "apply", "-f", file)
	w.awaitWork()
}

func (w *world) startWorker() {
	w.worker = w.site().Worker(w.t, "worker", w.engines[0].URL, 32)
}

// daybook runs a command line that must succeed.
func (w *world) daybook(args ...string) string {
	w.t.Helper()
	for i, a := range args {
		args[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	out, err := w.try(w.dir, "daybook "+strings.Join(args, " "), "DATABASE_URL="+w.dsn)
	if err != nil {
		w.t.Fatalf("daybook %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// executed is what ran, by run: the job and how often.
func (w *world) executed() map[uuid.UUID]execution {
	w.t.Helper()
	b, err := os.ReadFile(w.journal)
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	all := map[uuid.UUID]execution{}
	for line := range strings.Lines(string(b)) {
		id, job, _ := strings.Cut(strings.TrimSpace(line), " ")
		run, err := uuid.Parse(id)
		if err != nil {
			w.t.Fatalf("journal: %q", line)
		}
		all[run] = execution{job, all[run].times + 1}
	}
	return all
}

type execution struct {
	job   string
	times int
}

// awaitWork waits until runs of both schedules are executed that were not before.
func (w *world) awaitWork() {
	w.t.Helper()
	before := w.executed()
	proctest.Await(w.t, "runs are executed", append(slices.Clone(w.engines), w.worker, w.nats.Process), func() (bool, string) {
		fresh := map[string]int{}
		for id, e := range w.executed() {
			if before[id].times == 0 {
				fresh[e.job]++
			}
		}
		return fresh["tick"] >= 2 && fresh["slow"] >= 1, fmt.Sprint(fresh)
	})
}

// ask requests a run with the key and gives its id.
func (w *world) ask(key string, more ...string) uuid.UUID {
	w.t.Helper()
	out := w.daybook(append([]string{"job", "trigger", "ask", "--key", key, "-o", "id"}, more...)...)
	line, _, _ := strings.Cut(out, "\n")
	id, err := uuid.Parse(strings.TrimSpace(line))
	if err != nil {
		w.t.Fatalf("trigger: %q", out)
	}
	return id
}

// query reads as a superuser from the server.
func query[T any](t *testing.T, s *devpg.Server, sql string, args ...any) (v T) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.DSN("daybook"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// messages counts what waits in the dispatch stream.
func (w *world) messages() int {
	w.t.Helper()
	n := 0
	w.jetstream(func(js jetstream.JetStream) {
		s, err := js.Stream(w.t.Context(), protocol.DispatchStream)
		if err != nil {
			w.t.Fatal(err)
		}
		n = int(s.CachedInfo().State.Msgs)
	})
	return n
}

func (w *world) jetstream(f func(jetstream.JetStream)) {
	w.t.Helper()
	nc, err := nats.Connect(w.nats.URL())
	if err != nil {
		w.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		w.t.Fatal(err)
	}
	f(js)
}

// event is what a subscriber keeps of an event: its identity.
type event struct {
	Source, ID, Subject, Type string
	Data                      json.RawMessage
}

// heard is every event that the broker holds.
func (w *world) heard() (all []event) {
	w.t.Helper()
	w.jetstream(func(js jetstream.JetStream) {
		c, err := js.OrderedConsumer(w.t.Context(), protocol.EventsStream, jetstream.OrderedConsumerConfig{})
		if err != nil {
			w.t.Fatal(err)
		}
		for left := c.CachedInfo().NumPending; left > 0; {
			m, err := c.Next(jetstream.FetchMaxWait(proctest.Patience))
			if err != nil {
				w.t.Fatal(err)
			}
			meta, err := m.Metadata()
			if err != nil {
				w.t.Fatal(err)
			}
			var e event
			if err := json.Unmarshal(m.Data(), &e); err != nil {
				w.t.Fatalf("%v: %s", err, m.Data())
			}
			all, left = append(all, e), meta.NumPending
		}
	})
	return all
}

// metric sums a metric over the engines.
func (w *world) metric(name string) (sum float64) {
	w.t.Helper()
	for _, e := range w.engines {
		m, err := proctest.Metrics(e.URL)
		if err != nil {
			w.t.Fatal(err)
		}
		sum += m[name]
	}
	return sum
}

// drain pauses the schedules and waits until nothing is under way.
func (w *world) drain(s *devpg.Server) {
	w.t.Helper()
	w.daybook("job", "pause", "tick", "--reason", "the test is over")
	w.daybook("job", "pause", "slow", "--reason", "the test is over")
	proctest.Await(w.t, "nothing is under way", append(slices.Clone(w.engines), w.worker), func() (bool, string) {
		left := query[string](w.t, s, `SELECT concat_ws(' ', 'due', (SELECT count(*) FROM due_runs), 'waiting', (SELECT count(*) FROM waiting_runs), 'claims', (SELECT count(*) FROM claims),
			'outbox', (SELECT count(*) FROM outbox), 'parked', (SELECT count(*) FROM parked_runs))`)
		return left == "due 0 waiting 0 claims 0 outbox 0 parked 0", left
	})
}

// lastEvent is the type of the last event of each run in the log.
func lastEvents(t *testing.T, s *devpg.Server) map[uuid.UUID]string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.DSN("daybook"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	rows, err := c.Query(t.Context(), "SELECT DISTINCT ON (stream_id) stream_id, type FROM events WHERE category = 'run' ORDER BY stream_id, version DESC")
	if err != nil {
		t.Fatal(err)
	}
	last := map[uuid.UUID]string{}
	var id uuid.UUID
	var typ string
	if _, err := pgx.ForEachRow(rows, []any{&id, &typ}, func() error { last[id] = typ; return nil }); err != nil {
		t.Fatal(err)
	}
	return last
}

var succeeded = domain.RunSucceeded{}.EventType()

func sorted(m map[string]int) string {
	var s []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s = append(s, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(s, ", ")
}
