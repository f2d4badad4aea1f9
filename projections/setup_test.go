package projections

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()...) }

// world is a store on a database of its own, with the superuser's view beside.
type world struct {
	*eventstore.Store
	db    *pgtest.DB
	admin *pgxpool.Pool
	lane  *eventstore.Lane
	log   *syncBuffer
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{db: pgtest.New(t), lane: eventstore.NewLane("default", "noop"), log: &syncBuffer{}}
	w.admin = w.db.Pool(t, "")
	w.Store = w.open(t)
	return w
}

func (w *world) open(t testing.TB) *eventstore.Store {
	t.Helper()
	s, err := eventstore.Open(t.Context(), eventstore.Config{DSN: w.db.DSNFor("daybook_engine"), Actor: "engine-1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func (w *world) follower(c Config) *Follower {
	c.Logger = slog.New(slog.NewTextHandler(w.log, nil))
	return New(w.Store, c)
}

// settle steps the follower until it was at the end of the log.
func settle(t testing.TB, f *Follower) {
	t.Helper()
	for {
		_, next, err := f.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if next > 0 {
			return
		}
	}
}

// follow settles a new follower that then gives its lease back.
func (w *world) follow(t testing.TB) {
	t.Helper()
	f := w.follower(Config{})
	settle(t, f)
	f.release(t.Context())
}

// checked fails the test if the projection is not what the log says.
func (w *world) checked(t testing.TB) CheckReport {
	t.Helper()
	report, err := Check(t.Context(), w.Store, RunSummariesName, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range report.Drift {
		t.Errorf("%s %s: %s %+v", d.Table, d.Key, d.What, d.Differences)
	}
	return report
}

func spec(name string) domain.JobSpec {
	return domain.JobSpec{
		Name: name, TimeZone: "UTC", Queue: "default", Kind: "noop", Args: json.RawMessage(`{"n": 1}`),
		Retry: domain.DefaultRetry(), Overlap: domain.OverlapAllow, Misfire: domain.MisfireLatest,
		CatchupWindow: domain.DefaultCatchupWindow, MaxCatchup: domain.DefaultMaxCatchup, Priority: domain.DefaultPriority,
	}
}

func (w *world) apply(t testing.TB, specs ...domain.JobSpec) {
	t.Helper()
	for _, s := range specs {
		c := eventstore.JobCommand{Name: s.Name, Do: domain.ApplyJob{Spec: s}, Meta: eventstore.Meta{Actor: "test"}}
		if _, err := w.CommandJobs(t.Context(), []eventstore.JobCommand{c}); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) request(t testing.TB, job string, n int) []uuid.UUID {
	t.Helper()
	requests := make([]eventstore.RunRequest, n)
	for i := range requests {
		requests[i] = eventstore.RunRequest{Job: job}
	}
	made, err := w.Request(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]uuid.UUID, n)
	for i, m := range made {
		if m.Err != nil {
			t.Fatal(m.Err)
		}
		ids[i] = m.RunID
	}
	return ids
}

func (w *world) claim(t testing.TB, n int) []domain.Run {
	t.Helper()
	c, err := w.Claim(t.Context(), eventstore.ClaimRequest{Lane: w.lane, Limit: n, Lease: time.Minute}, noOutbox{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Runs
}

func (w *world) execute(t testing.TB, commands ...eventstore.Command) []eventstore.Answer {
	t.Helper()
	a, err := w.Execute(t.Context(), commands)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func start(r domain.Run) eventstore.Command {
	return eventstore.Command{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: r.ClaimID, Worker: "w-1", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}}
}

func succeed(r domain.Run) eventstore.Command {
	return eventstore.Command{RunID: r.ID, Do: domain.SucceedRun{ClaimID: r.ClaimID}}
}

func fail(r domain.Run, retryable bool, message string) eventstore.Command {
	return eventstore.Command{RunID: r.ID, Do: domain.FailRun{ClaimID: r.ClaimID, Retryable: retryable, RetryAfter: time.Microsecond,
		Error: domain.RunError{Type: "boom", Message: message}}}
}

func cancel(id uuid.UUID, reason string) eventstore.Command {
	return eventstore.Command{RunID: id, Do: domain.CancelRun{Reason: reason}}
}

func (w *world) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := w.admin.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	if err := w.admin.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// dump is the content of the projection's tables.
func (w *world) dump(t testing.TB) []string {
	t.Helper()
	rows, err := w.admin.Query(t.Context(), `
		SELECT r::text FROM run_summaries r UNION ALL SELECT s::text FROM job_stats s UNION ALL SELECT q::text FROM queue_stats q
		UNION ALL SELECT m::text FROM lane_minutes m UNION ALL SELECT m::text FROM job_minutes m
		UNION ALL SELECT d::text FROM lane_durations d UNION ALL SELECT d::text FROM job_durations d ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// noOutbox stands in for the table where nothing is dispatched.
type noOutbox struct{}

func (noOutbox) Enqueue(*pgx.Batch, time.Time, []eventstore.Message) (func(), error) {
	return func() {}, nil
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
