package eventstore

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
)

func TestOldKeysThatNobodyUsesAreRemoved(t *testing.T) {
	w := newWorld(t)
	s := spec("import")
	s.Concurrency = &domain.Concurrency{Key: "tenant", Limit: 1}
	w.apply(t, s)
	ask := func(tenant string) {
		t.Helper()
		if _, err := w.Request(t.Context(), []RunRequest{{Job: "import", Args: json.RawMessage(`{"tenant": "` + tenant + `"}`)}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 25 {
		ask(fmt.Sprintf("t%02d", i))
	}
	claimed, _ := w.settle(t)
	for _, r := range claimed[1:] {
		w.execute(t, start(r), succeed(r))
	}
	sweep := func(limit int) (removed int) {
		t.Helper()
		for after, first := "", true; first || after != ""; first = false {
			n, next, err := w.SweepKeys(t.Context(), limit, after)
			if err != nil {
				t.Fatal(err)
			}
			removed, after = removed+n, next
		}
		return removed
	}
	if n := sweep(10); n != 0 {
		t.Errorf("%d keys removed that were made a moment ago", n)
	}
	w.exec(t, "UPDATE limit_keys SET made_at = now() - interval '2 hours'")
	ask("t24")
	w.exec(t, "INSERT INTO limit_keys (key) VALUES ('limit:young')")
	// A run waits for a place that nobody holds: it was freed where nobody saw it.
	w.exec(t, `INSERT INTO limit_keys (key, made_at) VALUES ('limit:awaited', '2020-01-01')`)
	w.exec(t, `INSERT INTO waiting_runs SELECT run_id, 'limit:awaited', job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at,
		version, attempt, dispatches, claims, changed_at, args, catch_up, now() FROM due_runs`)
	w.exec(t, "DELETE FROM due_runs")
	if n := sweep(10); n != 24 {
		t.Errorf("%d keys removed, want the 24 that are old and that nobody uses", n)
	}
	if n := w.count(t, "SELECT count(*) FROM limit_keys WHERE key IN ('limit:young', 'limit:awaited') OR key IN (SELECT key FROM limit_holders)"); n != 3 {
		t.Errorf("%d of the 3 keys in use or young are there", n)
	}
	w.execute(t, start(claimed[0]), succeed(claimed[0]))
	ask("t05")
	if again, _ := w.settle(t); len(again) != 1 {
		t.Errorf("%d runs claimed whose key had been removed", len(again))
	}
}

// A place that was taken when the sweep had looked already keeps its key, and the
// sweep does not count it.
func TestKeyOfAPlaceTakenMeanwhileStays(t *testing.T) {
	w := newWorld(t)
	w.exec(t, "INSERT INTO limit_keys (key, made_at) VALUES ('limit:a', '2020-01-01'), ('limit:b', '2020-01-01'), ('limit:c', '2020-01-01')")
	w.pausing = func(string) {
		w.exec(t, "INSERT INTO limit_holders (key, run_id) VALUES ('limit:b', gen_random_uuid())")
	}
	if n, _, err := w.SweepKeys(t.Context(), 10, ""); n != 2 || err != nil {
		t.Errorf("%d keys removed, %v, want the 2 that nobody uses", n, err)
	}
	if n := w.count(t, "SELECT count(*) FROM limit_keys WHERE key = 'limit:b'"); n != 1 {
		t.Error("the key of a place that is held was removed: the place is held for ever")
	}
}

// A key goes away and comes back all the time while replicas claim and close:
// no limit is exceeded, and no place is lost.
func TestSweepRacesWithClaims(t *testing.T) {
	w := newWorld(t)
	w.exec(t, "ALTER TABLE limit_keys ALTER COLUMN made_at SET DEFAULT '2020-01-01'")
	s := spec("import")
	s.Concurrency = &domain.Concurrency{Key: "tenant", Limit: 1}
	w.apply(t, s)
	const runs = 300
	var requests []RunRequest
	for i := range runs {
		requests = append(requests, RunRequest{Job: "import", Args: json.RawMessage(fmt.Sprintf(`{"tenant": "t%d"}`, i%4))})
	}
	if _, err := w.Request(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	var wg, claimers sync.WaitGroup
	done := make(chan struct{})
	for i := range 2 {
		st := w.open(t, fmt.Sprintf("sweeper-%d", i))
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, _, err := st.SweepKeys(t.Context(), 100, ""); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 3 {
		st := w.open(t, fmt.Sprintf("engine-%d", i+2))
		claimers.Go(func() {
			lane := NewLane("default", "noop")
			for end := time.Now().Add(2 * time.Minute); w.count(t, "SELECT count(*) FROM events WHERE type = 'RunSucceeded'") < runs; {
				c, err := st.Claim(t.Context(), ClaimRequest{Lane: lane, Limit: 5, Lease: time.Minute}, &memoryOutbox{})
				if err != nil || time.Now().After(end) {
					t.Errorf("claim: %v, %d places held, %d runs wait", err, w.count(t, "SELECT count(*) FROM limit_holders"), w.count(t, "SELECT count(*) FROM waiting_runs"))
					return
				}
				if n := w.count(t, "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM limit_holders GROUP BY key) x"); n > 1 {
					t.Errorf("%d runs have a place of one tenant, the limit is 1", n)
				}
				for _, r := range c.Runs {
					if a, err := st.Execute(t.Context(), []Command{start(r), succeed(r)}); err != nil || a[1].Err != nil {
						t.Error(err, a)
						return
					}
				}
			}
		})
	}
	claimers.Wait()
	close(done)
	wg.Wait()
	if n := w.count(t, "SELECT count(*) FROM limit_holders"); n != 0 {
		t.Errorf("%d places are held when all runs have ended", n)
	}
}
