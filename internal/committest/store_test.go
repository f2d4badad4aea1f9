package committest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/projections"
)

// Commands on runs: the repeat gets the answer that was lost, from the stream.
func TestCommandsOnRuns(t *testing.T) {
	fail := func(retryable bool) func(domain.Run) eventstore.Command {
		return func(r domain.Run) eventstore.Command {
			return eventstore.Command{RunID: r.ID, Do: domain.FailRun{ClaimID: r.ClaimID, Retryable: retryable, Error: domain.RunError{Message: "no"}}}
		}
	}
	claimed := func(w *world) domain.Run { return w.claimed(time.Minute) }
	for name, c := range map[string]struct {
		run     func(*world) domain.Run
		command func(domain.Run) eventstore.Command
		history string
	}{
		"start": {claimed, start, "Scheduled Claimed Started"},
		"complete": {(*world).started, func(r domain.Run) eventstore.Command {
			return eventstore.Command{RunID: r.ID, Do: domain.SucceedRun{ClaimID: r.ClaimID}, Output: &eventstore.Output{Head: []byte("out"), TotalBytes: 3, Result: json.RawMessage(`{"n": 1}`)}}
		}, "Scheduled Claimed Started Succeeded"},
		"fail":          {(*world).started, fail(true), "Scheduled Claimed Started RetryScheduled"},
		"fail for good": {(*world).started, fail(false), "Scheduled Claimed Started Failed"},
		"snooze": {(*world).started, func(r domain.Run) eventstore.Command {
			return eventstore.Command{RunID: r.ID, Do: domain.SnoozeRun{ClaimID: r.ClaimID, Delay: time.Hour}}
		}, "Scheduled Claimed Started Snoozed"},
		"release": {claimed, func(r domain.Run) eventstore.Command {
			return eventstore.Command{RunID: r.ID, Do: domain.ReleaseRun{ClaimID: r.ClaimID, Reason: "leaving"}}
		}, "Scheduled Claimed Released"},
		"interrupt": {(*world).started, func(r domain.Run) eventstore.Command {
			return eventstore.Command{RunID: r.ID, Do: domain.ReleaseRun{ClaimID: r.ClaimID, Reason: "leaving"}}
		}, "Scheduled Claimed Started Interrupted"},
		"cancel before its time": {func(w *world) domain.Run { return domain.Run{ID: w.request()} }, func(r domain.Run) eventstore.Command {
			return eventstore.Command{RunID: r.ID, Do: domain.CancelRun{Reason: "no need"}}
		}, "Scheduled Cancelled"},
		"cancel what runs": {(*world).started, func(r domain.Run) eventstore.Command {
			return eventstore.Command{RunID: r.ID, Do: domain.CancelRun{Reason: "no need"}}
		}, "Scheduled Claimed Started CancelRequested"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := c.run(w)
			do := func() (eventstore.Answer, error) {
				got, err := w.cut.Execute(t.Context(), []eventstore.Command{c.command(r)})
				if err != nil {
					return eventstore.Answer{}, err
				}
				return got[0], got[0].Err
			}
			w.lose("COMMIT", func() error { _, err := do(); return err })
			a, err := do()
			if err != nil || !a.Repeat {
				t.Fatalf("the repeat is answered %+v, %v", a, err)
			}
			if got := w.history(domain.CategoryRun, r.ID); got != c.history {
				t.Errorf("history %s, want %s", got, c.history)
			}
			recs, err := w.straight.ReadStream(t.Context(), domain.CategoryRun, r.ID)
			if err != nil {
				t.Fatal(err)
			}
			recorded, err := recs[len(recs)-1].Event()
			if err != nil || fmt.Sprint(recorded) != fmt.Sprint(a.Event) {
				t.Errorf("answered with %+v, recorded is %+v (%v)", a.Event, recorded, err)
			}
			if n := w.count("SELECT count(*) FROM run_outputs"); name == "complete" && n != 1 || n > 1 {
				t.Errorf("%d outputs", n)
			}
			if live := w.count("SELECT (SELECT count(*) FROM claims) + (SELECT count(*) FROM due_runs)"); live > 1 || a.Run.State.Terminal() && live != 0 {
				t.Errorf("%d live rows of a run in state %s", live, a.Run.State)
			}
		})
	}
}

func TestHeartbeat(t *testing.T) {
	w := newWorld(t)
	r := w.started()
	beat := func() error {
		got, err := w.cut.Heartbeat(t.Context(), []eventstore.Beat{{RunID: r.ID, ClaimID: r.ClaimID}}, terms)
		if err == nil && (got[0].Code != "" || got[0].Remaining <= 0) {
			t.Errorf("the repeat is answered %+v", got[0])
		}
		return err
	}
	w.lose("", beat) // whatever the statement is called
	w.must(nil, beat())
}

// Claim: whoever asks again gets other runs; those of the lost answer are in the
// outbox and published from there.
func TestClaim(t *testing.T) {
	w := newWorld(t)
	const n = 5
	for range n {
		w.request()
	}
	claim := func() (eventstore.Claimed, error) {
		return w.cut.Claim(t.Context(), eventstore.ClaimRequest{Lane: w.lane, Limit: 100, Lease: time.Minute}, outbox.NewWriter("gone"))
	}
	w.lose("COMMIT", func() error { _, err := claim(); return err })
	if again, err := claim(); err != nil || len(again.Runs) != 0 {
		t.Fatalf("claimed %d runs a second time, %v", len(again.Runs), err)
	}
	if got := w.count("SELECT count(*) FROM claims"); got != n {
		t.Fatalf("%d claims, want %d", got, n)
	}
	if got := w.count("SELECT count(*) FROM events WHERE type = 'RunClaimed'"); got != n {
		t.Errorf("%d events, want %d", got, n)
	}
	b := &broker{}
	w.relay(b, w.straight, func() bool { return b.distinct() == n && w.count("SELECT count(*) FROM outbox") == 0 })
}

// relay steps a relay until it is done.
func (w *world) relay(b *broker, s *eventstore.Store, done func() bool) {
	w.t.Helper()
	r, err := outbox.NewRelay(outbox.Config{DB: s.Pool(), Publisher: b, Owner: "relay"})
	if err != nil {
		w.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(end) {
			w.t.Fatalf("published %d messages, %d packs are left", len(b.ids), w.count("SELECT count(*) FROM outbox"))
		}
		if did, next, _ := r.Step(w.t.Context()); !did { // it goes on after an error
			time.Sleep(min(next, 20*time.Millisecond))
		}
	}
}

// The deletion of what was published: nothing is published again because of it.
func TestOutboxDeletion(t *testing.T) {
	w := newWorld(t)
	w.claimed(time.Minute)
	b := &broker{}
	w.cutter.arm("DELETE 1")
	w.relay(b, w.cut, func() bool { return w.count("SELECT count(*) FROM outbox") == 0 })
	w.claimed(time.Minute) // the relay works on
	w.relay(b, w.cut, func() bool { return w.count("SELECT count(*) FROM outbox") == 0 })
	if cut := w.cutter.fired(); len(cut) != 1 {
		t.Fatalf("the connection was not cut: %v", cut)
	}
	if len(b.ids) != 2 {
		t.Errorf("%d messages were published for 2 claims: %v", len(b.ids), b.ids)
	}
}

func TestReaper(t *testing.T) {
	w := newWorld(t)
	r := w.claimed(time.Millisecond)
	for w.count("SELECT count(*) FROM claims WHERE lease_until < now()") == 0 {
		time.Sleep(time.Millisecond)
	}
	w.lose("COMMIT", func() error { _, err := w.cut.ExpireClaims(t.Context(), 10); return err })
	if again, err := w.cut.ExpireClaims(t.Context(), 10); err != nil || len(again) != 0 {
		t.Errorf("closed a second time: %v, %v", again, err)
	}
	if got := w.history(domain.CategoryRun, r.ID); got != "Scheduled Claimed Released" {
		t.Errorf("history %s", got)
	}
}

func TestRequest(t *testing.T) {
	w := newWorld(t)
	ask := func() (eventstore.Requested, error) {
		got, err := w.cut.Request(t.Context(), []eventstore.RunRequest{{Job: "report", Key: "k"}})
		if err != nil {
			return eventstore.Requested{}, err
		}
		return got[0], got[0].Err
	}
	w.lose("COMMIT", func() error { _, err := ask(); return err })
	got, err := ask()
	if err != nil || got.Created || w.history(domain.CategoryRun, got.RunID) != "Scheduled" || w.count("SELECT count(*) FROM due_runs") != 1 {
		t.Errorf("the repeat is answered %+v, %v; %d runs", got, err, w.count("SELECT count(*) FROM due_runs"))
	}
}

func TestJobs(t *testing.T) {
	for name, do := range map[string]domain.JobCommand{
		"apply":   domain.ApplyJob{Spec: func() domain.JobSpec { s := spec("report"); s.Priority = 2; return s }()},
		"create":  domain.ApplyJob{Spec: spec("other", "@every 1h")},
		"pause":   domain.PauseJob{Reason: "no need"},
		"archive": domain.ArchiveJob{Reason: "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			job := "report"
			if name == "create" {
				job = "other"
			}
			command := func() ([]eventstore.JobAnswer, error) {
				return w.cut.CommandJobs(t.Context(), []eventstore.JobCommand{{Name: job, Do: do}})
			}
			w.lose("COMMIT", func() error { _, err := command(); return err })
			before := w.history(domain.CategoryJob, domain.JobID(job))
			got, err := command()
			if err != nil || len(got[0].Events) != 0 {
				t.Errorf("the repeat is answered %+v, %v", got, err)
			}
			if after := w.history(domain.CategoryJob, domain.JobID(job)); after != before {
				t.Errorf("history %s, after the repeat %s", before, after)
			}
		})
	}
}

func TestMaterialize(t *testing.T) {
	w := newWorld(t)
	ago := time.Now().Add(-10 * time.Second).Truncate(time.Second)
	s := spec("tick", "@every 1s")
	s.StartAt = &ago
	w.must(w.straight.CommandJobs(t.Context(), []eventstore.JobCommand{{Name: "tick", Do: domain.ApplyJob{Spec: s}}}))
	w.exec("UPDATE jobs SET materialized_through = $2, next_fire = $2::timestamptz + interval '1 second' WHERE name = $1", "tick", ago)
	w.lose("COMMIT", func() error {
		_, err := w.cut.Materialize(t.Context(), 10, eventstore.LongestDueFirst, nil)
		return err
	})
	made := w.count("SELECT count(*) FROM run_slots")
	if made < 5 {
		t.Fatalf("%d instants were decided", made)
	}
	if _, err := w.cut.Materialize(t.Context(), 10, eventstore.LongestDueFirst, nil); err != nil {
		t.Fatal(err)
	}
	w.same("run_slots", "SELECT count(*) FROM run_slots", "SELECT count(DISTINCT scheduled_at) FROM run_slots")
	w.same("runs", "SELECT count(*) FROM run_slots", "SELECT count(*) FROM events WHERE type = 'RunScheduled'")
	w.same("due runs", "SELECT count(*) FROM run_slots", "SELECT count(*) FROM due_runs")
	w.same("gaps", "SELECT count(*) FROM run_slots", "SELECT 1 + extract(epoch FROM max(scheduled_at) - min(scheduled_at))::int FROM run_slots")
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	w.must(w.admin.Exec(w.t.Context(), sql, args...))
}

func (w *world) same(what, a, b string) {
	w.t.Helper()
	if a, b := w.count(a), w.count(b); a != b {
		w.t.Errorf("%s: %d and %d", what, a, b)
	}
}

func TestBackfill(t *testing.T) {
	w := newWorld(t)
	from := time.Now().Add(-time.Hour).Truncate(time.Hour)
	w.must(w.straight.CommandJobs(t.Context(), []eventstore.JobCommand{{Name: "tick", Do: domain.ApplyJob{Spec: spec("tick", "* * * * *")}}}))
	fill := func() (eventstore.Backfilled, error) {
		return w.cut.Backfill(t.Context(), eventstore.BackfillRequest{Job: "tick", From: from, To: from.Add(9 * time.Minute), Limit: 100})
	}
	w.lose("COMMIT", func() error { _, err := fill(); return err })
	if got, err := fill(); err != nil || got.Created != 0 || !got.Done {
		t.Errorf("the repeat is answered %+v, %v", got, err)
	}
	if n := w.count("SELECT count(*) FROM events WHERE type = 'RunScheduled'"); n != 10 {
		t.Errorf("%d runs of 10 instants", n)
	}
}

func TestRearm(t *testing.T) {
	w := newWorld(t)
	first := time.Now().Add(-time.Minute)
	w.must(w.straight.Rearm(t.Context(), "S", first, outbox.NewWriter("gone")))
	w.claimed(time.Minute)
	w.exec("DELETE FROM outbox")
	rearm := func() (int, error) {
		return w.cut.Rearm(t.Context(), "S", time.Now().Truncate(time.Hour), outbox.NewWriter("gone"))
	}
	w.lose("COMMIT", func() error { _, err := rearm(); return err })
	if n, err := rearm(); err != nil || n != 0 {
		t.Errorf("the repeat dispatched %d claims again, %v", n, err)
	}
	if packs, generation := w.count("SELECT count(*) FROM outbox"), w.count("SELECT generation FROM dispatch_streams"); packs != 1 || generation != 1 {
		t.Errorf("%d packs, generation %d", packs, generation)
	}
}

// Projections count: what was applied and not known to be is not counted again.
func TestProjection(t *testing.T) {
	w := newWorld(t)
	for range 5 {
		w.must(w.straight.Execute(t.Context(), []eventstore.Command{{RunID: w.started().ID, Do: domain.CancelRun{Reason: "no need"}}}))
	}
	f := projections.New(w.cut, projections.Config{Owner: "test"})
	w.must(w.straight.EnsurePartitions(t.Context(), time.Now(), time.Now()))
	w.cutter.arm("COMMIT")
	for end := time.Now().Add(time.Minute); w.count("SELECT count(*) FROM run_summaries") < 5 || len(w.cutter.cut) == 0; {
		if time.Now().After(end) {
			t.Fatalf("%d runs in the read model; cut %v", w.count("SELECT count(*) FROM run_summaries"), w.cutter.fired())
		}
		_, _, _ = f.Step(t.Context()) // it goes on after an error
	}
	for range 3 {
		_, _, _ = f.Step(t.Context())
	}
	report, err := projections.Check(t.Context(), w.straight, projections.RunSummariesName, 0)
	if err != nil || report.Drifted != 0 || report.Streams < 5 {
		t.Errorf("the read model drifted: %+v, %v", report, err)
	}
}
