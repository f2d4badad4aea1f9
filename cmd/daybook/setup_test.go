package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/engine"
	"github.com/daybookhq/daybook/internal/eventstream"
	"github.com/daybookhq/daybook/internal/httpapi"
	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(bothWays{m}, pgtest.IgnoreServer()...) }

// bothWays runs all tests twice: with commands beside the database, and with
// commands that ask an engine over HTTP.
type bothWays struct{ *testing.M }

var (
	overHTTP bool
	alone    []string // the tests that only the first round has
)

func (m bothWays) Run() int {
	if code := m.M.Run(); code != 0 {
		return code
	}
	overHTTP = true
	skip := flag.Lookup("test.skip")
	if err := skip.Value.Set(strings.Join(slices.DeleteFunc(append(alone, skip.Value.String()), func(s string) bool { return s == "" }), "|")); err != nil {
		panic(err)
	}
	fmt.Printf("again, over HTTP, without the %d tests of what needs the database beside it\n", len(alone))
	return m.M.Run()
}

// cli runs command lines against a database of the test's own, with a store
// beside it that plays engine and worker.
type cli struct {
	t        *testing.T
	env      map[string]string
	in       string
	store    *eventstore.Store
	lane     *eventstore.Lane
	follower *projections.Follower
	db       *pgtest.DB
}

func newCLI(t *testing.T) *cli {
	t.Helper()
	return newCLIOn(t, pgtest.New(t))
}

func newCLIOn(t *testing.T, db *pgtest.DB) *cli {
	t.Helper()
	c := &cli{t: t, db: db, lane: eventstore.NewLane("default", domain.KindExec)}
	c.env = map[string]string{"DATABASE_URL": c.db.DSNFor("daybook_engine"), "TZ": "America/New_York"}
	var err error
	if c.store, err = eventstore.Open(t.Context(), eventstore.Config{DSN: c.env["DATABASE_URL"], Actor: "engine-1"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.store.Close)
	c.follower = projections.New(c.store, projections.Config{})
	if overHTTP {
		c.overHTTP()
	}
	return c
}

// besideDatabase is newCLI for what is only done there: the second round does not
// have the test.
func besideDatabase(t *testing.T) *cli {
	t.Helper()
	if overHTTP {
		t.Fatal("is about commands beside the database, and has just passed there")
	}
	alone = append(alone, "^"+t.Name()+"$")
	return newCLI(t)
}

// overHTTP lets the commands ask an engine, and takes the database from them.
func (c *cli) overHTTP() {
	c.t.Helper()
	delete(c.env, "DATABASE_URL")
	c.env["DAYBOOK_URL"] = c.serve().URL
}

// serve serves the API over the test's database, with the part of an engine that
// takes requests.
func (c *cli) serve() *httptest.Server {
	c.t.Helper()
	nc := natstest.New(c.t).Conn(c.t)
	registry := prometheus.NewRegistry()
	e, err := engine.New(engine.Config{ID: "engine-1", Store: c.store, NATS: nc, Topology: natsjs.EmbeddedTopology(), Registry: registry})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := e.Prepare(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(c.t.Context()))
	done := make(chan error, 1)
	go func() { done <- e.Service().Run(ctx) }()
	c.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			c.t.Errorf("service: %v", err)
		}
	})
	api := httpapi.Handler(httpapi.Config{Store: c.store, Work: e.Service(), Broker: e, Gather: registry, Ready: func(context.Context) error { return nil }, Version: "test", Done: ctx.Done(), Logger: slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
		Events: &eventstream.Handler{Log: c.store, Deployment: engine.Deployment, Problem: httpapi.WriteProblem, Done: ctx.Done()}})
	s := httptest.NewServer(api)
	c.t.Cleanup(s.Close)
	return s
}

// offline runs command lines that need no server, and would not find one.
func offline(t *testing.T) *cli {
	t.Helper()
	return &cli{t: t, env: map[string]string{"DAYBOOK_DATA": t.TempDir()}}
}

// result is what a command line did.
type result struct {
	t        *testing.T
	line     string
	code     int
	out, err string
}

func (c *cli) run(args ...string) result {
	c.t.Helper()
	return c.runIn(c.t.Context(), args...)
}

func (c *cli) runIn(ctx context.Context, args ...string) result {
	c.t.Helper()
	return c.runTo(ctx, new(output), args...)
}

// output is what may be read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (c *cli) runTo(ctx context.Context, out *output, args ...string) result {
	c.t.Helper()
	var errs bytes.Buffer
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		c.t.Fatal(err)
	}
	a := &app{in: strings.NewReader(c.in), out: out, err: &errs, zone: zone, env: func(name string) (string, bool) {
		v, ok := c.env[name]
		return v, ok
	}}
	code := run(ctx, a, args)
	return result{t: c.t, line: strings.Join(args, " "), code: code, out: out.String(), err: errs.String()}
}

// exits fails the test unless the command line ended with the code and said all
// of this on stderr.
func (r result) exits(code int, said ...string) result {
	r.t.Helper()
	if r.code != code {
		r.t.Fatalf("daybook %s: exit code %d, want %d\nstdout: %s\nstderr: %s", r.line, r.code, code, r.out, r.err)
	}
	for _, s := range said {
		if !strings.Contains(r.err, s) {
			r.t.Errorf("daybook %s: stderr does not have %q:\n%s", r.line, s, r.err)
		}
	}
	if code != exitOK && len(said) > 0 && r.out != "" && strings.Contains(r.out, said[0]) {
		r.t.Errorf("daybook %s: the error is on stdout: %s", r.line, r.out)
	}
	return r
}

// prints fails the test unless stdout has all of this.
func (r result) prints(want ...string) result {
	r.t.Helper()
	for _, s := range want {
		if !strings.Contains(r.out, s) {
			r.t.Errorf("daybook %s: stdout does not have %q:\n%s", r.line, s, r.out)
		}
	}
	return r
}

// lacks is the opposite of prints.
func (r result) lacks(unwanted ...string) result {
	r.t.Helper()
	for _, s := range unwanted {
		if strings.Contains(r.out, s) {
			r.t.Errorf("daybook %s: stdout has %q:\n%s", r.line, s, r.out)
		}
	}
	return r
}

// row is the line of a table that begins with the cell, its cells apart.
func (r result) row(first string) []string {
	r.t.Helper()
	for line := range strings.Lines(r.out) {
		if cells := strings.Fields(line); len(cells) > 0 && cells[0] == first {
			return cells
		}
	}
	r.t.Fatalf("daybook %s: no row %q in\n%s", r.line, first, r.out)
	return nil
}

// json decodes stdout.
func (r result) json() map[string]any {
	r.t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		r.t.Fatalf("daybook %s: stdout is not one JSON object: %v\n%s", r.line, err, r.out)
	}
	return v
}

// jsonl decodes each line of stdout.
func (r result) jsonl() []map[string]any {
	r.t.Helper()
	var all []map[string]any
	for line := range strings.Lines(r.out) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			r.t.Fatalf("daybook %s: a line of stdout is no JSON object: %v\n%s", r.line, err, line)
		}
		all = append(all, v)
	}
	return all
}

// hasKeys fails the test unless the object has the keys.
func hasKeys(t *testing.T, object any, keys ...string) {
	t.Helper()
	m, ok := object.(map[string]any)
	if !ok {
		t.Fatalf("%v is no object", object)
	}
	for _, k := range keys {
		if _, ok := m[k]; !ok {
			t.Errorf("no key %q in %v", k, m)
		}
	}
}

// file writes a file and returns its path.
func (c *cli) file(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// apply applies a jobs file.
func (c *cli) apply(text string) {
	c.t.Helper()
	c.run("job", "apply", "-f", c.file("jobs.yaml", text)).exits(exitOK)
}

const twoJobs = `jobs:
  - name: nightly-report
    schedule: "30 2 * * *"
    time_zone: America/New_York
    exec: {argv: [report, --all]}
    retry: {max_attempts: 1}
    tags: [billing]
  - name: hello
    exec: {argv: [echo, hello]}
    retry: {max_attempts: 1}
`

// trigger makes a run and returns its id.
func (c *cli) trigger(args ...string) uuid.UUID {
	c.t.Helper()
	r := c.run(append([]string{"job", "trigger"}, args...)...).exits(exitOK)
	id, err := uuid.Parse(strings.TrimSpace(r.out))
	if err != nil {
		c.t.Fatalf("job trigger printed %q", r.out)
	}
	return id
}

// settle brings the lists up to date with the log.
func (c *cli) settle() {
	c.t.Helper()
	for {
		_, next, err := c.follower.Step(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		if next > 0 {
			return
		}
	}
}

// claim takes runs that are due in hand.
func (c *cli) claim() []domain.Run {
	c.t.Helper()
	got, err := c.store.Claim(c.t.Context(), eventstore.ClaimRequest{Lane: c.lane, Limit: 100, Lease: time.Minute}, noOutbox{})
	if err != nil {
		c.t.Fatal(err)
	}
	return got.Runs
}

// execute has a worker say something of a run.
func (c *cli) execute(commands ...eventstore.Command) {
	c.t.Helper()
	answers, err := c.store.Execute(c.t.Context(), commands)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, a := range answers {
		if a.Err != nil {
			c.t.Fatal(a.Err)
		}
	}
}

// work claims, starts and ends every run that is due.
func (c *cli) work(end func(domain.Run) eventstore.Command) []domain.Run {
	c.t.Helper()
	runs := c.claim()
	for _, r := range runs {
		c.execute(start(r))
		c.execute(end(r))
	}
	return runs
}

func start(r domain.Run) eventstore.Command {
	return eventstore.Command{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: uuid.New(), Worker: "w-1", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}}
}

func succeed(r domain.Run) eventstore.Command {
	return eventstore.Command{RunID: r.ID, Do: domain.SucceedRun{ClaimID: r.ClaimID}}
}

func fail(r domain.Run) eventstore.Command {
	return eventstore.Command{RunID: r.ID, Do: domain.FailRun{ClaimID: r.ClaimID, Error: domain.RunError{Type: "exit_status", Message: "exit status 3"}}}
}

// noOutbox stands in for the table where nothing is dispatched.
type noOutbox struct{}

func (noOutbox) Enqueue(*pgx.Batch, time.Time, []eventstore.Message) (func(), error) {
	return func() {}, nil
}

func (c *cli) exec(sql string, args ...any) {
	c.t.Helper()
	if _, err := c.db.Pool(c.t, "").Exec(c.t.Context(), sql, args...); err != nil {
		c.t.Fatal(err)
	}
}

// instant fails the test unless the value is an instant as machines are promised
// it: RFC 3339, UTC, six digits of a second.
func instant(t *testing.T, v any) time.Time {
	t.Helper()
	s, _ := v.(string)
	at, err := time.Parse("2006-01-02T15:04:05.000000Z", s)
	if err != nil {
		t.Errorf("%v is no instant in UTC with microseconds", v)
	}
	return at
}

func (c *cli) count(sql string) (n int) {
	c.t.Helper()
	if err := c.store.Pool().QueryRow(c.t.Context(), sql).Scan(&n); err != nil {
		c.t.Fatal(err)
	}
	return n
}
