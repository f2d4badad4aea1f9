package retention

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/crashpoint"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/projections"
	"github.com/daybookhq/daybook/projections/evidence"
)

const (
	childDSN = "DAYBOOK_RETENTION_DSN"
	childDir = "DAYBOOK_RETENTION_DIR"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(childDSN); dsn != "" {
		os.Exit(child(dsn, os.Getenv(childDir)))
	}
	goleak.VerifyTestMain(m, pgtest.IgnoreServer()...)
}

// child makes one pass in a process that can be killed.
func child(dsn, dir string) int {
	s, err := eventstore.Open(context.Background(), eventstore.Config{DSN: dsn, Actor: "child"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	k, err := New(s, Config{Directory: dir, Host: "test", Actor: "child"})
	if err == nil {
		_, err = k.Keep(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

type world struct {
	*eventstore.Store
	db    *pgtest.DB
	admin *pgxpool.Pool
	lane  *eventstore.Lane
	dir   string
	now   time.Time
}

// newWorld makes a log whose oldest months are due: daily runs of two jobs, made
// up for, run, backfilled and skipped, all finished long ago, and some of now.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{db: pgtest.New(t), lane: eventstore.NewLane("default", "noop"), dir: filepath.Join(t.TempDir(), "exports"), now: time.Now().UTC()}
	w.admin = w.db.Pool(t, "")
	s, err := eventstore.Open(t.Context(), eventstore.Config{DSN: w.db.DSNFor("daybook_engine"), Actor: "engine-1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	w.Store = s
	w.exec(t, "UPDATE retention SET keep_runs = '1 day', keep_outputs = '1 day'")
	w.job(t, "report", domain.OverlapAllow)
	w.job(t, "busy", domain.OverlapSkip)
	for {
		m, err := w.Materialize(t.Context(), 100, eventstore.LongestDueFirst, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !m.Full {
			break
		}
	}
	w.exec(t, "UPDATE due_runs SET catch_up = false") // or the busy job's would wait
	w.finish(t)
	// Of what the job's policies skipped, some instants are made up for.
	if _, err := w.Backfill(t.Context(), eventstore.BackfillRequest{Job: "report", From: w.now.AddDate(0, 0, -115), To: w.now.AddDate(0, 0, -110), Limit: 100}); err != nil {
		t.Fatal(err)
	}
	w.finish(t)
	w.exec(t, "UPDATE events SET at = at - interval '2 days' WHERE category = 'run' AND stream_id < $1", domain.FirstID(w.thisMonth()))
	w.exec(t, "INSERT INTO run_keys SELECT job_id, 'invoice-7', run_id, scheduled_at FROM run_slots ORDER BY scheduled_at LIMIT 1")
	w.exec(t, "INSERT INTO run_outputs (run_id, attempt, updated_at) SELECT run_id, 1, now() FROM run_slots ORDER BY scheduled_at LIMIT 3")
	w.exec(t, "INSERT INTO run_outputs (run_id, attempt, updated_at) SELECT run_id, 2, now() - interval '2 days' FROM run_slots ORDER BY scheduled_at LIMIT 3")

	if _, err := w.Request(t.Context(), make3("report")); err != nil {
		t.Fatal(err)
	}
	w.finish(t)
	w.follow(t)
	return w
}

func make3(job string) []eventstore.RunRequest {
	return []eventstore.RunRequest{{Job: job}, {Job: job}, {Job: job}}
}

func (w *world) thisMonth() time.Time {
	return time.Date(w.now.Year(), w.now.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// due are the months that may go, by the calendar.
func (w *world) due() (names []string) {
	for m := w.thisMonth().AddDate(0, -5, 0); m.AddDate(0, 1, 1).Before(w.now); m = m.AddDate(0, 1, 0) {
		names = append(names, m.Format("2006-01"))
	}
	return names
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.admin.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := w.admin.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// job makes a job that was defined 120 days ago and has decided nothing since.
func (w *world) job(t *testing.T, name string, overlap domain.Overlap) {
	t.Helper()
	spec := domain.JobSpec{Name: name, Schedules: []string{"0 3 * * *"}, TimeZone: "UTC", Queue: "default", Kind: "noop", Retry: domain.DefaultRetry(),
		Overlap: overlap, Misfire: domain.MisfireAll, MaxCatchup: 100, Priority: 5}
	if _, err := w.CommandJobs(t.Context(), []eventstore.JobCommand{{Name: name, Do: domain.ApplyJob{Spec: spec}}}); err != nil {
		t.Fatal(err)
	}
	since := w.now.AddDate(0, 0, -120)
	w.exec(t, "UPDATE events SET at = $2 WHERE category = 'job' AND stream_id = $1", domain.JobID(name), since)
	w.exec(t, "UPDATE jobs SET materialized_through = $2, next_fire = $2, changed_at = $2, created_at = $2 WHERE name = $1", name, since)
}

// finish executes what is due: every seventh run fails.
func (w *world) finish(t *testing.T) {
	t.Helper()
	n := 0
	for w.count(t, "SELECT (SELECT count(*) FROM due_runs) + (SELECT count(*) FROM waiting_runs)") > 0 {
		c, err := w.Claim(t.Context(), eventstore.ClaimRequest{Lane: w.lane, Limit: 50, Lease: time.Minute}, noOutbox{})
		if err != nil {
			t.Fatal(err)
		}
		var commands []eventstore.Command
		for _, r := range c.Runs {
			n++
			var end domain.RunCommand = domain.SucceedRun{ClaimID: r.ClaimID}
			if n%7 == 0 {
				end = domain.FailRun{ClaimID: r.ClaimID, Error: domain.RunError{Type: "boom", Message: "no"}}
			}
			commands = append(commands, eventstore.Command{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: r.ClaimID, Worker: "w", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}},
				eventstore.Command{RunID: r.ID, Do: end})
		}
		answers, err := w.Execute(t.Context(), commands)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range answers {
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		}
	}
}

// follow lets every reader of the log come to its end. Transactions of other
// tests on the server are awaited: as long as one is open that is older, a
// reader cannot be told to have everything.
func (w *world) follow(t *testing.T) {
	t.Helper()
	f := projections.New(w.Store, projections.Config{})
	for {
		_, next, err := f.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if next > 0 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = f.Run(ctx) // gives its lease back, with its place
	for {
		end, err := w.End(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.exec(t, "INSERT INTO checkpoints (name, cursor, updated_at) VALUES ('event_feed', $1, now()) ON CONFLICT (name) DO UPDATE SET cursor = excluded.cursor", end)
		w.exec(t, "UPDATE checkpoints SET cursor = cursor || jsonb_build_object('prev', $1::text) WHERE name = 'run_summaries'", end.Prev)
		if w.count(t, "SELECT count(*) FROM events WHERE xid >= pg_snapshot_xmin($1::text::pg_snapshot)", end.Prev) == 0 {
			return
		}
	}
}

func (w *world) keeper(t *testing.T) *Keeper {
	t.Helper()
	k, err := New(w.Store, Config{Directory: w.dir, Host: "test", Actor: "retention", Page: 50})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// state is what everything that is told of the past says: it must not change.
type state struct {
	coverage map[string]evidence.Coverage
	stats    []string
}

func (w *world) state(t *testing.T) state {
	t.Helper()
	s := state{coverage: map[string]evidence.Coverage{}}
	for _, job := range []string{"report", "busy"} {
		c, err := evidence.New(w.Store).Coverage(t.Context(), job, w.now.AddDate(0, 0, -130), w.now.AddDate(0, 0, -1))
		if err != nil || !c.Proven() {
			t.Fatalf("coverage of %s: %+v, %v", job, c, err)
		}
		c.Retired = 0
		s.coverage[job] = c
	}
	rows, err := w.admin.Query(t.Context(), "SELECT s::text FROM job_stats s ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	if s.stats, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		t.Fatal(err)
	}
	return s
}

// sound fails the test if anything is not as it was or not as it must be.
func (w *world) sound(t *testing.T, before state) {
	t.Helper()
	after := w.state(t)
	for job, c := range before.coverage {
		if fmt.Sprint(c) != fmt.Sprint(after.coverage[job]) {
			t.Errorf("coverage of %s was\n%+v and is\n%+v", job, c, after.coverage[job])
		}
	}
	if !slices.Equal(before.stats, after.stats) {
		t.Errorf("statistics were\n%q and are\n%q", before.stats, after.stats)
	}
	r, err := evidence.New(w.Store).Verify(t.Context(), nil)
	if err != nil || r.Count != 0 {
		t.Errorf("verify: %+v, %v", r, err)
	}
}

// noOutbox stands in for the table where nothing is dispatched.
type noOutbox struct{}

func (noOutbox) Enqueue(*pgx.Batch, time.Time, []eventstore.Message) (func(), error) {
	return func() {}, nil
}

func TestAMonthIsExportedVerifiedAndDropped(t *testing.T) {
	w := newWorld(t)
	before := w.state(t)
	k := w.keeper(t)
	plan, err := k.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range plan.Months {
		if due := slices.Contains(w.due(), m.Month); due != (m.State == Due) {
			t.Errorf("plan: %+v, may go by the calendar: %t", m, due)
		}
	}
	old, err := w.Store.After(t.Context(), 1) // a reader that is at the beginning
	if err != nil {
		t.Fatal(err)
	}
	var slot uuid.UUID
	var instant time.Time
	if err := w.admin.QueryRow(t.Context(), "SELECT run_id, scheduled_at FROM run_slots WHERE job_id = $1 ORDER BY scheduled_at LIMIT 1", domain.JobID("report")).Scan(&slot, &instant); err != nil {
		t.Fatal(err)
	}
	events := w.count(t, "SELECT count(*) FROM events")
	definitions := w.count(t, "SELECT count(*) FROM events_job")

	done, err := k.Keep(t.Context())
	if err != nil || len(done.Blocked) > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	gone, runs := 0, 0
	for _, x := range done.Retired {
		gone += int(x.Events)
		runs += int(x.Runs)
		checkFile(t, filepath.Join(w.dir, x.File), x)
	}
	if gone == 0 || len(done.Retired) < 2 {
		t.Fatalf("nothing is gone: %+v", done)
	}
	told := w.count(t, "SELECT count(*) FROM events_job WHERE type = 'RunsRetired'")
	if have := w.count(t, "SELECT count(*) FROM events"); have != events-gone+told {
		t.Errorf("%d events are left of %d after %d went and %d came", have, events, gone, told)
	}
	if have := w.count(t, "SELECT count(*) FROM events_job"); have != definitions+told {
		t.Errorf("definitions went: %d of %d", have, definitions)
	}
	if n := w.count(t, "SELECT count(*) FROM run_slots WHERE run_id = $1", slot); n != 1 {
		t.Error("a slot went")
	}
	for what, sql := range map[string]string{
		"keys": "SELECT count(*) FROM run_keys WHERE key = 'invoice-7'", "outputs": "SELECT count(*) FROM run_outputs",
		"summaries": "SELECT count(*) FROM run_summaries s WHERE NOT EXISTS (SELECT FROM events e WHERE e.category = 'run' AND e.stream_id = s.run_id)",
	} {
		if n := w.count(t, sql); n != 0 {
			t.Errorf("%d %s are left", n, what)
		}
	}
	w.sound(t, before)
	if err := projections.Rebuild(t.Context(), w.Store, projections.RunSummariesName, nil, nil); err != nil {
		t.Fatal(err)
	}
	w.sound(t, before)

	// What is gone is said to be gone, and where it is.
	var retired *eventstore.RetiredError
	if _, err := projections.NewReader(w.Store).GetRun(t.Context(), slot); !errors.As(err, &retired) || retired.Month == nil || !strings.Contains(err.Error(), retired.Month.File) {
		t.Errorf("a retired run: %v", err)
	}
	x, err := evidence.New(w.Store).Explain(t.Context(), "report", instant)
	if err != nil || x.Verdict != evidence.VerdictRan || !strings.Contains(x.Summary, "retired") || !strings.Contains(x.Summary, slot.String()) {
		t.Errorf("explain: %+v, %v", x, err)
	}
	if err := w.admin.QueryRow(t.Context(), "SELECT (data->'skips'->0->>'to')::timestamptz FROM events WHERE type = 'RunsRetired' AND stream_id = $1 LIMIT 1", domain.JobID("busy")).Scan(&instant); err != nil {
		t.Fatal(err)
	}
	x, err = evidence.New(w.Store).Explain(t.Context(), "busy", instant)
	if err != nil || x.Verdict != evidence.VerdictSkipped || !strings.Contains(x.Summary, domain.SkippedOverlap) {
		t.Errorf("explain a retired skip: %+v, %v", x, err)
	}
	if _, _, err := w.Read(t.Context(), old, 10); !errors.As(err, &retired) {
		t.Errorf("a reader that was at the beginning: %v", err)
	}
	low, err := w.LowMark(t.Context())
	if err != nil || low.Months != len(done.Retired) {
		t.Fatalf("%+v, %v", low, err)
	}
	if _, err := w.After(t.Context(), low.Position-1); !errors.As(err, &retired) || !strings.Contains(err.Error(), fmt.Sprint(low.Position)) {
		t.Errorf("a position below the low mark: %v", err)
	}
	if _, err := w.After(t.Context(), low.Position); err != nil {
		t.Errorf("the low mark itself: %v", err)
	}
	n, c := 0, eventstore.Cursor{}
	for {
		page, next, err := w.Read(t.Context(), c, 7)
		if err != nil {
			t.Fatalf("what is kept, from its beginning, after %d events: %v", n, err)
		}
		n, c = n+len(page), next
		if len(page) < 7 {
			break
		}
	}
	if n != events-gone+told {
		t.Errorf("a reader from the beginning has %d of %d", n, events-gone+told)
	}

	again, err := k.Keep(t.Context())
	if err != nil || len(again.Retired)+len(again.Blocked) > 0 {
		t.Errorf("a second pass: %+v, %v", again, err)
	}
	// A slot that goes is found, also where the log has let go of its run.
	w.exec(t, "DELETE FROM run_slots WHERE run_id = $1", slot)
	w.exec(t, "DELETE FROM events WHERE category = 'job' AND type = 'FiresSkipped'") // which explains it, as it was backfilled
	if c, err := evidence.New(w.Store).Coverage(t.Context(), "report", domain.InstantOf(slot), domain.InstantOf(slot)); err != nil || c.Missing != 1 {
		t.Errorf("coverage does not miss the slot: %+v, %v", c, err)
	}
	r, err := evidence.New(w.Store).Verify(t.Context(), nil)
	if err != nil || !slices.ContainsFunc(r.Violations, func(v evidence.Violation) bool { return v.Rule == evidence.RuleSlot }) {
		t.Errorf("verify does not miss the slot: %+v, %v", r, err)
	}
}

func checkFile(t *testing.T, path string, x eventstore.RetiredMonth) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	beside, err := os.ReadFile(path + ".sha256")
	if err != nil || hex.EncodeToString(sum[:]) != x.SHA256 || string(beside) != x.SHA256+"  "+x.File+"\n" {
		t.Errorf("%s: checksum %x, recorded %s, beside it %q, %v", path, sum, x.SHA256, beside, err)
	}
	lines := 0
	for sc := bufio.NewScanner(strings.NewReader(string(b))); sc.Scan(); lines++ {
		var e line
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil || e.Type == "" || e.Version == 0 {
			t.Fatalf("%s: %s: %v", path, sc.Text(), err)
		}
	}
	if lines != int(x.Events) {
		t.Errorf("%s: %d lines for %d events", path, lines, x.Events)
	}
}

// Wherever a pass is killed, the next one finishes and nothing is lost.
func TestAPassThatIsKilledIsFinishedByTheNext(t *testing.T) {
	for _, p := range []crashpoint.Point{crashpoint.RetentionPostExport, crashpoint.RetentionPostVerify, crashpoint.RetentionPreDrop, crashpoint.RetentionPostDrop} {
		t.Run(p.String(), func(t *testing.T) {
			w := newWorld(t)
			before := w.state(t)
			runs := w.count(t, "SELECT count(*) FROM events WHERE category = 'run' AND stream_id < $1 AND version = 1", w.bound())
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), childDSN+"="+w.db.DSNFor("daybook_engine"), childDir+"="+w.dir, crashpoint.Var+"="+p.String()+":1:kill")
			if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != -1 {
				t.Fatalf("the process was not killed: %v\n%s", err, out)
			}
			w.sound(t, before)
			w.exec(t, "UPDATE retention SET lease_until = '-infinity'") // the killed one's
			w.follow(t)
			if _, err := w.keeper(t).Keep(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.sound(t, before)
			if n := w.count(t, "SELECT count(*) FROM events WHERE category = 'run' AND stream_id < $1", w.bound()); n != 0 {
				t.Errorf("%d events of due months are left", n)
			}
			if n := w.count(t, "SELECT sum(runs) FROM retired_months WHERE dropped_at IS NOT NULL"); n != runs {
				t.Errorf("%d runs of %d are in exports", n, runs)
			}
			if n := w.count(t, "SELECT sum(runs) FROM retired_runs"); n != runs {
				t.Errorf("%d runs of %d are in the jobs' streams", n, runs)
			}
			if left, _ := filepath.Glob(filepath.Join(w.dir, "*.partial")); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// bound is the first id of what may not go.
func (w *world) bound() uuid.UUID {
	due := w.due()
	last, err := time.Parse("2006-01", due[len(due)-1])
	if err != nil {
		panic(err)
	}
	return domain.FirstID(last.AddDate(0, 1, 0))
}

func TestWhatMakesAMonthStay(t *testing.T) {
	w := newWorld(t)
	k := w.keeper(t)
	before := w.state(t)
	var of time.Time
	var run uuid.UUID
	err := w.admin.QueryRow(t.Context(), "SELECT run_id FROM run_slots WHERE job_id = $1 ORDER BY scheduled_at LIMIT 1", domain.JobID("report")).Scan(&run)
	if err != nil {
		t.Fatal(err)
	}
	i := domain.InstantOf(run)
	of = time.Date(i.Year(), i.Month(), 1, 0, 0, 0, 0, time.UTC)
	name := of.Format("2006-01")
	blocked := func(what, why string) {
		t.Helper()
		d, err := k.Keep(t.Context())
		if err != nil || !strings.Contains(d.Blocked[name], why) {
			t.Errorf("%s: %+v, %v", what, d.Blocked, err)
		}
		if n := w.count(t, "SELECT count(*) FROM events WHERE category = 'run' AND stream_id = $1", run); n == 0 {
			t.Fatalf("%s: it went all the same", what)
		}
		if n := w.count(t, "SELECT count(*) FROM events_job WHERE type = 'RunsRetired' AND data->>'month' = $1", name); n != 0 {
			t.Errorf("%s: jobs were told that it went", what)
		}
	}
	w.exec(t, "UPDATE checkpoints SET cursor = cursor || '{\"prev\": \"1:1:\"}' WHERE name = 'event_feed'")
	blocked("an unread event", "event_feed has not read all of it")
	w.exec(t, "DELETE FROM checkpoints WHERE name = 'event_feed'")
	blocked("a reader that never began", "event_feed has not read all of it")
	w.follow(t)
	w.exec(t, "INSERT INTO checkpoints (name, cursor, owner, lease_until, updated_at) VALUES ('run_summaries/next', '{\"era\": 0, \"scan\": {}}', 'x', now() + interval '1 minute', now())")
	blocked("a rebuild under way", "run_summaries/next")
	w.exec(t, "DELETE FROM checkpoints WHERE name = 'run_summaries/next'")
	w.exec(t, "INSERT INTO parked_runs VALUES ($1, $1, now(), 'x', '{}')", run)
	blocked("a parked run", "not finished")
	w.exec(t, "DELETE FROM parked_runs")
	w.exec(t, "UPDATE events SET type = 'FromTheFuture' WHERE stream_id = $1 AND version = 1", run)
	blocked("an event of a newer version", "cannot be read")
	if left, _ := filepath.Glob(filepath.Join(w.dir, "*.partial")); len(left) > 0 {
		t.Errorf("what was not finished is left: %q", left)
	}
	w.exec(t, "UPDATE events SET type = 'RunScheduled' WHERE stream_id = $1 AND version = 1", run)

	// Of what was exported and verified before an event came, nothing is dropped.
	x, err := k.export(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.verify(t.Context(), x.RetiredMonth); err != nil {
		t.Fatal(err)
	}
	if err := w.RetireMonth(t.Context(), of, x.SHA256, "x"); err == nil || !strings.Contains(err.Error(), "no verified export") {
		t.Errorf("an export that was not verified: %v", err)
	}
	if err := w.RecordVerified(t.Context(), of, x.SHA256); err != nil {
		t.Fatal(err)
	}
	if err := w.RetireMonth(t.Context(), of, "", "x"); err == nil || !strings.Contains(err.Error(), "it has events") {
		t.Errorf("a month with events as an empty one: %v", err)
	}
	w.exec(t, `INSERT INTO events (category, stream_id, version, era, type, at, actor, data) SELECT category, $2, 1, era, type, at, actor, data FROM events WHERE stream_id = $1 AND version = 1`,
		run, domain.SlotID(domain.JobID("report"), i.Add(time.Minute)))
	if err := w.RetireMonth(t.Context(), of, x.SHA256, "x"); err == nil || !strings.Contains(err.Error(), "came to it since") {
		t.Errorf("a late event: %v", err)
	}
	blocked("a run that is not finished, by the log alone", "is pending")
	w.exec(t, "DELETE FROM events WHERE stream_id = $1", domain.SlotID(domain.JobID("report"), i.Add(time.Minute)))
	w.sound(t, before)

	path := filepath.Join(w.dir, x.File)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string][]byte{
		"a byte less": whole[:len(whole)-1], "a line more": append(slices.Clone(whole), whole[:100]...), "another byte": append([]byte("x"), whole[1:]...),
	} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := k.verify(t.Context(), x.RetiredMonth); err == nil || !strings.Contains(err.Error(), "nothing was dropped") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	w.exec(t, "UPDATE events SET actor = 'else!!!!' WHERE stream_id = $1 AND version = 2", run)
	if _, err := k.verify(t.Context(), x.RetiredMonth); err == nil || !strings.Contains(err.Error(), "line 2 is not what the table has") {
		t.Errorf("another table: %v", err)
	}

	// The engine's role cannot do more than the function does.
	engine := w.db.Pool(t, "daybook_engine")
	for _, sql := range []string{
		"UPDATE retention SET keep_runs = '1 day'", "UPDATE retired_months SET dropped_at = now()", "DELETE FROM events", "DELETE FROM run_slots", "DELETE FROM run_keys",
		"DROP TABLE events_run_" + of.Format("200601"),
	} {
		if _, err := engine.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s as the engine: %v", sql, err)
		}
	}
	w.exec(t, "UPDATE retention SET keep_runs = NULL")
	if err := w.RetireMonth(t.Context(), of, x.SHA256, "x"); err == nil || !strings.Contains(err.Error(), "kept for ever") {
		t.Errorf("runs kept for ever: %v", err)
	}
	plan, err := k.Plan(t.Context())
	if err != nil || slices.ContainsFunc(plan.Months, func(m Month) bool { return m.State == Due }) {
		t.Errorf("plan: %+v, %v", plan, err)
	}
}
