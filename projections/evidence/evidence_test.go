package evidence

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()...) }

type world struct {
	*eventstore.Store
	*Auditor
	admin *pgxpool.Pool
	lane  *eventstore.Lane
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := pgtest.New(t)
	s, err := eventstore.Open(t.Context(), eventstore.Config{DSN: db.DSNFor("daybook_engine"), Actor: "engine-1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &world{Store: s, Auditor: New(s), admin: db.Pool(t, ""), lane: eventstore.NewLane("default", "noop")}
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.admin.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) command(t *testing.T, name string, c domain.JobCommand) {
	t.Helper()
	if _, err := w.CommandJobs(t.Context(), []eventstore.JobCommand{{Name: name, Do: c, Meta: eventstore.Meta{Actor: "cli:operator"}}}); err != nil {
		t.Fatal(err)
	}
}

// The hourly jobs' instants are half an hour away from the present, whenever the
// tests run: an instant that has just come is no missed one.
var minute = time.Now().UTC().Add(-30 * time.Minute).Minute()

// lastInstant is the last one of the hourly jobs.
func lastInstant() time.Time {
	at := time.Duration(minute) * time.Minute
	return time.Now().UTC().Add(-at).Truncate(time.Hour).Add(at)
}

func hourly(name string, overlap domain.Overlap) domain.JobSpec {
	return domain.JobSpec{Name: name, Schedules: []string{fmt.Sprintf("%d * * * *", minute)}, TimeZone: "UTC", Queue: "default", Kind: "noop", Retry: domain.DefaultRetry(),
		Overlap: overlap, Misfire: domain.MisfireAll, CatchupWindow: 0, MaxCatchup: 5, Priority: 5}
}

// since puts the job's creation and watermark into the past, so that its
// instants from then on are due.
func (w *world) since(t *testing.T, name string, at time.Time) {
	t.Helper()
	w.exec(t, "UPDATE events SET at = $2 WHERE category = 'job' AND stream_id = $1", domain.JobID(name), at)
	w.exec(t, "UPDATE jobs SET materialized_through = $2, next_fire = $2, changed_at = $2, created_at = $2 WHERE name = $1", name, at)
}

func (w *world) materialize(t *testing.T) {
	t.Helper()
	for {
		m, err := w.Materialize(t.Context(), 100, eventstore.LongestDueFirst, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !m.Full {
			return
		}
	}
}

func (w *world) claim(t *testing.T, n int) []domain.Run {
	t.Helper()
	c, err := w.Claim(t.Context(), eventstore.ClaimRequest{Lane: w.lane, Limit: n, Lease: time.Minute}, noOutbox{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Runs
}

func (w *world) execute(t *testing.T, c ...eventstore.Command) {
	t.Helper()
	a, err := w.Execute(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range a {
		if x.Err != nil {
			t.Fatal(x.Err)
		}
	}
}

func (w *world) explain(t *testing.T, job string, at time.Time, want Verdict, words ...string) Explanation {
	t.Helper()
	x, err := w.Explain(t.Context(), job, at)
	if err != nil {
		t.Fatal(err)
	}
	if x.Verdict != want {
		t.Errorf("%s at %s: %s (%s), want %s", job, clock(at), x.Verdict, x.Summary, want)
	}
	for _, word := range words {
		if !strings.Contains(x.Summary, word) {
			t.Errorf("%s at %s: %q does not say %q", job, clock(at), x.Summary, word)
		}
	}
	return x
}

func TestExplainNamesTheCause(t *testing.T) {
	w := newWorld(t)
	hour := lastInstant()
	w.command(t, "report", domain.ApplyJob{Spec: hourly("report", domain.OverlapSkip)})
	w.since(t, "report", hour.Add(-10*time.Hour-time.Minute))
	w.materialize(t) // ten missed: five skipped, five caught up
	w.explain(t, "report", hour.Add(-24*time.Hour), VerdictNotCreated, "did not exist")
	w.explain(t, "report", hour.Add(-9*time.Hour), VerdictSkipped, "max_catchup 5")
	w.explain(t, "report", hour.Add(-9*time.Hour+time.Minute), VerdictNotDue, clock(hour.Add(-9*time.Hour)), clock(hour.Add(-8*time.Hour)))
	w.explain(t, "report", hour.Add(48*time.Hour), VerdictPending, "still to come")

	w.explain(t, "report", hour.Add(-4*time.Hour), VerdictRan, "no worker for kind noop")
	runs := w.claim(t, 10)
	if len(runs) != 1 || !runs[0].ScheduledAt.Equal(hour.Add(-4*time.Hour)) {
		t.Fatalf("claimed %d runs", len(runs))
	}
	w.execute(t, eventstore.Command{RunID: runs[0].ID, Do: domain.StartRun{ClaimID: runs[0].ClaimID, Token: uuid.New(), Worker: "w-7", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}})
	w.explain(t, "report", hour.Add(-4*time.Hour), VerdictRan, "w-7 executes")
	w.explain(t, "report", hour.Add(-3*time.Hour), VerdictRan, "waits for a place", runs[0].ID.String())
	w.execute(t, eventstore.Command{RunID: runs[0].ID, Do: domain.SucceedRun{ClaimID: runs[0].ClaimID}})
	x := w.explain(t, "report", hour.Add(-4*time.Hour), VerdictRan, "succeeded at attempt 1", "caught up")
	if len(x.Chain) != 4 || x.Run == nil {
		t.Errorf("chain %q", x.Chain)
	}

	// An instant that comes while a run of the job is in hand is skipped and the
	// run named.
	w.command(t, "busy", domain.ApplyJob{Spec: hourly("busy", domain.OverlapSkip)})
	w.since(t, "busy", hour.Add(-time.Minute))
	w.exec(t, "UPDATE jobs SET spec = jsonb_set(spec, '{schedules}', '[\"@every 1s\"]') WHERE name = 'busy'")
	w.exec(t, "UPDATE events SET data = jsonb_set(data, '{spec,schedules}', '[\"@every 1s\"]') WHERE stream_id = $1", domain.JobID("busy"))
	w.exec(t, "UPDATE jobs SET materialized_through = now() - interval '3 s', next_fire = now() - interval '3 s' WHERE name = 'busy'")
	w.materialize(t)
	w.exec(t, "UPDATE due_runs SET catch_up = false")
	for range 3 {
		w.claim(t, 10)
	}
	var at time.Time
	var blocker string
	if err := w.admin.QueryRow(t.Context(), `SELECT (s.data->>'scheduled_at')::timestamptz, e.data->>'blocked_by' FROM events e JOIN events s ON s.stream_id = e.stream_id AND s.version = 1
		WHERE e.type = 'RunSkipped' ORDER BY 1 LIMIT 1`).Scan(&at, &blocker); err != nil {
		t.Fatal(err)
	}
	w.explain(t, "busy", at, VerdictSkipped, blocker, "not finished")

	w.command(t, "report", domain.PauseJob{Reason: "month end"})
	w.explain(t, "report", hour.Add(time.Hour), VerdictPaused, "cli:operator", "month end")
	w.command(t, "report", domain.ArchiveJob{Reason: "replaced"})
	w.explain(t, "report", hour.Add(time.Hour), VerdictArchived, "replaced")
}

// Each of the other answers, from the decision that led to it.
func TestExplainKnowsEveryOutcome(t *testing.T) {
	w := newWorld(t)
	hour := lastInstant()

	window := hourly("window", domain.OverlapAllow)
	window.CatchupWindow = domain.Duration(2 * time.Hour)
	w.command(t, "window", domain.ApplyJob{Spec: window})
	w.since(t, "window", hour.Add(-10*time.Hour-time.Minute))
	latest := hourly("latest", domain.OverlapAllow)
	latest.Misfire = domain.MisfireLatest
	w.command(t, "latest", domain.ApplyJob{Spec: latest})
	w.since(t, "latest", hour.Add(-10*time.Hour-time.Minute))
	never := hourly("never", domain.OverlapAllow)
	never.Misfire = domain.MisfireSkip
	w.command(t, "never", domain.ApplyJob{Spec: never})
	w.since(t, "never", hour.Add(-10*time.Hour-time.Minute))
	w.materialize(t)
	w.explain(t, "window", hour.Add(-9*time.Hour), VerdictSkipped, "catch-up window of 2h")
	w.explain(t, "latest", hour.Add(-9*time.Hour), VerdictSkipped, "misfire latest")
	w.explain(t, "never", hour.Add(-9*time.Hour), VerdictSkipped, "misfire policy is skip")

	// Nobody has taken runs of the kind since a worker that did fell silent.
	if err := w.SeeWorker(t.Context(), eventstore.Worker{ID: "w-1", Lanes: []eventstore.WorkerLane{{Queue: "default", Kind: "noop"}}, Slots: 1}); err != nil {
		t.Fatal(err)
	}
	w.explain(t, "latest", hour, VerdictRan, "waits for a free slot")
	silent := hour.Add(-20 * time.Minute)
	w.exec(t, "UPDATE workers SET seen_at = $1", silent)
	w.explain(t, "latest", hour, VerdictRan, "no worker for kind noop in queue default since "+clock(silent))

	// Instants of a pause that is over.
	w.command(t, "paused", domain.ApplyJob{Spec: hourly("paused", domain.OverlapAllow)})
	w.since(t, "paused", hour.Add(-10*time.Hour-time.Minute))
	w.exec(t, "UPDATE jobs SET materialized_through = now(), next_fire = NULL WHERE name = 'paused'")
	w.command(t, "paused", domain.PauseJob{Reason: "month end"})
	w.command(t, "paused", domain.ResumeJob{})
	w.exec(t, "UPDATE events SET at = $2 WHERE stream_id = $1 AND type = 'JobPaused'", domain.JobID("paused"), hour.Add(-5*time.Hour-time.Minute))
	w.explain(t, "paused", hour.Add(-4*time.Hour), VerdictPaused, "paused by cli:operator at "+clock(hour.Add(-5*time.Hour-time.Minute)), "month end")
	w.explain(t, "paused", hour.Add(-6*time.Hour), VerdictMissing, "damaged")

	// On request only; not decided yet; ended other than well.
	bare := hourly("bare", domain.OverlapAllow)
	bare.Schedules = nil
	w.command(t, "bare", domain.ApplyJob{Spec: bare})
	w.explain(t, "bare", time.Now().Add(time.Hour), VerdictNotDue, "no schedule", "on request")
	w.command(t, "stuck", domain.ApplyJob{Spec: hourly("stuck", domain.OverlapAllow)})
	w.since(t, "stuck", hour.Add(-time.Minute))
	w.explain(t, "stuck", hour, VerdictPending, "not decided yet", "Is one running?")
	ended := map[string]domain.Run{}
	for {
		runs := w.claim(t, 10)
		for _, r := range runs {
			w.execute(t, eventstore.Command{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: uuid.New(), Worker: "w-9", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}})
			switch len(ended) {
			case 0:
				ended["failed"] = r
				w.execute(t, eventstore.Command{RunID: r.ID, Do: domain.FailRun{ClaimID: r.ClaimID, Error: domain.RunError{Type: "exit", Message: "disk full"}}})
			case 1:
				ended["cancelled"] = r
				w.execute(t, eventstore.Command{RunID: r.ID, Do: domain.CancelRun{Reason: "not today"}}, eventstore.Command{RunID: r.ID, Do: domain.SucceedRun{ClaimID: r.ClaimID}})
			case 2:
				ended["again"] = r
				w.execute(t, eventstore.Command{RunID: r.ID, Do: domain.CancelRun{Reason: "not today"}}, eventstore.Command{RunID: r.ID, Do: domain.FailRun{ClaimID: r.ClaimID, Retryable: true}})
			default:
				w.execute(t, eventstore.Command{RunID: r.ID, Do: domain.SucceedRun{ClaimID: r.ClaimID}})
			}
		}
		if len(runs) == 0 {
			break
		}
	}
	job := map[uuid.UUID]string{}
	for _, name := range []string{"window", "latest", "never", "paused", "stuck"} {
		job[domain.JobID(name)] = name
	}
	w.explain(t, job[ended["failed"].JobID], ended["failed"].ScheduledAt, VerdictRan, "failed", "disk full")
	w.explain(t, job[ended["again"].JobID], ended["again"].ScheduledAt, VerdictRan, "cancelled", "not today")
}

// What was in the way is named with who had it, and until when.
func TestExplainNamesWhoHeldTheRunInTheWay(t *testing.T) {
	w := newWorld(t)
	w.command(t, "busy", domain.ApplyJob{Spec: hourly("busy", domain.OverlapSkip)})
	w.since(t, "busy", lastInstant().Add(-time.Hour-time.Minute))
	w.materialize(t)
	w.exec(t, "UPDATE due_runs SET catch_up = false")
	runs := w.claim(t, 10)
	if len(runs) != 1 {
		t.Fatalf("claimed %d runs", len(runs))
	}
	w.execute(t, eventstore.Command{RunID: runs[0].ID, Do: domain.StartRun{ClaimID: runs[0].ClaimID, Token: uuid.New(), Worker: "w-9", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}})
	w.claim(t, 10)
	var at time.Time
	if err := w.admin.QueryRow(t.Context(), `SELECT scheduled_at FROM run_slots WHERE run_id <> $1`, runs[0].ID).Scan(&at); err != nil {
		t.Fatal(err)
	}
	w.explain(t, "busy", at, VerdictSkipped, runs[0].ID.String(), "held by worker w-9, whose lease lasts until")
	w.execute(t, eventstore.Command{RunID: runs[0].ID, Do: domain.SucceedRun{ClaimID: runs[0].ClaimID}})
	var until time.Time
	if err := w.admin.QueryRow(t.Context(), `SELECT at FROM events WHERE stream_id = $1 ORDER BY version DESC LIMIT 1`, runs[0].ID).Scan(&until); err != nil {
		t.Fatal(err)
	}
	w.explain(t, "busy", at, VerdictSkipped, "held by worker w-9 until "+clock(until))
}

func TestCoverageFindsADecisionThatIsGone(t *testing.T) {
	w := newWorld(t)
	hour := lastInstant()
	w.command(t, "report", domain.ApplyJob{Spec: hourly("report", domain.OverlapAllow)})
	w.since(t, "report", hour.Add(-100*time.Hour-time.Minute))
	w.materialize(t)
	from, to := hour.Add(-200*time.Hour), hour
	c, err := w.Coverage(t.Context(), "report", from, to)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Proven() || c.Expected != 101 || c.Ran+c.Explained != 101 || c.Ran < 5 {
		t.Fatalf("a whole history: %+v", c)
	}
	if _, err := w.Backfill(t.Context(), eventstore.BackfillRequest{Job: "report", From: hour.Add(-50 * time.Hour), To: hour.Add(-41 * time.Hour), Limit: 100}); err != nil {
		t.Fatal(err)
	}
	after, err := w.Coverage(t.Context(), "report", from, to)
	if err != nil || after.Ran != c.Ran+10 || after.Explained != c.Explained-10 {
		t.Errorf("a backfilled run supersedes the skip of its instant: %+v, %v", after, err)
	}
	gone := hour.Add(-2 * time.Hour)
	w.exec(t, "DELETE FROM events WHERE stream_id = (SELECT run_id FROM run_slots WHERE scheduled_at = $1)", gone)
	w.exec(t, "DELETE FROM run_slots WHERE scheduled_at = $1", gone)
	if c, err = w.Coverage(t.Context(), "report", from, to); err != nil || c.Missing != 1 || len(c.MissingInstants) != 1 || !c.MissingInstants[0].Equal(gone) {
		t.Errorf("a slot and its run deleted: %+v, %v", c, err)
	}
	w.explain(t, "report", gone, VerdictMissing, "damaged")
	w.exec(t, "DELETE FROM events WHERE stream_id = (SELECT run_id FROM run_slots WHERE scheduled_at = $1)", hour.Add(-time.Hour))
	if c, err = w.Coverage(t.Context(), "report", from, to); err != nil || c.Missing != 2 {
		t.Errorf("a run deleted and its slot kept: %+v, %v", c, err)
	}
	w.exec(t, "INSERT INTO run_slots VALUES ($1, $2, gen_random_uuid())", domain.JobID("report"), hour.Add(-90*time.Minute))
	if c, err = w.Coverage(t.Context(), "report", from, to); err != nil || c.Unexpected != 1 {
		t.Errorf("a run that no definition implied: %+v, %v", c, err)
	}
}

func TestCoverageFollowsTheVersionsOfTheSchedule(t *testing.T) {
	w := newWorld(t)
	hour := lastInstant()
	s := hourly("report", domain.OverlapAllow)
	w.command(t, "report", domain.ApplyJob{Spec: s})
	w.since(t, "report", hour.Add(-3*time.Hour-time.Minute))
	s.Schedules = []string{fmt.Sprintf("%d * * * *", (minute+31)%60)}
	w.command(t, "report", domain.ApplyJob{Spec: s}) // decides the old definition's instants first
	c, err := w.Coverage(t.Context(), "report", hour.Add(-10*time.Hour), time.Now().Add(24*time.Hour))
	if err != nil || !c.Proven() || c.Expected != 4 || c.Undecided < 23 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestVerifyFindsEachKindOfDamage(t *testing.T) {
	w := newWorld(t)
	s := hourly("report", domain.OverlapAllow)
	s.Concurrency = &domain.Concurrency{Limit: 100}
	w.command(t, "report", domain.ApplyJob{Spec: s})
	if _, err := w.Request(t.Context(), make12("report")); err != nil {
		t.Fatal(err)
	}
	runs := w.claim(t, 8)
	for _, r := range runs[:4] {
		w.execute(t, eventstore.Command{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: uuid.New(), Worker: "w", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}})
	}
	w.execute(t, eventstore.Command{RunID: runs[0].ID, Do: domain.SucceedRun{ClaimID: runs[0].ClaimID}})
	w.project(t)
	r, err := w.Verify(t.Context(), nil)
	if err != nil || r.Count != 0 || r.Streams != 13 || r.Live != 11 {
		t.Fatalf("a sound history: %+v, %v", r, err)
	}
	w.exec(t, "INSERT INTO engines VALUES ('engine-1', 'engine,relay', 'test', 'test', now() - interval '1 hour', now() + interval '1 hour')")
	done, running, claimed := runs[0].ID, runs[1].ID, runs[5].ID
	for _, damage := range []struct {
		rule, sql string
		run       uuid.UUID
	}{
		{RuleLegalPath, `UPDATE events SET type = 'FromTheFuture' WHERE stream_id = $1 AND version = 2`, done},
		{RuleLegalPath, `UPDATE events SET type = 'JobPaused', data = '{}' WHERE stream_id = $1 AND version = 2`, done},
		{RuleLegalPath, `INSERT INTO events (category, stream_id, version, era, type, at, actor, data) SELECT category, stream_id, 2, era, 'JobResumed', at, actor, '{}' FROM events WHERE stream_id = $1 AND version = 1`, domain.JobID("report")},
		{RuleVersions, `DELETE FROM events WHERE stream_id = $1 AND version = 1`, done},
		{RuleVersions, `DELETE FROM events WHERE stream_id = $1 AND version = 3`, done},
		{RuleLiveRow, `DELETE FROM events WHERE stream_id = $1 AND version = 4`, done},
		{RuleLiveRow, `DELETE FROM events WHERE stream_id = $1`, claimed},
		{RuleLapsed, `UPDATE claims SET lease_until = now() - interval '5 minutes' WHERE run_id = $1`, claimed},
		{RuleJobRow, `UPDATE jobs SET version = version + 1 WHERE id = $1`, domain.JobID("report")},
		{RuleJobRow, `UPDATE jobs SET paused = true WHERE id = $1`, domain.JobID("report")},
		{RuleJobRow, `UPDATE jobs SET spec = jsonb_set(spec, '{queue}', '"other"') WHERE id = $1`, domain.JobID("report")},
		{RuleJobRow, `DELETE FROM jobs WHERE id = $1`, domain.JobID("report")},
		{RuleKey, `UPDATE run_keys SET run_id = gen_random_uuid() WHERE run_id = $1`, done},
		{RuleProjection, `DELETE FROM run_summaries WHERE run_id = $1`, done},
		{RuleProjection, `UPDATE job_stats SET succeeded = succeeded + 1 WHERE $1::uuid IS NOT NULL`, done},
		{RuleLegalPath, `INSERT INTO events (category, stream_id, version, era, type, at, actor, data) SELECT category, stream_id, 5, era, type, at, actor, data FROM events WHERE stream_id = $1 AND version = 4`, done},
		{RuleVersions, `UPDATE events SET version = 9 WHERE stream_id = $1 AND version = 4`, done},
		{RuleTimes, `UPDATE events SET at = at - interval '1 day' WHERE stream_id = $1 AND version = 3`, done},
		{RuleLiveRow, `DELETE FROM claims WHERE run_id = $1`, running},
		{RuleLiveRow, `UPDATE claims SET claim_id = gen_random_uuid() WHERE run_id = $1`, claimed},
		{RuleLiveRow, `UPDATE claims SET version = version + 1 WHERE run_id = $1`, claimed},
		{RuleLiveRow, `UPDATE claims SET start_token = NULL WHERE run_id = $1`, running},
		{RuleLiveRow, `INSERT INTO due_runs SELECT run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at, version, attempt, dispatches, claims, changed_at, args FROM claims WHERE run_id = $1`, claimed},
		{RuleSlot, `INSERT INTO run_slots VALUES ($1, now(), gen_random_uuid())`, domain.JobID("report")},
		{RulePlaces, `INSERT INTO limit_holders VALUES ('limit:x', $1)`, done},
		{RuleProjection, `UPDATE run_summaries SET state = 'failed' WHERE run_id = $1`, done},
	} {
		t.Run(damage.rule, func(t *testing.T) {
			tx := w.damaged(t, damage.sql, damage.run)
			defer tx()
			r, err := w.Verify(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Violations {
				if v.Rule == damage.rule {
					return
				}
			}
			t.Errorf("%s is not found: %+v", damage.sql, r)
		})
	}
}

// project brings the read models up to date.
func (w *world) project(t *testing.T) {
	t.Helper()
	f := projections.New(w.Store, projections.Config{})
	for {
		if _, next, err := f.Step(t.Context()); err != nil {
			t.Fatal(err)
		} else if next > 0 {
			return
		}
	}
}

// damaged applies the damage and returns what undoes it.
func (w *world) damaged(t *testing.T, sql string, run uuid.UUID) (undo func()) {
	t.Helper()
	tables := []string{"events", "jobs", "claims", "due_runs", "run_slots", "run_keys", "limit_holders", "run_summaries", "job_stats"}
	for _, table := range tables {
		w.exec(t, "DROP TABLE IF EXISTS saved_"+table)
		w.exec(t, "CREATE TABLE saved_"+table+" AS SELECT * FROM "+table)
	}
	w.exec(t, sql, run)
	return func() {
		ctx := context.WithoutCancel(t.Context())
		for _, table := range tables {
			if _, err := w.admin.Exec(ctx, "TRUNCATE "+table+"; INSERT INTO "+table+" SELECT * FROM saved_"+table); err != nil {
				t.Error(err)
			}
		}
	}
}

func make12(job string) []eventstore.RunRequest {
	out := make([]eventstore.RunRequest, 12)
	for i := range out {
		out[i].Job = job
	}
	return out
}

type noOutbox struct{}

func (noOutbox) Enqueue(*pgx.Batch, time.Time, []eventstore.Message) (func(), error) {
	return func() {}, nil
}

func TestExplainNamesTheNearestRunsOfAJobWithoutASchedule(t *testing.T) {
	w := newWorld(t)
	bare := hourly("bare", domain.OverlapAllow)
	bare.Schedules = nil
	w.command(t, "bare", domain.ApplyJob{Spec: bare})
	other := bare
	other.Name = "other"
	w.command(t, "other", domain.ApplyJob{Spec: other})
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	if _, err := w.Request(t.Context(), []eventstore.RunRequest{{Job: "bare", At: soon.Add(-time.Minute)}, {Job: "bare", At: soon}, {Job: "bare", At: soon.Add(time.Hour)},
		{Job: "bare", At: soon.Add(2 * time.Hour)}, {Job: "other", At: soon.Add(2 * time.Minute)}}); err != nil {
		t.Fatal(err)
	}
	w.project(t)
	w.exec(t, "UPDATE run_summaries SET state = 'succeeded' WHERE scheduled_at = $1", soon) // the state does not say which is nearest
	x := w.explain(t, "bare", soon.Add(time.Minute), VerdictNotDue, "on request", "Its nearest runs are", clock(soon)+" (succeeded)", clock(soon.Add(time.Hour))+" (pending)")
	if x.RunBefore == nil || !x.RunBefore.At.Equal(soon) || x.RunAfter == nil || !x.RunAfter.At.Equal(soon.Add(time.Hour)) {
		t.Errorf("nearest %+v and %+v", x.RunBefore, x.RunAfter)
	}
	w.explain(t, "bare", soon.Add(24*time.Hour), VerdictNotDue, "Its last run before is", clock(soon.Add(2*time.Hour)))
	w.explain(t, "bare", time.Now(), VerdictNotDue, "Its first run after is", clock(soon.Add(-time.Minute)))
}

func TestExplainARetryThatWaits(t *testing.T) {
	w := newWorld(t)
	hour := lastInstant()
	w.command(t, "report", domain.ApplyJob{Spec: hourly("report", domain.OverlapAllow)})
	w.since(t, "report", hour.Add(-time.Minute))
	w.materialize(t)
	for _, r := range w.claim(t, 1) {
		w.execute(t, eventstore.Command{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: uuid.New(), Worker: "w-9", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}},
			eventstore.Command{RunID: r.ID, Do: domain.FailRun{ClaimID: r.ClaimID, Retryable: true}})
	}
	w.exec(t, "UPDATE due_runs SET ready_at = now() + interval '1 hour'")
	w.explain(t, "report", hour, VerdictRan, "waits for its time, in ")
}
