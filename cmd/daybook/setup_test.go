package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()...) }

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
	return c
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
	var out, errs bytes.Buffer
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		c.t.Fatal(err)
	}
	a := &app{in: strings.NewReader(c.in), out: &out, err: &errs, zone: zone, env: func(name string) (string, bool) {
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
