package eventstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/daybookhq/daybook/domain"
)

// seed inserts n due runs with their RunScheduled, spread over the lanes
// default/noop and mail/send and all priorities, ready one second to two hours
// ago (or ahead, with a negative sign).
func (w *world) seed(t *testing.T, n int, ago string) {
	t.Helper()
	w.apply(t, spec("seeded"))
	w.exec(t, `
INSERT INTO due_runs (run_id, job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at, version, changed_at)
SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '8' || substr(h, 1, 3) || '8' || substr(h, 4, 15))::uuid,
       j.id, 1, 'request', CASE g % 3 WHEN 0 THEN 'mail' ELSE 'default' END, CASE g % 3 WHEN 0 THEN 'send' ELSE 'noop' END,
       g % 10, ready, ready, 1, least(ready, now())
  FROM jobs j, generate_series(1, $1::int) g, md5($2 || g::text) h,
       LATERAL (SELECT now() - $2::interval - (g % 7200) * interval '1 s' AS ready) r`, n, ago)
	w.exec(t, `
INSERT INTO events (category, stream_id, version, era, type, at, actor, data)
SELECT 'run', run_id, 1, 1, 'RunScheduled', changed_at, 'test', jsonb_build_object('job_id', job_id, 'job', 'seeded', 'job_version', 1, 'origin', origin,
       'scheduled_at', scheduled_at, 'ready_at', ready_at, 'queue', queue, 'kind', kind, 'priority', priority)
  FROM due_runs WHERE ready_at <= now()`)
}

func TestReplicasClaimEachRunOnce(t *testing.T) {
	n := 50_000
	if testing.Short() {
		n = 5_000
	}
	w := newWorld(t)
	w.seed(t, n, "1 s")
	var mu sync.Mutex
	claimed := map[uuid.UUID]string{}
	g, ctx := errgroup.WithContext(t.Context())
	for replica := range 3 {
		name := fmt.Sprintf("engine-%d", replica+1)
		s := w.open(t, name)
		for _, lane := range []*Lane{NewLane("default", "noop"), NewLane("mail", "send")} {
			g.Go(func() error {
				for {
					c, err := s.Claim(ctx, ClaimRequest{Lane: lane, Limit: 500, Lease: time.Minute}, &memoryOutbox{})
					if err != nil {
						return fmt.Errorf("%s: %w", name, err)
					}
					mu.Lock()
					for _, r := range c.Runs {
						if first, twice := claimed[r.ID]; twice {
							t.Errorf("run %s claimed by %s and by %s", r.ID, first, name)
						}
						claimed[r.ID] = name
					}
					mu.Unlock()
					if len(c.Runs) == 0 && w.count(t, "SELECT count(*) FROM due_runs WHERE queue = $1", lane.Queue) == 0 {
						return nil
					}
				}
			})
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(claimed) != n {
		t.Errorf("%d runs claimed, want %d", len(claimed), n)
	}
	if got := w.count(t, "SELECT count(*) FROM claims"); got != n {
		t.Errorf("%d claim rows, want %d", got, n)
	}
	if got := w.count(t, "SELECT count(*) FROM events WHERE type = 'RunClaimed' AND version = 2"); got != n {
		t.Errorf("%d RunClaimed, want %d", got, n)
	}
}

func TestOldestDueIsChosenWithinALevelAndLevelsInOrder(t *testing.T) {
	w := newWorld(t)
	w.seed(t, 3_000, "1 s")
	c, err := w.Claim(t.Context(), ClaimRequest{Lane: NewLane("default", "noop"), Limit: 300, Lease: time.Minute}, &memoryOutbox{})
	if err != nil {
		t.Fatal(err)
	}
	taken := make([]uuid.UUID, 0, 300)
	for _, r := range c.Runs {
		taken = append(taken, r.ID)
	}
	// Whatever is left of the lane must come after what was taken: by level, then
	// by ready time.
	if n := w.count(t, `SELECT count(*) FROM due_runs d WHERE queue = 'default' AND EXISTS (
		SELECT 1 FROM claims c WHERE c.run_id = ANY($1) AND (c.priority, c.ready_at) > (d.priority, d.ready_at))`, taken); n != 0 {
		t.Errorf("%d runs left that were due before one that was taken", n)
	}
}

func TestNoLevelStarves(t *testing.T) {
	w := newWorld(t)
	w.seed(t, 4_000, "1 s")
	w.exec(t, "UPDATE due_runs SET priority = 0 WHERE priority < 9")
	w.exec(t, "UPDATE due_runs SET ready_at = ready_at - interval '1 day' WHERE priority = 9")
	lane := NewLane("default", "noop")
	for range fairEvery {
		if _, err := w.Claim(t.Context(), ClaimRequest{Lane: lane, Limit: 10, Lease: time.Minute}, &memoryOutbox{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.count(t, "SELECT count(*) FROM claims WHERE priority = 9"); n != 10 {
		t.Errorf("%d of the oldest runs claimed in %d batches, want one batch of 10", n, fairEvery)
	}
}

func TestClaimerDoesNotWaitForAnOpenTransaction(t *testing.T) {
	w := newWorld(t)
	w.seed(t, 300, "1 s")
	tx, err := w.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	var held int
	if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT 1 FROM due_runs WHERE queue = 'default' AND priority < 5 FOR UPDATE) x`).Scan(&held); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // under the role's lock_timeout: waiting would fail
	defer cancel()
	lane := NewLane("default", "noop")
	c, err := w.Claim(ctx, ClaimRequest{Lane: lane, Limit: 1000, Lease: time.Minute}, &memoryOutbox{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range c.Runs {
		if r.Priority < 5 {
			t.Errorf("run %s is locked and was claimed", r.ID)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	lane.full = time.Time{} // what it passed over is found by the next full scan
	rest, err := w.Claim(t.Context(), ClaimRequest{Lane: lane, Limit: 1000, Lease: time.Minute}, &memoryOutbox{})
	if err != nil || len(rest.Runs) != held {
		t.Errorf("%d runs claimed after the lock was gone, want %d (%v)", len(rest.Runs), held, err)
	}
}

// A poll reads index entries of what is due, not of what is waiting beside it.
func TestFutureRunsCostAPollNothing(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 50_000
	}
	w := newWorld(t)
	w.seed(t, n, "-3 hours")
	w.exec(t, "ANALYZE due_runs")
	levels, lows, _ := NewLane("default", "noop").order(t.Context(), w.Store)
	if got := w.buffers(t, takeDue, "default", "noop", levels, lows, 500); got < 0 || got > 100 {
		t.Errorf("a poll beside %d future runs reads %d buffers, want a few for each of %d levels", n, got, domain.Priorities)
	}
}

// buffers is how many pages a statement of a claim reads.
func (w *world) buffers(t *testing.T, sql string, args ...any) int {
	t.Helper()
	conn, err := w.Store.loops.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	rows, err := conn.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT TEXT, TIMING OFF) "+sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan []string
	hit := -1
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, line)
		var shared, read int
		text := strings.TrimSpace(line)
		if hit < 0 && strings.HasPrefix(text, "Buffers: shared") {
			if _, err := fmt.Sscanf(text, "Buffers: shared hit=%d read=%d", &shared, &read); err != nil {
				_, _ = fmt.Sscanf(text, "Buffers: shared hit=%d", &shared)
			}
			hit = shared + read
		}
	}
	text := strings.Join(plan, "\n")
	if strings.Contains(text, "Seq Scan on due_runs") || !strings.Contains(text, "due_runs_lane") {
		t.Errorf("the claim does not go by due_runs_lane:\n%s", text)
	}
	return hit
}

// While a report keeps its snapshot, what was claimed stays in the index.
func TestClaimsDoNotWalkOverWhatIsGone(t *testing.T) {
	w := newWorld(t)
	w.seed(t, 30_000, "1 s")
	w.exec(t, "UPDATE due_runs SET priority = 5, ready_at = now() - interval '1 s' - random() * interval '8 s'")
	w.exec(t, "ANALYZE due_runs")
	report, err := w.admin.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = report.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := report.Exec(t.Context(), "SELECT count(*) FROM jobs"); err != nil {
		t.Fatal(err)
	}
	lane := NewLane("default", "noop")
	for range 18 {
		if c, err := w.Claim(t.Context(), ClaimRequest{Lane: lane, Limit: 1000, Lease: time.Minute}, &memoryOutbox{}); err != nil || !c.Full {
			t.Fatalf("%d runs claimed, %v", len(c.Runs), err)
		}
	}
	lane.wide, lane.batches = time.Now(), 0 // no turn for a wider look
	levels, lows, _ := lane.order(t.Context(), w.Store)
	if got := w.buffers(t, oldestLevel, "default", "noop", levels, lows); got < 0 || got > 2000 {
		t.Errorf("the look for the oldest level reads %d buffers beside 18,000 runs that are gone", got)
	}
	if got := w.buffers(t, takeDue, "default", "noop", levels, lows, 500); got < 0 || got > 4000 {
		t.Errorf("a poll for 500 runs reads %d buffers beside 18,000 runs that are gone", got)
	}
}

// A run whose writer took long to commit lies behind what claims have seen.
func TestLateRunsAreFound(t *testing.T) {
	w := newWorld(t)
	lane := NewLane("default", "noop")
	claim := func() int {
		t.Helper()
		c, err := w.Claim(t.Context(), ClaimRequest{Lane: lane, Limit: 10, Lease: time.Minute}, &memoryOutbox{})
		if err != nil {
			t.Fatal(err)
		}
		return len(c.Runs)
	}
	claim()
	w.seed(t, 2, "4 s")
	lane.wide = time.Time{}
	if n := claim(); n != 2 {
		t.Errorf("%d of 2 runs found that were committed seconds after they were due", n)
	}
	if time.Since(lane.wide) > wideEvery {
		t.Error("the next look would be as wide")
	}
}

func TestUnclaimableRunIsParkedAndTheOthersGoOn(t *testing.T) {
	w := newWorld(t)
	w.seed(t, 90, "1 s")
	// Its stream already has the version that the claim will write.
	var bad uuid.UUID
	if err := w.admin.QueryRow(t.Context(), `INSERT INTO events (category, stream_id, version, era, type, at, actor, data)
		SELECT 'run', run_id, 2, 1, 'RunClaimed', now(), 'corruption', '{}' FROM due_runs WHERE queue = 'default' ORDER BY priority, ready_at LIMIT 1 OFFSET 20
		RETURNING stream_id`).Scan(&bad); err != nil {
		t.Fatal(err)
	}
	lane := NewLane("default", "noop")
	total, parked := 0, 0
	for range 200 {
		c, err := w.Claim(t.Context(), ClaimRequest{Lane: lane, Limit: 50, Lease: time.Minute}, &memoryOutbox{})
		total += len(c.Runs)
		if err != nil {
			if p, ok := err.(*ParkedError); !ok || p.Run != bad { //nolint:errorlint // the very type is promised
				t.Fatalf("claim: %v", err)
			}
			parked++
		}
		if w.count(t, "SELECT count(*) FROM due_runs WHERE queue = 'default'") == 0 {
			break
		}
	}
	if total != 59 || parked != 1 {
		t.Errorf("%d runs claimed and %d parked, want 59 and 1", total, parked)
	}
	if n := w.count(t, "SELECT count(*) FROM parked_runs WHERE run_id = $1", bad); n != 1 {
		t.Error("the bad run is not in parked_runs")
	}
}
