package eventstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/devpg"
	"github.com/daybookhq/daybook/internal/pgtest"
)

// follower reads the log with pages of random size and notes what it was given.
type follower struct {
	cursor Cursor
	rnd    *rand.Rand
	seen   []Recorded
}

func (f *follower) read(ctx context.Context, s *Store) error {
	for {
		limit := 1 + f.rnd.IntN(20)
		s.sorted = []int{1, sortedAtOnce}[f.rnd.IntN(2)] // a page's worth, or more than there is
		page, next, end, err := s.ReadSome(ctx, f.cursor, limit)
		if f.rnd.IntN(2) == 0 {
			page, next, err = s.Read(ctx, f.cursor, limit)
			end = len(page) < limit
		}
		if err != nil {
			return err
		}
		f.seen, f.cursor = append(f.seen, page...), next
		if end {
			return nil
		}
	}
}

// check compares what was read with the table: each event one time, the events
// of a stream in the order of their versions.
func (f *follower) check(t *testing.T, w *world) {
	t.Helper()
	if want := w.count(t, "SELECT count(*) FROM events"); len(f.seen) != want {
		t.Errorf("read %d events, the log holds %d", len(f.seen), want)
	}
	last := map[uuid.UUID]int{}
	for _, r := range f.seen {
		if r.Version != last[r.StreamID]+1 {
			t.Errorf("stream %s: version %d came after version %d", r.StreamID, r.Version, last[r.StreamID])
		}
		last[r.StreamID] = r.Version
	}
}

// write appends to random streams in transactions of several streams, some of
// which roll back, with a pause between drawing a position and the commit.
func write(ctx context.Context, s *Store, rnd *rand.Rand, streams []uuid.UUID, rounds int) error {
	for range rounds {
		ids := []uuid.UUID{streams[rnd.IntN(len(streams))], streams[rnd.IntN(len(streams))]}
		ids = distinct(ids)
		tx, err := begin(ctx, s.loops, "SELECT pg_advisory_xact_lock(hashtext(s::text)) FROM unnest($1::uuid[]) s", []any{ids}, func(pgx.Rows) error { return nil })
		if err != nil {
			return err
		}
		for _, id := range ids {
			var version int
			if err := tx.conn.QueryRow(ctx, "SELECT count(*) FROM events WHERE category = 'job' AND stream_id = $1", id).Scan(&version); err != nil {
				return err
			}
			if _, err := tx.conn.Exec(ctx, `INSERT INTO events (category, stream_id, version, era, type, at, actor, data)
				VALUES ('job', $1, $2, (SELECT max(era) FROM eras), 'JobPaused', now(), 'test', '{}')`, id, version+1); err != nil {
				return err
			}
			if rnd.IntN(4) == 0 {
				if _, err := tx.conn.Exec(ctx, "SELECT pg_sleep($1)", rnd.Float64()*0.005); err != nil {
					return err
				}
			}
		}
		if rnd.IntN(10) == 0 {
			tx.rollback(ctx)
			continue
		}
		if _, err := tx.conn.Exec(ctx, "COMMIT"); err != nil {
			return err
		}
		tx.conn.Release()
		tx.conn = nil
	}
	return nil
}

func newStreams(n int) []uuid.UUID {
	out := make([]uuid.UUID, n)
	for i := range out {
		out[i] = domain.JobID(fmt.Sprintf("stream-%d", i))
	}
	return out
}

func TestReaderMissesNothingWhileWritersCommitOutOfOrder(t *testing.T) {
	w := newWorld(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	streams := newStreams(12)
	done := make(chan struct{})
	writers, ctx := errgroup.WithContext(t.Context())
	for i := range 4 {
		writers.Go(func() error { return write(ctx, w.Store, rand.New(rand.NewPCG(seed, uint64(i))), streams, 150) })
	}
	f := &follower{rnd: rand.New(rand.NewPCG(seed, 99))}
	reader := make(chan error, 1)
	go func() {
		for {
			if err := f.read(t.Context(), w.Store); err != nil {
				reader <- err
				return
			}
			select {
			case <-done:
				reader <- f.read(t.Context(), w.Store)
				return
			default:
			}
		}
	}()
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	close(done)
	if err := <-reader; err != nil {
		t.Fatal(err)
	}
	f.check(t, w)
}

func TestOpenTransactionNeitherStallsTheReaderNorIsLost(t *testing.T) {
	w := newWorld(t)
	early, err := w.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = early.Rollback(context.WithoutCancel(t.Context())) }()
	insert := `INSERT INTO events (category, stream_id, version, era, type, at, actor, data) VALUES ('job', $1, 1, 1, 'JobPaused', now(), 'test', '{}')`
	streams := newStreams(3)
	if _, err := early.Exec(t.Context(), insert, streams[0]); err != nil { // takes the lowest position
		t.Fatal(err)
	}
	w.exec(t, insert, streams[1])
	f := &follower{rnd: rand.New(rand.NewPCG(1, 2))}
	if err := f.read(t.Context(), w.Store); err != nil {
		t.Fatal(err)
	}
	if len(f.seen) != 1 || f.seen[0].StreamID != streams[1] {
		t.Fatalf("read %d events beside an open transaction, want the committed one", len(f.seen))
	}
	w.exec(t, insert, streams[2])
	if err := early.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.read(t.Context(), w.Store); err != nil {
		t.Fatal(err)
	}
	f.check(t, w)
	if f.seen[1].StreamID != streams[0] {
		t.Error("the late commit came after a later position of the same window")
	}
}

// A dump takes the rows and their xids to a cluster in which those xids mean
// nothing.
func TestReaderGoesOnAfterDumpAndRestore(t *testing.T) {
	bin, err := devpg.FindBinDir()
	if err != nil {
		t.Fatal(err)
	}
	first := openWorld(t, pgtest.New(t))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	streams := newStreams(5)
	if err := write(t.Context(), first.Store, rnd, streams, 60); err != nil {
		t.Fatal(err)
	}
	f := &follower{rnd: rnd}
	page, cursor, err := first.Read(t.Context(), Cursor{}, 37) // stops inside a window
	if err != nil {
		t.Fatal(err)
	}
	f.seen, f.cursor = page, cursor
	if err := write(t.Context(), first.Store, rnd, streams, 30); err != nil {
		t.Fatal(err)
	}

	other := pgtest.Durable(t, nil)
	db := other.NewWith(t, "empty", func(context.Context, string) error { return nil })
	adm := db.Pool(t, "")
	for _, role := range []string{"daybook_engine LOGIN", "daybook_auditor"} { // roles are the cluster's; a dump does not have them
		if _, err := adm.Exec(t.Context(), "CREATE ROLE "+role); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range settings {
		if _, err := adm.Exec(t.Context(), fmt.Sprintf("ALTER ROLE daybook_engine SET %s = '%s'", s.name, s.want)); err != nil {
			t.Fatal(err)
		}
	}
	dump := filepath.Join(t.TempDir(), "dump.sql")
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, name), args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	run("pg_dump", "--dbname="+first.admin.Config().ConnString(), "--file="+dump)
	if _, err := os.Stat(dump); err != nil {
		t.Fatal(err)
	}
	run("psql", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname="+db.DSN, "--file="+dump)

	second := &world{dsn: db.DSNFor("daybook_engine"), admin: adm, log: first.log}
	_, err = Open(t.Context(), Config{DSN: second.dsn})
	if mismatch := new(EraMismatchError); !errors.As(err, &mismatch) || mismatch.Era != 1 {
		t.Fatalf("opening a restored log: %v, want a mismatch of era 1", err)
	}
	if era, err := RaiseEra(t.Context(), db.DSN, "restored in a test"); err != nil || era != 2 {
		t.Fatalf("raised era %d, %v", era, err)
	}
	second.Store = second.open(t, "engine-2")
	if err := write(t.Context(), second.Store, rnd, streams, 40); err != nil {
		t.Fatal(err)
	}
	if err := f.read(t.Context(), second.Store); err != nil {
		t.Fatal(err)
	}
	f.check(t, second)
	fresh := &follower{rnd: rnd}
	if err := fresh.read(t.Context(), second.Store); err != nil {
		t.Fatal(err)
	}
	fresh.check(t, second)
	if eras := second.count(t, "SELECT count(DISTINCT era) FROM events"); eras != 2 {
		t.Errorf("events of %d eras, want 2", eras)
	}
}

func TestAfterPosition(t *testing.T) {
	w := newWorld(t)
	if err := write(t.Context(), w.Store, rand.New(rand.NewPCG(3, 4)), newStreams(4), 30); err != nil {
		t.Fatal(err)
	}
	all, _, err := w.Read(t.Context(), Cursor{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	half := all[len(all)/2].Position
	c, err := w.After(t.Context(), half)
	if err != nil {
		t.Fatal(err)
	}
	rest, _, err := w.Read(t.Context(), c, 1000)
	if err != nil {
		t.Fatal(err)
	}
	above := slices.DeleteFunc(slices.Clone(all), func(r Recorded) bool { return r.Position <= half })
	if len(rest) != len(above) {
		t.Errorf("%d events after position %d, want %d", len(rest), half, len(above))
	}
}

func TestLogIsAppendOnlyForTheApplication(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	for _, sql := range []string{
		"UPDATE events SET actor = 'nobody'", "DELETE FROM events", "TRUNCATE events", "UPDATE run_slots SET run_id = run_id",
		"DELETE FROM run_slots", "DELETE FROM run_keys", "INSERT INTO eras VALUES (9, 'x', 1, now(), 'x')", "DELETE FROM events_job",
	} {
		if _, err := w.Pool().Exec(t.Context(), sql); sqlState(err) != "42501" {
			t.Errorf("%s: %v, want permission denied", sql, err)
		}
	}
}

// bulk appends one event to each of n new streams.
const bulk = `INSERT INTO events (category, stream_id, version, era, type, at, actor, data)
	SELECT 'job', gen_random_uuid(), 1, 1, 'JobPaused', now(), 'test', '{"reason": "a text of some length, as events have"}' FROM generate_series(1, $1)`

// What a long transaction wrote lies far below what a reader has been given when
// it commits, and the window in which it is given may be a large one.
func TestStragglerOfALargeWindowIsRead(t *testing.T) {
	w := newWorld(t)
	w.sorted = 1
	early, err := w.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = early.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := early.Exec(t.Context(), bulk, 3); err != nil {
		t.Fatal(err)
	}
	read := func(c Cursor, want int) Cursor {
		t.Helper()
		for n := 0; ; {
			page, next, err := w.Read(t.Context(), c, 50)
			if err != nil {
				t.Fatal(err)
			}
			n, c = n+len(page), next
			if len(page) == 50 {
				if c.NextCeiling == 0 {
					t.Fatal("a large window is sorted for each of its pages")
				}
				continue
			}
			if n != want {
				t.Errorf("read %d events, want %d", n, want)
			}
			return c
		}
	}
	w.exec(t, bulk, 2*drawnEarly)
	c := read(Cursor{}, 2*drawnEarly)
	w.exec(t, bulk, 500)
	if err := early.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = read(read(c, 503), 0)
	if err := w.beginSlices(t.Context(), &c, 1<<40); err != nil || c.PrevFloor < drawnEarly || c.Position != c.PrevFloor {
		t.Errorf("without stragglers slices begin at %d, want %d, %v", c.Position, c.PrevFloor, err)
	}
}

// A page from far behind reads about as much as it returns, wherever it begins.
func TestPageFromFarBehindReadsLittleMore(t *testing.T) {
	const events, limit = 60_000, 500
	w := newWorld(t)
	for range 6 {
		w.exec(t, bulk, events/6)
	}
	if _, err := w.Pool().Exec(t.Context(), "SELECT daybook_summarize_events()"); err != nil {
		t.Fatal(err)
	}
	now := w.count(t, "SELECT 1 + pg_snapshot_xmax(pg_current_snapshot())::text::int")
	all, snapshot := fmt.Sprintf("'%s'", emptySnapshot), fmt.Sprintf("'%d:%d:'", now, now)
	beside := fmt.Sprintf("'%d:%d:%d'", now, now+1, now)
	for _, c := range []struct {
		name, sql string
		args      []string
		index     string
		most      int
	}{
		{"slice", readSlice, []string{"1", "30000", "31000", all, snapshot, "500"}, "events_job_position_idx", 8000},
		{"slice without an end", readSlice, []string{"1", "30000", "31000", all, "NULL", "500"}, "events_job_position_idx", 8000},
		{"position", eraAt, []string{"30000", "31024"}, "events_job_position_idx", 8000},
		{"probe", readWindow, []string{"1", all, "NULL", "0", "500", "2000"}, "events_job_xid_idx", 2000},
		{"end", readWindow, []string{"1", snapshot, "NULL", "0", "500", "2000"}, "events_job_xid_idx", 0},
		{"end with stragglers", readWindow, []string{"1", beside, "NULL", "0", "500", "2000"}, "events_job_xid_idx", 0},
		{"stragglers", firstStraggler, []string{"1", snapshot, "NULL"}, "events_job_xid_idx", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := w.explain(t, c.sql, c.args)
			if got := p.rowsOf("events_job"); got > c.most || !p.uses(c.index) || p.scansAll() {
				t.Errorf("reads %d rows, want at most %d by %s:\n%s", got, c.most, c.index, p.text)
			}
		})
	}
}

// A large window begins where its first event may lie at the earliest, and one
// event of it costs no more questions than many.
func TestOneEventOfALargeWindow(t *testing.T) {
	w := newWorld(t)
	w.exec(t, bulk, 2*drawnEarly)
	c, err := w.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.exec(t, bulk, sortedAtOnce+1)
	before := w.loops.Stat().AcquireCount()
	page, _, err := w.Read(t.Context(), c, 1)
	if err != nil || len(page) != 1 || page[0].Position != 2*drawnEarly+1 {
		t.Fatalf("read %+v, %v", page, err)
	}
	if n := w.loops.Stat().AcquireCount() - before; n > 10 {
		t.Errorf("%d questions for one event", n)
	}
}
