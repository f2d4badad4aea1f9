package projections

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

func TestStepsOfDurations(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want int16
	}{
		{-time.Second, 0}, {0, 0}, {time.Millisecond, 0}, {time.Millisecond + 1, 1}, {2 * time.Millisecond, 1}, {2*time.Millisecond + time.Microsecond, 2},
		{1024 * time.Millisecond, 10}, {1025 * time.Millisecond, 11}, {100 * 365 * 24 * time.Hour, lastStep},
	} {
		if got := step(c.d); got != c.want {
			t.Errorf("%s is in step %d, want %d", c.d, got, c.want)
		}
	}
}

// record puts events of a made-up run into the log, dated as told.
func (w *world) record(t testing.TB, run uuid.UUID, events ...domain.Dated[domain.RunEvent]) {
	t.Helper()
	for i, e := range events {
		data, err := domain.EncodeEvent(e.Event)
		if err != nil {
			t.Fatal(err)
		}
		w.exec(t, "INSERT INTO events (category, stream_id, version, era, type, at, actor, data) VALUES ('run', $1, $2, (SELECT max(era) FROM eras), $3, $4, 'test', $5)",
			run, i+1, e.Event.EventType(), e.At, data)
	}
}

// life is a run of the job in the lane mail/send that waits, runs and succeeds.
func (w *world) life(t testing.TB, job string, ready time.Time, wait, took time.Duration) {
	t.Helper()
	id, claim := domain.JobID(job), uuid.New()
	run := domain.SlotID(id, ready)
	started := ready.Add(wait)
	w.exec(t, "SELECT daybook_ensure_partition($1, $1)", ready)
	w.record(t, run,
		domain.Dated[domain.RunEvent]{Event: domain.RunScheduled{JobID: id, Job: job, JobVersion: 1, Origin: domain.OriginSchedule, ScheduledAt: ready.Add(-10 * time.Second), ReadyAt: ready, Queue: "mail", Kind: "send"}, At: ready},
		domain.Dated[domain.RunEvent]{Event: domain.RunClaimed{ClaimID: claim, Dispatch: 1}, At: started},
		domain.Dated[domain.RunEvent]{Event: domain.RunStarted{ClaimID: claim, Token: claim, Worker: "w", Attempt: 1}, At: started},
		domain.Dated[domain.RunEvent]{Event: domain.RunSucceeded{ClaimID: claim, Attempt: 1}, At: started.Add(took)})
}

func (w *world) lines(t testing.TB, sql string, args ...any) []string {
	t.Helper()
	rows, err := w.admin.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDepthsRatesAndDurationsOfARetriedRun(t *testing.T) {
	for _, limit := range []int{1, 3, 5000} { // events a page
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			w := newWorld(t)
			w.apply(t, spec("billing"))
			w.retried(t)
			w.request(t, "billing", 5)
			for i, r := range w.claim(t, 3) {
				if i < 2 {
					w.execute(t, start(r))
				}
				if i == 0 {
					w.execute(t, eventstore.Command{RunID: r.ID, Do: domain.ReleaseRun{ClaimID: r.ClaimID, Reason: "drain"}})
				}
			}
			f := w.follower(Config{Limit: limit})
			settle(t, f)
			want := []string{"(default,noop,3,1,1)"}
			if got := w.lines(t, "SELECT q::text FROM queue_stats q"); !slices.Equal(got, want) {
				t.Errorf("depths %v, want %v", got, want)
			}
			want = []string{"6 5 4 1 0 0 0 1 1"}
			sums := "SELECT concat_ws(' ', sum(scheduled), sum(claimed), sum(started), sum(succeeded), sum(failed), sum(cancelled), sum(skipped), sum(retried), sum(put_back)) FROM "
			for _, table := range []string{"lane_minutes", "job_minutes"} {
				if got := w.lines(t, sums+table); !slices.Equal(got, want) {
					t.Errorf("%s %v, want %v", table, got, want)
				}
			}
			want = []string{"run 3", "wait 4"}
			for _, table := range []string{"lane_durations", "job_durations"} {
				if got := w.lines(t, "SELECT measure || ' ' || sum(n) FROM "+table+" GROUP BY measure ORDER BY 1"); !slices.Equal(got, want) {
					t.Errorf("%s %v, want %v", table, got, want)
				}
			}
			w.checked(t)
		})
	}
}

func TestDurationsAreThoseOfTheEvents(t *testing.T) {
	w := newWorld(t)
	at := time.Now().UTC().Truncate(time.Hour).Add(-3 * time.Hour)
	w.life(t, "report", at, 3*time.Millisecond, 700*time.Millisecond)
	w.life(t, "report", at.Add(time.Minute), 4*time.Millisecond, 1100*time.Millisecond)
	w.follow(t)
	want := []string{"run 512 1024 1", "run 1024 2048 1", "wait 2 4 2"}
	for _, view := range []string{"lane_durations WHERE queue = 'mail' AND kind = 'send' AND hour = $1", "job_durations WHERE $1::timestamptz IS NOT NULL"} {
		if strings.HasPrefix(view, "job") { // the view joins the jobs
			w.apply(t, spec("report"))
		}
		got := w.lines(t, "SELECT concat_ws(' ', measure, above_ms, at_most_ms, attempts) FROM daybook_audit."+view+" ORDER BY measure, above_ms", at)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", view, got, want)
		}
	}
}

func TestCheckFindsWrongSums(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.finish(t, "report", 3)
	w.request(t, "report", 2)
	w.follow(t)
	w.checked(t)
	for table, change := range map[string]string{
		"queue_stats":    "UPDATE queue_stats SET pending = pending - 1",
		"lane_minutes":   "UPDATE lane_minutes SET started = started + 1",
		"job_minutes":    "DELETE FROM job_minutes",
		"lane_durations": "UPDATE lane_durations SET step = 33 WHERE measure = 'run' AND step = (SELECT min(step) FROM lane_durations WHERE measure = 'run')",
		"job_durations":  "INSERT INTO job_durations SELECT gen_random_uuid(), day, measure, 30, 1 FROM job_durations LIMIT 1",
	} {
		w.exec(t, change)
		report, err := Check(t.Context(), w.Store, RunSummariesName, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(report.Drift, func(d Drift) bool { return d.Table == table }) {
			t.Errorf("after %q the check found %+v", change, report.Drift)
		}
		if err := Rebuild(t.Context(), w.Store, RunSummariesName, nil, nil); err != nil {
			t.Fatal(err)
		}
		w.checked(t)
	}
}

// behindLocks runs f while a transaction has the tables for itself, and commits
// that transaction once f waits for one of them.
func (w *world) behindLocks(t *testing.T, f func() error, tables string, sql ...string) {
	t.Helper()
	tx, err := w.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+tables+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	await(t, "somebody to wait for "+tables, func() bool {
		return w.count(t, "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.datname = current_database() AND NOT l.granted") > 0
	})
	for _, s := range sql {
		if _, err := tx.Exec(t.Context(), s); err != nil {
			t.Fatal(s, err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// What the follower writes, a rebuild puts in place and retention lets go of
// while a check is at it is no drift.
func TestCheckAllowsForWhatHappensMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.finish(t, "report", 3)
	old := time.Now().UTC().Truncate(time.Hour).Add(-20 * time.Hour)
	w.life(t, "report", old, time.Millisecond, time.Second)
	w.follow(t)
	c := &checker{store: w.Store, report: CheckReport{Projection: RunSummariesName}}
	sound := func(what string) {
		t.Helper()
		if c.report.Drifted > 0 {
			t.Errorf("%s: %+v", what, c.report.Drift)
		}
		c.report = CheckReport{Projection: RunSummariesName}
	}
	begin := func() checkpoint {
		t.Helper()
		c.traffic = newTraffic()
		began, err := c.beginTraffic(t.Context())
		if err == nil {
			_, _, err = c.chunk(t.Context(), uuid.Nil, checkedPage)
		}
		if err != nil {
			t.Fatal(err)
		}
		return began
	}
	compare := func(began checkpoint) func() error {
		return func() error { return c.compareTraffic(t.Context(), began) }
	}

	w.behindLocks(t, compare(begin()), "lane_minutes", "UPDATE lane_minutes SET started = started + 1 WHERE minute > now() - interval '1 hour'",
		"UPDATE checkpoints SET cursor = jsonb_set(cursor, '{applied}', '1000000')")
	sound("the follower goes on")
	w.exec(t, "UPDATE lane_minutes SET started = started - 1 WHERE minute > now() - interval '1 hour'")

	w.exec(t, "CREATE TABLE behind (LIKE run_summaries INCLUDING ALL)")
	w.exec(t, "GRANT SELECT ON behind TO daybook_engine")
	w.behindLocks(t, func() error { begin(); return nil }, "run_summaries", "INSERT INTO behind SELECT * FROM run_summaries",
		"ALTER TABLE run_summaries RENAME TO before", "ALTER TABLE behind RENAME TO run_summaries")
	sound("a rebuild exchanges the tables")

	began := begin()
	w.exec(t, `INSERT INTO retired_months (month, sha256, file, directory, host, runs, events, bytes, newest_at, position, era, xid, seen_era, snapshot, exported_by, dropped_at)
		VALUES ('2000-01-01', 'x', 'f', 'd', 'h', 1, 1, 1, $1, 0, 1, '1', 1, pg_current_snapshot(), 'test', now())`, old.Add(time.Hour))
	w.follow(t)
	if n := w.count(t, "SELECT count(*) FROM lane_minutes WHERE minute <= $1", old); n > 0 {
		t.Fatal("old minutes are still there")
	}
	if err := compare(began)(); err != nil {
		t.Fatal(err)
	}
	sound("a month is let go of")

	w.exec(t, "DELETE FROM events WHERE category = 'run' AND stream_id = $1", domain.SlotID(domain.JobID("report"), old))
	w.exec(t, "UPDATE retired_months SET month = $1", time.Date(old.Year(), old.Month(), 1, 0, 0, 0, 0, time.UTC))
	begin()
	sound("rows of a month that is let go of")
}

// What is older than it is kept is neither counted nor left; what the log let go
// of could not be counted again.
func TestOldBucketsGo(t *testing.T) {
	w := newWorld(t)
	now := time.Now().UTC().Truncate(time.Minute)
	for _, ago := range []time.Duration{time.Hour, JobMinutesKept - time.Hour, JobMinutesKept + time.Hour, LaneMinutesKept + time.Hour, LaneHoursKept + 2*time.Hour, JobDaysKept + 48*time.Hour} {
		w.life(t, "report", now.Add(-ago), time.Millisecond, time.Second)
	}
	has := func(what string, want ...int) {
		t.Helper()
		for i, table := range []string{"job_minutes", "lane_minutes", "lane_durations", "job_durations"} {
			sum := "sum(scheduled)"
			if i > 1 {
				sum = "sum(n) FILTER (WHERE measure = 'run')"
			}
			if n := w.count(t, "SELECT coalesce("+sum+", 0)::int FROM "+table); n != want[i] {
				t.Errorf("%s: %s counts %d runs, want %d", what, table, n, want[i])
			}
		}
	}
	w.follow(t)
	has("followed", 2, 3, 4, 5)
	w.checked(t)

	for _, b := range []buckets{laneMinutes, jobMinutes, laneHours, jobDays} { // as if a long time had passed
		w.exec(t, fmt.Sprintf("UPDATE %s SET %s = %[2]s - $1::interval WHERE %[2]s < now() - interval '30 hours'", b.table, b.column), b.keep)
	}
	w.follow(t) // a new follower tidies at once
	has("tidied", 1, 1, 1, 1)

	if err := Rebuild(t.Context(), w.Store, RunSummariesName, nil, nil); err != nil {
		t.Fatal(err)
	}
	w.exec(t, `INSERT INTO retired_months (month, sha256, file, directory, host, runs, events, bytes, newest_at, position, era, xid, seen_era, snapshot, exported_by, dropped_at)
		VALUES ('2000-01-01', 'x', 'f', 'd', 'h', 1, 1, 1, now() - interval '25 hours', 0, 1, '1', 1, pg_current_snapshot(), 'test', now())`)
	w.follow(t)
	has("above the low mark", 1, 1, 1, 1)
	w.checked(t)
}
