package projections

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// finish makes n finished runs.
func (w *world) finish(t testing.TB, job string, n int) {
	t.Helper()
	w.request(t, job, n)
	for _, r := range w.claim(t, n) {
		w.execute(t, start(r), succeed(r))
	}
}

// shape is all that a rebuilt table must have in common with the old one.
func (w *world) shape(t *testing.T) []string {
	t.Helper()
	rows, err := w.admin.Query(t.Context(), `
		SELECT indexname || ': ' || indexdef FROM pg_indexes WHERE tablename = ANY (daybook_projection_tables('run_summaries'))
		UNION ALL SELECT relname || ' ' || array_to_string(reloptions, ',') || ' ' || relacl::text || ' ' || relowner::regrole::text FROM pg_class WHERE relkind = 'r' AND relname = ANY (daybook_projection_tables('run_summaries'))
		UNION ALL SELECT conname || ' ' || conrelid::regclass::text || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = ANY (daybook_projection_tables('run_summaries')::regclass[])
		UNION ALL SELECT attrelid::regclass::text || '.' || attname || ' ' || atttypid::regtype::text || ' ' || attnotnull::text FROM pg_attribute WHERE attnum > 0 AND attrelid = ANY (daybook_projection_tables('run_summaries')::regclass[])
		UNION ALL SELECT relname FROM pg_class WHERE relname LIKE '%\_next%'
		ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestRebuildRepairsDriftAndKeepsTheTablesShape(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"), spec("other"))
	w.finish(t, "report", 20)
	w.finish(t, "other", 10)
	w.exec(t, "DO $$ BEGIN CREATE ROLE reporting; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$")
	w.exec(t, "GRANT SELECT ON run_summaries TO reporting")
	f := w.follower(Config{Limit: 7})
	settle(t, f)
	before, shape := w.dump(t), w.shape(t)
	w.exec(t, "UPDATE run_summaries SET worker = 'nobody', state = 'failed' WHERE run_id = (SELECT run_id FROM run_summaries LIMIT 1)")
	w.exec(t, "DELETE FROM job_stats WHERE job = 'other'")
	w.exec(t, "UPDATE queue_stats SET running = running + 7")
	w.exec(t, "UPDATE job_minutes SET failed = failed + 1")
	w.exec(t, "DELETE FROM lane_durations")
	for range 2 {
		var last Progress
		if err := Rebuild(t.Context(), w.Store, RunSummariesName, nil, func(p Progress) { last = p }); err != nil {
			t.Fatal(err)
		}
		if last.Events == 0 || last.Total < last.Events {
			t.Errorf("progress %+v", last)
		}
		if after := w.dump(t); !slices.Equal(after, before) {
			t.Errorf("rebuilt tables differ:\n%s\nwant\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
		}
		if now := w.shape(t); !slices.Equal(now, shape) {
			t.Errorf("shape:\n%s\nwant\n%s", strings.Join(now, "\n"), strings.Join(shape, "\n"))
		}
	}
	// The follower that stood at the old tables goes on with the new ones.
	w.finish(t, "report", 5)
	for range 3 {
		settle(t, f)
	}
	if n := w.count(t, "SELECT succeeded FROM job_stats WHERE job = 'report'"); n != 25 {
		t.Errorf("%d finished runs after the rebuild, want 25", n)
	}
	w.checked(t)
	if n := w.count(t, "SELECT count(*) FROM checkpoints"); n != 1 {
		t.Errorf("%d checkpoints", n)
	}
	if !strings.Contains(w.log.String(), "followed elsewhere") {
		t.Error("the follower went on at its old place")
	}
}

func TestFollowerBeginsWhereTheRebuildEnded(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.finish(t, "report", 20)
	if err := Rebuild(t.Context(), w.Store, RunSummariesName, nil, nil); err != nil {
		t.Fatal(err)
	}
	f := w.follower(Config{})
	settle(t, f)
	if n := f.members[0].count; n != 0 {
		t.Errorf("read %d events again", n)
	}
	if lag, err := f.Lag(t.Context()); err != nil || lag[0].Events != 0 || lag[0].Behind != 0 {
		t.Errorf("lag %+v, %v", lag, err)
	}
}

// Nobody may meet a missing table, an empty list, or a run that goes back.
func TestRebuildKeepsNobodyWaiting(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.finish(t, "report", 50)
	w.follow(t)
	f := w.follower(Config{Tick: 5 * time.Millisecond, Limit: 50})
	background, stop := contextWithCancel(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.Run(background); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		reader := NewReader(w.open(t))
		most := int64(0)
		for background.Err() == nil {
			page, err := reader.ListRuns(t.Context(), RunFilter{States: []domain.State{domain.Succeeded}, Limit: 40})
			if err != nil || len(page.Runs) != 40 {
				t.Errorf("list during a rebuild: %d runs, %v", len(page.Runs), err)
				return
			}
			stats, err := reader.JobStats(t.Context(), "report")
			if err != nil || stats["report"].Succeeded < most {
				t.Errorf("statistics went from %d to %+v, %v", most, stats["report"], err)
				return
			}
			most = stats["report"].Succeeded
		}
	})
	writer := &world{Store: w.open(t), lane: w.lane}
	wg.Go(func() {
		for background.Err() == nil {
			writer.finish(t, "report", 10)
		}
	})
	store := w.open(t)
	for range 5 {
		if err := Rebuild(t.Context(), store, RunSummariesName, nil, nil); err != nil {
			t.Error(err)
			break
		}
	}
	stop()
	wg.Wait()
	w.follow(t)
	w.checked(t)
	if strings.Contains(w.log.String(), "fall behind") {
		t.Errorf("the follower met an error:\n%s", w.log)
	}
}

func TestRebuildIsRefusedWhereItCannotBe(t *testing.T) {
	w := newWorld(t)
	var unknown *UnknownProjectionError
	if err := Rebuild(t.Context(), w.Store, "jobs", nil, nil); !errors.As(err, &unknown) {
		t.Errorf("unknown projection: %v", err)
	}
	if _, err := Check(t.Context(), w.Store, "jobs", 0); !errors.As(err, &unknown) {
		t.Errorf("unknown projection: %v", err)
	}
	other := w.follower(Config{Projections: []Projection{newRunSummaries(nextTable, nextName)}})
	if _, err := other.acquire(t.Context(), other.members[0]); err != nil {
		t.Fatal(err)
	}
	if err := Rebuild(t.Context(), w.Store, RunSummariesName, nil, nil); !errors.Is(err, ErrRebuilding) {
		t.Errorf("second rebuild: %v", err)
	}
	other.release(t.Context())
	if err := Rebuild(t.Context(), w.Store, RunSummariesName, nil, nil); err != nil {
		t.Errorf("after the first has gone: %v", err)
	}
	// The engine's role can do that and nothing more.
	if _, err := w.Pool().Exec(t.Context(), "SELECT daybook_rebuild_begin('events')"); err == nil {
		t.Error("the log can be rebuilt")
	}
	if _, err := w.Pool().Exec(t.Context(), "CREATE TABLE mine (x int)"); err == nil {
		t.Error("the engine's role can create tables")
	}
}

func TestRebuildTakesParkedStreamsAlong(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.finish(t, "report", 3)
	w.exec(t, "UPDATE events SET type = 'RunTeleported' WHERE type = 'RunStarted' AND stream_id = (SELECT stream_id FROM events WHERE category = 'run' LIMIT 1)")
	if err := Rebuild(t.Context(), w.Store, RunSummariesName, nil, nil); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT count(*) FROM projection_parked WHERE projection = 'run_summaries' AND version = 3"); n != 1 {
		t.Errorf("%d streams parked", n)
	}
	w.checked(t)
}

func TestCheckFindsEveryKindOfDrift(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.finish(t, "report", 10)
	w.follow(t)
	w.request(t, "report", 5) // not applied yet: no drift
	if r := w.checked(t); r.Streams != 15 || r.Drifted != 0 {
		t.Fatalf("%+v", r)
	}
	ids := func(n int) string {
		return fmt.Sprintf("(SELECT run_id FROM run_summaries ORDER BY run_id OFFSET %d LIMIT 1)", n)
	}
	for name, c := range map[string]struct{ plant, want string }{
		"a column":         {"UPDATE run_summaries SET worker = 'nobody' WHERE run_id = " + ids(0), "differs [{worker w-1 nobody}"},
		"a lost column":    {"UPDATE run_summaries SET started_at = NULL WHERE run_id = " + ids(1), "started_at"},
		"a missing row":    {"DELETE FROM run_summaries WHERE run_id = " + ids(2), "missing"},
		"a row too many":   {"UPDATE run_summaries SET run_id = gen_random_uuid() WHERE run_id = " + ids(3), "no such run"},
		"a row left back":  {"UPDATE run_summaries SET version = 2, state = 'claimed' WHERE run_id = " + ids(4), "at version 2, the follower is past 4"},
		"a row ahead":      {"UPDATE run_summaries SET version = 9 WHERE run_id = " + ids(5), "the log ends at 4"},
		"wrong statistics": {"UPDATE job_stats SET succeeded = succeeded + 1", "job_stats"},
		"no statistics":    {"DELETE FROM job_stats", "null"},
	} {
		t.Run(name, func(t *testing.T) {
			w.exec(t, c.plant)
			r, err := Check(t.Context(), w.Store, RunSummariesName, 0)
			if err != nil {
				t.Fatal(err)
			}
			if said := fmt.Sprintf("%+v", r.Drift); r.Drifted == 0 || !strings.Contains(strings.ReplaceAll(strings.ReplaceAll(said, "Column:", ""), "Log:", ""), strings.Split(c.want, " [")[0]) {
				t.Errorf("found %d: %s, want %q", r.Drifted, said, c.want)
			}
			if err := Rebuild(t.Context(), w.Store, RunSummariesName, nil, nil); err != nil {
				t.Fatal(err)
			}
			w.checked(t)
		})
	}
}

func TestSampleFindsDriftThatIsEverywhere(t *testing.T) {
	w := newWorld(t)
	if r, err := Check(t.Context(), w.Store, RunSummariesName, 10); err != nil || r.Streams != 0 {
		t.Errorf("empty log: %+v, %v", r, err)
	}
	w.apply(t, spec("report"))
	w.finish(t, "report", 300)
	w.follow(t)
	r, err := Check(t.Context(), w.Store, RunSummariesName, 50)
	if err != nil || r.Streams < 50 || r.Drifted != 0 {
		t.Errorf("sample: %+v, %v", r, err)
	}
	w.exec(t, "UPDATE run_summaries SET kind = 'other'")
	if r, err = Check(t.Context(), w.Store, RunSummariesName, 50); err != nil || r.Drifted < 50 || len(r.Drift) > driftShown {
		t.Errorf("sample: %d of %d drifted, %d shown, %v", r.Drifted, r.Streams, len(r.Drift), err)
	}
}
