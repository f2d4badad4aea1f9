package eventstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/pgtest"
)

// rewind makes the job's instants of the last d due.
func (w *world) rewind(t *testing.T, job string, d time.Duration) {
	t.Helper()
	w.exec(t, `UPDATE jobs SET materialized_through = now() - $2::interval, next_fire = now() - $2::interval WHERE name = $1`, job, d)
}

// materializeAll runs passes until nothing is due, and returns how many there
// were.
func (w *world) materializeAll(t *testing.T, s *Store) (passes int) {
	t.Helper()
	for {
		m, err := s.Materialize(t.Context(), 100, LongestDueFirst, nil)
		if err != nil {
			t.Fatal(err)
		}
		passes++
		if !m.Full {
			return passes
		}
	}
}

func TestReplicasMaterializeEachInstantOnce(t *testing.T) {
	jobs := 1000
	if testing.Short() {
		jobs = 100
	}
	w := newWorld(t)
	specs := make([]domain.JobSpec, jobs)
	for i := range specs {
		specs[i] = spec(fmt.Sprintf("job-%d", i))
		specs[i].Schedules, specs[i].Misfire, specs[i].MaxCatchup = []string{"* * * * *"}, domain.MisfireAll, 0
	}
	w.apply(t, specs...)
	w.exec(t, "UPDATE jobs SET materialized_through = date_trunc('hour', now()) - interval '1 hour', next_fire = date_trunc('hour', now()) - interval '59 minutes'")
	var from, to time.Time
	if err := w.admin.QueryRow(t.Context(), "SELECT min(materialized_through), now() FROM jobs").Scan(&from, &to); err != nil {
		t.Fatal(err)
	}
	g, ctx := errgroup.WithContext(t.Context())
	for i := range 3 {
		s := w.open(t, fmt.Sprintf("engine-%d", i+2))
		g.Go(func() error {
			for {
				m, err := s.Materialize(ctx, 100, LongestDueFirst, nil)
				if err != nil {
					return err
				}
				if m.Jobs == 0 && w.count(t, "SELECT count(*) FROM jobs WHERE next_fire <= now()") == 0 {
					return nil
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	through := w.count(t, "SELECT floor(extract(epoch FROM min(materialized_through) - $1) / 60)::int FROM jobs", from)
	if n := w.count(t, "SELECT count(*) FROM run_slots"); n < jobs*through {
		t.Errorf("%d slots for %d jobs and %d minutes", n, jobs, through)
	}
	if n := w.count(t, "SELECT count(*) FROM run_slots s FULL JOIN due_runs d USING (run_id) WHERE s.run_id IS NULL OR d.run_id IS NULL"); n != 0 {
		t.Errorf("%d instants without a run, or runs without an instant", n)
	}
	if n := w.count(t, "SELECT count(*) FROM (SELECT 1 FROM events WHERE type = 'RunScheduled' GROUP BY data->>'job_id', data->>'scheduled_at' HAVING count(*) > 1) x"); n != 0 {
		t.Errorf("%d instants with two runs", n)
	}
}

func TestThirtyDaysOfEverySecondNeitherFloodNorStall(t *testing.T) {
	w := newWorld(t)
	busy, quiet := spec("busy"), spec("quiet")
	busy.Schedules, busy.Misfire = []string{"@every 1s"}, domain.MisfireAll
	busy.MaxCatchup = 250
	quiet.Schedules = []string{"@every 1s"}
	w.apply(t, busy, quiet)
	w.rewind(t, "busy", 30*24*time.Hour)
	w.rewind(t, "quiet", 2*time.Second)
	if _, err := w.Materialize(t.Context(), 100, LongestDueFirst, nil); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT count(*) FROM due_runs d JOIN jobs j ON j.id = d.job_id WHERE j.name = 'quiet'"); n < 2 {
		t.Errorf("the other job got %d runs in the first pass, want its own", n)
	}
	if n := w.count(t, "SELECT count(*) FROM due_runs d JOIN jobs j ON j.id = d.job_id WHERE j.name = 'busy'"); n > firesPerJob {
		t.Errorf("one pass made %d runs of one job, at most %d are its share", n, firesPerJob)
	}
	w.materializeAll(t, w.Store)
	// 250 are made up for; what is less than a minute old runs in any case, also
	// what passes that age before its turn comes.
	if n := w.count(t, "SELECT count(*) FROM events WHERE type = 'RunScheduled' AND data->>'job' = 'busy' AND (data->>'catch_up')::bool"); n < 250 || n > 280 {
		t.Errorf("%d runs caught up, want 250 and what grew old meanwhile", n)
	}
	if n := w.count(t, "SELECT count(*) FROM events WHERE type = 'FiresSkipped'"); n != 1 {
		t.Errorf("%d FiresSkipped for one gap", n)
	}
	w.exec(t, "SELECT pg_sleep(1)")
	before := w.count(t, "SELECT count(*) FROM run_slots s JOIN jobs j ON j.id = s.job_id WHERE j.name = 'busy'")
	w.materializeAll(t, w.Store)
	if w.count(t, "SELECT count(*) FROM run_slots s JOIN jobs j ON j.id = s.job_id WHERE j.name = 'busy'") == before {
		t.Error("the job does not fire any more")
	}
}

func TestEditAndPauseLoseNoInstant(t *testing.T) {
	w := newWorld(t)
	s := spec("report")
	s.Schedules = []string{"@every 1s"}
	w.apply(t, s)
	w.rewind(t, "report", 5*time.Second)
	s.Schedules = []string{"0 0 1 1 *"}
	w.apply(t, s) // five instants were due by then, under the old definition
	if n := w.count(t, "SELECT count(*) FROM run_slots"); n < 5 || n > 6 {
		t.Errorf("%d instants of the old definition run, want 5 or 6", n)
	}
	if n := w.count(t, "SELECT count(*) FROM events WHERE type = 'RunScheduled' AND (data->>'job_version')::int = 1"); n < 5 {
		t.Errorf("%d runs pin the old definition", n)
	}
	w.materializeAll(t, w.Store)
	if n := w.count(t, "SELECT count(*) FROM run_slots"); n > 6 {
		t.Error("an instant ran for a schedule that is no longer in force")
	}

	s = spec("paused")
	s.Schedules = []string{"@every 1s"}
	w.apply(t, s)
	w.rewind(t, "paused", 3*time.Second)
	if _, err := w.CommandJobs(t.Context(), []JobCommand{{Name: "paused", Do: domain.PauseJob{Reason: "maintenance"}}}); err != nil {
		t.Fatal(err)
	}
	due := w.count(t, "SELECT count(*) FROM run_slots s JOIN jobs j ON j.id = s.job_id WHERE j.name = 'paused'")
	if due < 3 {
		t.Errorf("%d instants before the pause run, want 3", due)
	}
	w.exec(t, "UPDATE jobs SET materialized_through = materialized_through - interval '1 hour' WHERE name = 'paused'")
	if _, err := w.CommandJobs(t.Context(), []JobCommand{{Name: "paused", Do: domain.ResumeJob{}}}); err != nil {
		t.Fatal(err)
	}
	w.materializeAll(t, w.Store)
	if n := w.count(t, "SELECT count(*) FROM run_slots s JOIN jobs j ON j.id = s.job_id WHERE j.name = 'paused'"); n > due+1 {
		t.Errorf("%d instants of the pause were made up for", n-due)
	}
}

// A command is dated when its transaction begins, and then it waits for the job:
// what was decided meanwhile stays decided under the old definition.
func TestCommandThatWaitedCountsFromWhatWasDecided(t *testing.T) {
	w := newWorld(t)
	s := spec("tick")
	s.Schedules = []string{"@every 1h"}
	w.apply(t, s)
	tx, err := w.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM jobs FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	paused := make(chan error, 1)
	go func() {
		_, err := w.CommandJobs(t.Context(), []JobCommand{{Name: "tick", Do: domain.PauseJob{}}})
		paused <- err
	}()
	const waiters = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	for deadline := time.Now().Add(30 * time.Second); w.count(t, waiters) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the command does not wait for the job")
		}
	}
	var watermark time.Time // as a materializer moves it that began after the command
	if err := tx.QueryRow(t.Context(), "UPDATE jobs SET materialized_through = clock_timestamp() RETURNING materialized_through").Scan(&watermark); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-paused; err != nil {
		t.Fatal(err)
	}
	j, err := w.Job(t.Context(), "tick")
	if err != nil {
		t.Fatal(err)
	}
	if j.ChangedAt.Before(watermark) || j.MaterializedThrough.Before(watermark) {
		t.Errorf("paused at %s, decided through %s: instants up to %s were decided before", j.ChangedAt, j.MaterializedThrough, watermark)
	}
}

func TestJitterIsTheSameForEveryRunAndBelowTheGap(t *testing.T) {
	w := newWorld(t)
	s := spec("report")
	s.Schedules, s.Jitter = []string{"@every 10s"}, domain.Duration(time.Hour)
	w.apply(t, s)
	w.rewind(t, "report", 40*time.Second)
	w.materializeAll(t, w.Store)
	want := domain.JitterDelay(domain.JobID("report"), time.Hour, 10*time.Second)
	if want <= 0 || want >= 10*time.Second {
		t.Fatalf("jitter %s is not below the gap", want)
	}
	// Runs that are late already come due at once; the instant stays nominal.
	if n := w.count(t, "SELECT count(*) FROM due_runs WHERE ready_at <> greatest(scheduled_at + $1::interval, changed_at) OR extract(epoch FROM scheduled_at)::bigint % 10 <> 0", want); n != 0 {
		t.Errorf("%d runs come due at another time than their instant and the jitter", n)
	}
}

func TestWallTimeThatRanIsNotRunAgainWhenItsZoneMoves(t *testing.T) {
	w := newWorld(t)
	s := spec("report")
	s.Schedules, s.TimeZone = []string{"0 0 * * *"}, "Africa/Cairo"
	w.apply(t, s)
	w.rewind(t, "report", 23*time.Hour) // one midnight, now or within the catch-up window
	set, err := s.Instants()
	if err != nil {
		t.Fatal(err)
	}
	f, _ := set.Prev(time.Now())
	w.exec(t, "UPDATE jobs SET materialized_through = $1, next_fire = $2", f.At.Add(-time.Hour), f.At)
	w.exec(t, "INSERT INTO run_slots (job_id, scheduled_at, run_id, nominal) VALUES ($1, $2, gen_random_uuid(), $3)", domain.JobID("report"), f.At.Add(-time.Hour), domain.CivilKey(set, f))
	w.materializeAll(t, w.Store)
	if n := w.count(t, "SELECT count(*) FROM due_runs"); n != 0 {
		t.Error("the civil time ran twice")
	}
	if n := w.count(t, "SELECT count(*) FROM events WHERE type = 'FiresSkipped' AND data->>'reason' = 'civil_time_ran' AND (data->>'from')::timestamptz = $1", f.At); n != 1 {
		t.Error("the instant has no decision")
	}
}

func TestOtherZoneRulesMoveTheNextFireAndAreRecorded(t *testing.T) {
	w := newWorld(t)
	s := spec("report")
	s.Schedules, s.TimeZone = []string{"30 2 * * *"}, "America/New_York"
	w.apply(t, s)
	if n, err := w.CheckZones(t.Context()); err != nil || n != 0 {
		t.Fatalf("first look changed %d jobs, %v", n, err)
	}
	var right time.Time
	if err := w.admin.QueryRow(t.Context(), "SELECT next_fire FROM jobs").Scan(&right); err != nil {
		t.Fatal(err)
	}
	w.exec(t, "UPDATE jobs SET zone_fingerprint = left(zone_fingerprint, 8) || 'of-older-rules', next_fire = next_fire + interval '1 hour'")
	if n, err := w.CheckZones(t.Context()); err != nil || n != 1 {
		t.Fatalf("changed %d jobs, %v", n, err)
	}
	if n := w.count(t, "SELECT count(*) FROM jobs WHERE next_fire = $1", right); n != 1 {
		t.Error("the next fire follows the old rules")
	}
	if n := w.count(t, "SELECT count(*) FROM events WHERE type = 'ZoneRulesChanged'"); n != 1 {
		t.Error("the change is not recorded")
	}
	if n, err := w.CheckZones(t.Context()); err != nil || n != 0 {
		t.Errorf("changed %d jobs again, %v", n, err)
	}
}

func TestBackfillFillsEmptyInstantsOnly(t *testing.T) {
	w := newWorld(t)
	s := spec("report")
	s.Schedules, s.Overlap = []string{"0 * * * *"}, domain.OverlapSkip
	w.apply(t, s)
	w.rewind(t, "report", 10*time.Hour)
	w.materializeAll(t, w.Store) // one runs, the rest is skipped
	to := time.Now().Truncate(time.Hour)
	q := BackfillRequest{Job: "report", From: to.Add(-400 * 24 * time.Hour), To: to, Limit: 500, Meta: Meta{Actor: "test"}}
	seen, made, calls := 0, 0, 0
	for {
		got, err := w.Backfill(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		seen, made, calls = seen+got.Seen, made+got.Created, calls+1
		if got.Done {
			break
		}
		q.From = got.Through.Add(time.Nanosecond)
	}
	if seen != 400*24+1 || made != seen-w.count(t, "SELECT count(*) FROM events WHERE type = 'RunScheduled' AND data->>'origin' = 'schedule'") || calls < 19 {
		t.Errorf("%d instants looked at, %d runs made, %d calls", seen, made, calls)
	}
	q.From = to.Add(-24 * time.Hour)
	if got, err := w.Backfill(t.Context(), q); err != nil || got.Created != 0 || got.Seen != 25 {
		t.Errorf("repeated: %+v, %v", got, err)
	}
	var refused *BackfillError
	q.To = time.Now().Add(time.Hour)
	if _, err := w.Backfill(t.Context(), q); !errors.As(err, &refused) || !strings.Contains(refused.Why, "still to be decided") {
		t.Errorf("backfill of the future: %v", err)
	}
	var job *domain.JobRefusal
	q.Job = "nobody"
	if _, err := w.Backfill(t.Context(), q); !errors.As(err, &job) || job.Code != domain.JobUnknown {
		t.Errorf("backfill of a job that is not: %v", err)
	}
}

func TestNoErrorInTheServersLog(t *testing.T) {
	c := pgtest.Durable(t, nil)
	w := openWorld(t, c.New(t))
	specs := []domain.JobSpec{everySecond("a", domain.OverlapSkip), everySecond("b", domain.OverlapQueue), everySecond("c", domain.OverlapReplace)}
	w.apply(t, specs...)
	g, ctx := errgroup.WithContext(t.Context())
	for i := range 3 {
		s := w.open(t, fmt.Sprintf("engine-%d", i+2))
		lane := NewLane("default", "noop")
		g.Go(func() error {
			for range 40 {
				if _, err := s.Materialize(ctx, 100, LongestDueFirst, nil); err != nil {
					return err
				}
				got, err := s.Claim(ctx, ClaimRequest{Lane: lane, Limit: 10, Lease: time.Minute}, &memoryOutbox{})
				if err != nil {
					return err
				}
				for _, r := range got.Runs {
					if _, err := s.Execute(ctx, []Command{start(r), succeed(r)}); err != nil {
						return err
					}
				}
				if _, err := s.ExpireClaims(ctx, 100); err != nil {
					return err
				}
				if _, err := s.Pool().Exec(ctx, "SELECT pg_sleep(0.05)"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	log := serverLog(t, c)
	if bad := slices.DeleteFunc(strings.Split(log, "\n"), func(l string) bool {
		return !strings.Contains(l, "ERROR") && !strings.Contains(l, "FATAL") && !strings.Contains(l, "PANIC")
	}); len(bad) > 0 {
		t.Errorf("the server's log has errors:\n%s", strings.Join(bad, "\n"))
	}
}

func serverLog(t *testing.T, c *pgtest.Cluster) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(c.Dir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
