package eventstore

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
	"github.com/daybookhq/daybook/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()...) }

// world is a store on a database of its own, with the superuser's view beside.
type world struct {
	*Store
	dsn   string
	admin *pgxpool.Pool
	log   *bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return openWorld(t, pgtest.New(t))
}

func openWorld(t *testing.T, db *pgtest.DB) *world {
	t.Helper()
	w := &world{dsn: db.DSNFor("daybook_engine"), admin: db.Pool(t, ""), log: &bytes.Buffer{}}
	w.Store = w.open(t, "engine-1")
	return w
}

// open opens one replica more.
func (w *world) open(t *testing.T, actor string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{DSN: w.dsn, Actor: actor, Logger: slog.New(slog.NewTextHandler(w.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func spec(name string) domain.JobSpec {
	return domain.JobSpec{
		Name: name, TimeZone: "UTC", Queue: "default", Kind: "noop", Args: json.RawMessage(`{"n": 1}`),
		Retry: domain.DefaultRetry(), Overlap: domain.OverlapAllow, Misfire: domain.MisfireLatest,
		CatchupWindow: domain.DefaultCatchupWindow, MaxCatchup: domain.DefaultMaxCatchup, Priority: domain.DefaultPriority,
	}
}

func (w *world) apply(t *testing.T, specs ...domain.JobSpec) {
	t.Helper()
	commands := make([]JobCommand, len(specs))
	for i, s := range specs {
		commands[i] = JobCommand{Name: s.Name, Do: domain.ApplyJob{Spec: s}, Meta: Meta{Actor: "test"}}
	}
	if _, err := w.CommandJobs(t.Context(), commands); err != nil {
		t.Fatal(err)
	}
}

// request makes n runs of the job, due now.
func (w *world) request(t *testing.T, job string, n int) []uuid.UUID {
	t.Helper()
	requests := make([]RunRequest, n)
	for i := range requests {
		requests[i] = RunRequest{Job: job}
	}
	made, err := w.Request(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]uuid.UUID, n)
	for i, m := range made {
		if m.Err != nil || !m.Created {
			t.Fatalf("request %d: created %v, error %v", i, m.Created, m.Err)
		}
		ids[i] = m.RunID
	}
	return ids
}

// claim claims up to n runs of the lane and returns them.
func (w *world) claim(t *testing.T, n int) []domain.Run {
	t.Helper()
	c, err := w.Claim(t.Context(), ClaimRequest{Lane: NewLane("default", "noop"), Limit: n, Lease: time.Minute}, &memoryOutbox{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Runs
}

func (w *world) execute(t *testing.T, commands ...Command) []Answer {
	t.Helper()
	a, err := w.Execute(t.Context(), commands)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func start(r domain.Run) Command {
	return Command{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: domain.KeyID(r.ClaimID, "token", time.Time{}), Worker: "w-1", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}}
}

func succeed(r domain.Run) Command {
	return Command{RunID: r.ID, Do: domain.SucceedRun{ClaimID: r.ClaimID}}
}

// history is the run's event types, in order, folded on the way.
func (w *world) history(t *testing.T, run uuid.UUID) []string {
	t.Helper()
	recs, err := w.ReadStream(t.Context(), domain.CategoryRun, run)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	r := domain.Run{ID: run}
	for i, rec := range recs {
		e, err := rec.Event()
		if err != nil {
			t.Fatal(err)
		}
		if r, err = domain.EvolveRun(r, e.(domain.RunEvent), rec.At); err != nil {
			t.Fatal(err)
		}
		if rec.Version != i+1 {
			t.Fatalf("run %s: event %d has version %d", run, i+1, rec.Version)
		}
		types = append(types, rec.Type)
	}
	return types
}

func (w *world) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := w.admin.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.admin.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// memoryOutbox keeps what was committed. It stands in for the table where a test
// is not about dispatch.
type memoryOutbox struct {
	mu   sync.Mutex
	sent []Message
}

func (o *memoryOutbox) Enqueue(_ *pgx.Batch, _ time.Time, m []Message) (func(), error) {
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.sent = append(o.sent, m...)
	}, nil
}
