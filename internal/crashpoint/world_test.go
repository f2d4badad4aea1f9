package crashpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/projections"
	"github.com/daybookhq/daybook/worker"
	"github.com/daybookhq/daybook/worker/protocol"
)

// patience is far above what anything here takes on a busy machine.
const patience = 90 * time.Second

// world is a database and a broker with work in every stage, so that an engine
// passes all points: instants to come, requested runs, claims that nobody has
// started and claims whose worker is silent, packs left behind, and a stream
// that is not the one the claims were sent to.
type world struct {
	db    *pgtest.DB
	admin *pgxpool.Pool
	nats  *natstest.Server
	store *eventstore.Store

	requested []uuid.UUID
	instants  []time.Time // of the scheduled job

	engines    []*process
	stopWorker func() // before the last engine stops: a worker gives back only what somebody takes

	mu  sync.Mutex
	ran map[string]int // executions by run
}

const (
	onRequest = "on-request"
	scheduled = "scheduled"
)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{db: pgtest.New(t), nats: natstest.New(t), ran: map[string]int{}}
	w.admin = w.db.Pool(t, "")
	var err error
	if w.store, err = eventstore.Open(t.Context(), eventstore.Config{DSN: w.db.DSNFor("daybook_engine"), Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	w.request(t, w.apply(t))
	// Two claims of a predecessor are over at once, one of them started; two live.
	const gone = 2
	w.claim(t, gone, time.Millisecond, true)
	w.claim(t, 2, 12*time.Second, false)
	if _, err := w.admin.Exec(t.Context(), "INSERT INTO dispatch_streams (name, created_at, changed_at) VALUES ($1, '2020-01-01', now())", protocol.DispatchStream); err != nil {
		t.Fatal(err)
	}
	w.startWorker(t)
	return w
}

// apply makes a job on request, and one with a few instants from the near future.
func (w *world) apply(t *testing.T) (requests int) {
	t.Helper()
	now, err := w.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spec := domain.JobSpec{Name: onRequest, TimeZone: "UTC", Queue: "default", Kind: "noop", Overlap: domain.OverlapAllow, Misfire: domain.MisfireAll, MaxCatchup: 100, Priority: 5,
		Retry: domain.RetryPolicy{MaxAttempts: 5, Initial: domain.Duration(10 * time.Millisecond), Max: domain.Duration(time.Second), Multiplier: 2}}
	every := spec
	start := now.Add(2 * time.Second).Truncate(time.Second)
	end := start.Add(4 * time.Second)
	every.Name, every.Schedules, every.StartAt, every.EndAt = scheduled, []string{"@every 1s"}, &start, &end
	set, err := every.Instants()
	if err != nil {
		t.Fatal(err)
	}
	for f, ok := set.Next(now); ok; f, ok = set.Next(f.At) {
		w.instants = append(w.instants, f.At)
	}
	if _, err := w.store.CommandJobs(t.Context(), []eventstore.JobCommand{{Name: onRequest, Do: domain.ApplyJob{Spec: spec}}, {Name: scheduled, Do: domain.ApplyJob{Spec: every}}}); err != nil {
		t.Fatal(err)
	}
	return 12
}

func (w *world) request(t *testing.T, n int) {
	t.Helper()
	requests := make([]eventstore.RunRequest, n)
	for i := range requests {
		requests[i].Job = onRequest
	}
	got, err := w.store.Request(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		w.requested = append(w.requested, r.RunID)
	}
}

// claim claims as an engine would that is gone by now: its packs are in the
// outbox and no relay has them. Every other one is started too, if asked.
func (w *world) claim(t *testing.T, n int, lease time.Duration, start bool) {
	t.Helper()
	got, err := w.store.Claim(t.Context(), eventstore.ClaimRequest{Lane: eventstore.NewLane("default", "noop"), Limit: n, Lease: max(lease, 2*time.Second)}, outbox.NewWriter("gone"))
	if err != nil || len(got.Runs) != n {
		t.Fatalf("claimed %d runs, error %v", len(got.Runs), err)
	}
	if !start {
		return
	}
	for _, r := range got.Runs[:n/2] {
		answers, err := w.store.Execute(t.Context(), []eventstore.Command{{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: uuid.New(), Worker: "gone", ExecutionTerms: domain.ExecutionTerms{Lease: lease}}}})
		if err != nil || answers[0].Err != nil {
			t.Fatal(err, answers)
		}
	}
}

// more gives the engine more of everything: runs, some of them claimed and silent,
// and if asked another stream.
func (w *world) more(t *testing.T, stream bool) {
	t.Helper()
	w.request(t, 3)
	got, err := w.store.Claim(t.Context(), eventstore.ClaimRequest{Lane: eventstore.NewLane("default", "noop"), Limit: 2, Lease: 2 * time.Second}, outbox.NewWriter("gone"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got.Runs { // the engine may have been first
		start := eventstore.Command{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: uuid.New(), Worker: "gone", ExecutionTerms: domain.ExecutionTerms{Lease: time.Millisecond}}}
		if _, err := w.store.Execute(t.Context(), []eventstore.Command{start}); err != nil {
			t.Fatal(err)
		}
	}
	if !stream {
		return
	}
	if err := w.nats.JetStream(t).DeleteStream(t.Context(), protocol.DispatchStream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatal(err)
	}
}

func (w *world) startWorker(t *testing.T) {
	t.Helper()
	wk := worker.New(worker.Config{NATSURL: w.nats.URL(), Slots: 20, Name: "w", DrainTimeout: 5 * time.Second,
		NATSOptions: []nats.Option{nats.ReconnectWait(20 * time.Millisecond)}, Logger: slog.New(slog.DiscardHandler)})
	worker.Handle(wk, "noop", func(_ context.Context, r worker.Run[json.RawMessage]) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ran[r.ID]++
		return nil
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	var err error
	running.Go(func() { err = wk.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	w.stopWorker = func() {
		cancel()
		if running.Wait(); err != nil {
			t.Errorf("worker: %v", err)
		}
	}
}

// forgetProjectors ends the dead engine's leases on the checkpoints, which would
// only take time to run out.
func (w *world) forgetProjectors(t *testing.T) {
	t.Helper()
	if _, err := w.admin.Exec(t.Context(), "UPDATE checkpoints SET lease_until = '-infinity'"); err != nil {
		t.Fatal(err)
	}
}

// drain waits until no run is left to be brought to its end, and until the log's
// followers have seen that.
func (w *world) drain(t *testing.T) {
	t.Helper()
	const left = `SELECT (SELECT count(*) FROM jobs WHERE next_fire IS NOT NULL) + (SELECT count(*) FROM due_runs) + (SELECT count(*) FROM waiting_runs)
		+ (SELECT count(*) FROM claims) + (SELECT count(*) FROM outbox)`
	js := w.nats.JetStream(t)
	n, published, events := 0, uint64(0), 0
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if n = w.count(t, left); n > 0 {
			continue
		}
		s, err := js.Stream(t.Context(), protocol.EventsStream)
		if err != nil {
			continue
		}
		published, events = s.CachedInfo().State.Msgs, w.count(t, "SELECT count(*) FROM events")
		// The follower's end may be behind; the check compares what it has applied.
		if published >= uint64(events) && w.count(t, "SELECT count(*) FROM run_summaries WHERE state = 'succeeded'") == len(w.requested)+len(w.instants) {
			return
		}
	}
	t.Fatalf("after %s: %d rows of work left, %d of %d events published, %d runs summarised as succeeded, want %d", patience, n, published, events,
		w.count(t, "SELECT count(*) FROM run_summaries WHERE state = 'succeeded'"), len(w.requested)+len(w.instants))
}

func (w *world) count(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := w.admin.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// check folds the log, which fails on a path that is not legal, an event after a
// terminal one among them, and compares what is in it with what was asked for.
//
// It returns how many runs there were, and how many executions beyond the first of
// each.
func (w *world) check(t *testing.T) (n, again int) {
	t.Helper()
	page, _, err := w.store.Read(t.Context(), eventstore.Cursor{}, 50000)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[uuid.UUID]domain.Run{}
	terminal := map[uuid.UUID]int{}
	for _, rec := range page {
		e, err := rec.Event()
		if err != nil {
			t.Fatal(err)
		}
		re, ok := e.(domain.RunEvent)
		if !ok {
			continue
		}
		r := runs[rec.StreamID]
		r.ID = rec.StreamID
		if r, err = domain.EvolveRun(r, re, rec.At); err != nil {
			t.Error(err)
		}
		if r.State.Terminal() {
			terminal[r.ID]++
		}
		runs[r.ID] = r
	}
	var instants []time.Time
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, r := range runs {
		if r.State != domain.Succeeded || terminal[id] != 1 {
			t.Errorf("run %s of %s is %s with %d terminal events", id, r.Job, r.State, terminal[id])
		}
		if w.ran[id.String()] == 0 {
			t.Errorf("run %s of %s succeeded and was never executed", id, r.Job)
		}
		if r.Job == scheduled {
			instants = append(instants, r.ScheduledAt)
		}
	}
	for _, id := range w.requested {
		if runs[id].Version == 0 {
			t.Errorf("requested run %s is lost", id)
		}
	}
	slices.SortFunc(instants, time.Time.Compare)
	if !slices.EqualFunc(instants, w.instants, time.Time.Equal) || len(runs) != len(w.requested)+len(w.instants) {
		t.Errorf("%d runs, instants %v; want %d, one each of %v", len(runs), instants, len(w.requested)+len(w.instants), w.instants)
	}
	report, err := projections.Check(t.Context(), w.store, projections.RunSummariesName, 0)
	if err != nil || report.Drifted > 0 {
		t.Errorf("read model differs from the log: %+v, error %v", report, err)
	}
	for _, times := range w.ran {
		again += times - 1
	}
	return len(runs), again
}
