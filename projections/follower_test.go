package projections

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

func TestSummariesFollowEveryLifecycle(t *testing.T) {
	w := newWorld(t)
	s := spec("report")
	s.Retry.MaxAttempts = 2
	w.apply(t, s)
	ids := w.request(t, "report", 7)
	runs := map[string]domain.Run{}
	for _, r := range w.claim(t, 6) {
		runs[r.ID.String()] = r
	}
	var hand []domain.Run
	for _, id := range ids {
		if r, ok := runs[id.String()]; ok {
			hand = append(hand, r)
		}
	}
	long := strings.Repeat("é", 600)
	w.execute(t, start(hand[0]), start(hand[1]), start(hand[2]), start(hand[3]))
	w.execute(t, succeed(hand[0]), fail(hand[1], true, long), fail(hand[2], false, "no"), cancel(hand[3].ID, "stop"), cancel(hand[4].ID, "never mind"))
	w.exec(t, "UPDATE claims SET lease_until = now() - interval '1 s' WHERE run_id = $1", hand[5].ID)
	if _, err := w.ExpireClaims(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	w.follow(t)

	want := map[string]struct {
		state   domain.State
		version int
		attempt int
		check   func(s RunSummary) bool
	}{
		hand[0].ID.String(): {domain.Succeeded, 4, 1, func(s RunSummary) bool {
			d, ok := s.Duration()
			return ok && d > 0 && s.Worker == "w-1" && s.FinishedAt != nil && s.ClaimID == nil && s.FirstStartedAt.Equal(*s.StartedAt)
		}},
		hand[1].ID.String(): {domain.Pending, 4, 1, func(s RunSummary) bool {
			return s.ErrorType == "boom" && s.ErrorMessage == strings.Repeat("é", 512) && s.FinishedAt == nil && s.ReadyAt.After(s.ScheduledAt)
		}},
		hand[2].ID.String(): {domain.Failed, 4, 1, func(s RunSummary) bool { return s.ErrorMessage == "no" && s.FinishedAt != nil }},
		hand[3].ID.String(): {domain.Running, 4, 1, func(s RunSummary) bool {
			return s.CancelRequested && s.Reason == "stop" && s.ClaimID != nil && *s.ClaimID == hand[3].ClaimID
		}},
		hand[4].ID.String(): {domain.Cancelled, 3, 0, func(s RunSummary) bool { return s.Reason == "never mind" && s.StartedAt == nil && s.ClaimedAt != nil }},
		hand[5].ID.String(): {domain.Pending, 3, 0, func(s RunSummary) bool { return s.Dispatches == 1 && s.Claims == 1 && s.ClaimID == nil }},
	}
	page, err := NewReader(w.Store).ListRuns(t.Context(), RunFilter{Job: "report"})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Runs) != 7 {
		t.Fatalf("%d runs listed, want 7", len(page.Runs))
	}
	for _, s := range page.Runs {
		e, ok := want[s.RunID.String()]
		if !ok {
			if s.State != domain.Pending || s.Version != 1 || s.Job != "report" || s.Queue != "default" || s.Kind != "noop" || s.Origin != domain.OriginRequest || s.Key == "" || s.JobVersion != 1 {
				t.Errorf("untouched run: %+v", s)
			}
			continue
		}
		if s.State != e.state || s.Version != e.version || s.Attempt != e.attempt || !e.check(s) {
			t.Errorf("want %s at version %d, attempt %d, have %+v", e.state, e.version, e.attempt, s)
		}
	}

	stats, err := NewReader(w.Store).JobStats(t.Context(), "report", "unknown")
	if err != nil {
		t.Fatal(err)
	}
	st := stats["report"]
	if len(stats) != 1 || st.Succeeded != 1 || st.Failed != 1 || st.Cancelled != 1 || st.Skipped != 0 || st.LastSuccessAt == nil || st.LastFailureAt == nil {
		t.Errorf("statistics: %+v", stats)
	}
	w.checked(t)
}

func TestConsecutiveFailuresCountByInstant(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	outcome := func(ok bool) {
		t.Helper()
		w.request(t, "report", 1)
		r := w.claim(t, 1)[0]
		w.execute(t, start(r))
		if ok {
			w.execute(t, succeed(r))
		} else {
			w.execute(t, fail(r, false, "no"))
		}
		await(t, "the next millisecond, which is as finely as run ids order instants", func() bool {
			now, err := w.Now(t.Context())
			return err == nil && now.UnixMilli() > r.ScheduledAt.UnixMilli()
		})
	}
	for i, step := range []struct {
		ok   bool
		want int
	}{{false, 1}, {true, 0}, {false, 1}, {false, 2}, {true, 0}, {false, 1}} {
		outcome(step.ok)
		w.follow(t)
		stats, err := NewReader(w.Store).JobStats(t.Context(), "report")
		if err != nil {
			t.Fatal(err)
		}
		if got := stats["report"].ConsecutiveFailures; got != step.want {
			t.Errorf("after outcome %d: %d consecutive failures, want %d", i, got, step.want)
		}
	}
}

// A follower that was replaced while it held a page in hand must not write it.
func TestReplacedFollowerWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 3)
	old, young := w.follower(Config{}), w.follower(Config{})
	settle(t, old)
	if did, _, err := young.Step(t.Context()); did || err != nil || young.members[0].held {
		t.Fatalf("a second follower took a live lease: %v %v", did, err)
	}
	w.exec(t, "UPDATE checkpoints SET lease_until = now()")
	w.request(t, "report", 3)
	settle(t, young)
	w.request(t, "report", 3)

	m := old.members[0]
	page, after, _, err := old.read(t.Context(), m)
	if err != nil || len(page) == 0 {
		t.Fatalf("read %d events, %v", len(page), err)
	}
	if err := old.write(t.Context(), m, page, after); !errors.Is(err, errReplaced) {
		t.Errorf("a replaced follower's page: %v", err)
	}
	if n := w.count(t, "SELECT count(*) FROM run_summaries"); n != 6 {
		t.Errorf("%d rows, want the 6 of its successor", n)
	}
	settle(t, young)
	if _, _, err := old.Step(t.Context()); err != nil || old.members[0].held {
		t.Errorf("replaced follower's next step: %v, held %v", err, old.members[0].held)
	}
	w.checked(t)
}

func TestIdleFollowerKeepsItsLeaseAndWritesLittle(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	f := w.follower(Config{})
	settle(t, f)
	updated := w.count(t, "SELECT extract(epoch FROM updated_at) * 1e6 FROM checkpoints")
	for range 5 {
		settle(t, f)
	}
	if w.count(t, "SELECT extract(epoch FROM updated_at) * 1e6 FROM checkpoints") != updated {
		t.Error("reading nothing wrote the checkpoint")
	}
	f.members[0].saved = time.Now().Add(-f.lease / 2)
	settle(t, f)
	if w.count(t, "SELECT extract(epoch FROM updated_at) * 1e6 FROM checkpoints") == updated {
		t.Error("the lease was not renewed")
	}
}

func TestRunFollowsThroughOutagesAndReleases(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	f := w.follower(Config{Tick: 10 * time.Millisecond})
	ctx, stop := contextWithCancel(t)
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	reader := NewReader(w.Store)
	for i := 1; i <= 3; i++ {
		(&world{Store: w.open(t)}).request(t, "report", 10) // not over connections that were cut
		f.Wake()
		await(t, "the runs in the list", func() bool {
			p, err := reader.ListRuns(t.Context(), RunFilter{})
			return err == nil && len(p.Runs) == 10*i
		})
		w.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'daybook_engine'")
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("clean stop: %v", err)
	}
	if n := w.count(t, "SELECT count(*) FROM checkpoints WHERE owner = '' AND lease_until < now()"); n != 1 {
		t.Error("the lease was not given back")
	}
}

func TestFarBehindReadsStreamByStream(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	f := w.follower(Config{Limit: 10})
	settle(t, f)
	w.request(t, "report", 100)
	for _, r := range w.claim(t, 100) {
		w.execute(t, start(r), succeed(r))
	}
	var asked bool
	f.farBehind = func(behind, total int64, limit int) bool { asked = true; return behind > 50 }
	scanned := false
	for {
		_, next, err := f.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f.members[0].at.Scan != nil {
			scanned = true
			w.checked(t) // half way, too
		}
		if next > 0 {
			break
		}
	}
	if !asked || !scanned {
		t.Errorf("asked %v, scanned %v", asked, scanned)
	}
	if n := w.count(t, "SELECT count(*) FROM run_summaries WHERE state = 'succeeded' AND version = 4"); n != 100 {
		t.Errorf("%d finished runs, want 100", n)
	}
	if w.count(t, "SELECT succeeded FROM job_stats") != 100 {
		t.Error("what was applied before the scan was counted again, or not at all")
	}
	w.checked(t)
}

func TestFarBehindWeighsWindowsAgainstTheWholeLog(t *testing.T) {
	for _, c := range []struct {
		behind, total int64
		want          bool
	}{
		{1_000, 1_000, false}, {100_000, 1_000_000, false}, {1_000_000, 1_000_000, true},
		{50_000_000, 1_000_000_000, false}, {600_000_000, 1_000_000_000, true},
	} {
		if got := farBehind(c.behind, c.total, 5000); got != c.want {
			t.Errorf("%d behind of %d: scan %v, want %v", c.behind, c.total, got, c.want)
		}
	}
}

func TestLag(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	f := w.follower(Config{Owner: "engine-1"})
	lag := func() Lag {
		t.Helper()
		l, err := f.Lag(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return l[0]
	}
	if l := lag(); l.Behind <= 0 || l.Events == 0 || l.Owner != "" {
		t.Errorf("before the first step: %+v", l)
	}
	settle(t, f)
	if l := lag(); l.Behind != 0 || l.Events != 0 || l.CatchingUp || !strings.HasPrefix(l.Owner, "engine-1/") {
		t.Errorf("at the end of the log: %+v", l)
	}
	w.request(t, "report", 5)
	if l := lag(); l.Behind <= 0 || l.Events != 5 {
		t.Errorf("five events behind: %+v", l)
	}
	settle(t, f)
	if _, err := w.Append(t.Context(), eventstore.NewEvents{Stream: domain.JobID("x"), Expect: 3, Events: []domain.Event{domain.JobPaused{}}}); err == nil {
		t.Fatal("append at a wrong version went through")
	}
	w.exec(t, "SELECT nextval('event_position')")
	if l := lag(); l.Behind != 0 || l.Events != 0 {
		t.Errorf("positions of a transaction that rolled back count as lag: %+v", l)
	}
}

func TestPagesAdaptToTheSizeOfEvents(t *testing.T) {
	m := &member{limit: 5000}
	huge := make([]eventstore.Recorded, 200)
	for i := range huge {
		huge[i].Data = make([]byte, 1<<20)
	}
	m.fit(huge, 5000)
	if m.limit != 2500 {
		t.Errorf("limit %d after a page of 200 MiB", m.limit)
	}
	for range 20 {
		m.fit(huge, 5000)
	}
	if m.limit != fewest {
		t.Errorf("limit %d, want %d", m.limit, fewest)
	}
	for range 20 {
		m.fit(nil, 5000)
	}
	if m.limit != 5000 {
		t.Errorf("limit %d after small pages", m.limit)
	}
}

var _ Projection = (*recorder)(nil)

// recorder is a projection that keeps what it was given.
type recorder struct {
	name string
	err  error
	seen []eventstore.Recorded
}

func (r *recorder) Name() string { return r.name }

func (r *recorder) Apply(_ ctx, _ pgx.Tx, page []eventstore.Recorded) ([]Poison, error) {
	if r.err != nil {
		return nil, r.err
	}
	r.seen = append(r.seen, page...)
	return nil, nil
}

func TestOneFailingProjectionDoesNotHoldTheOthersUp(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	bad, good := &recorder{name: "bad", err: errors.New("broken")}, &recorder{name: "good"}
	f := w.follower(Config{Projections: []Projection{bad, good}})
	for range 4 {
		if _, _, err := f.Step(t.Context()); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Fatalf("step: %v", err)
		}
	}
	if len(good.seen) != 1 || good.seen[0].Type != "JobCreated" {
		t.Errorf("the other projection saw %v", good.seen)
	}
	bad.err = nil
	for range 3 {
		settle(t, f)
	}
	if len(bad.seen) != 1 {
		t.Errorf("mended projection saw %d events", len(bad.seen))
	}
}
