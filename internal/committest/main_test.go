package committest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/outbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()...) }

// world is a database, a store that reaches it through the cutter, and one that
// does not.
type world struct {
	t        *testing.T
	cutter   *cutter
	cut      *eventstore.Store
	straight *eventstore.Store
	admin    *pgxpool.Pool
	lane     *eventstore.Lane
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := pgtest.New(t)
	w := &world{t: t, admin: db.Pool(t, ""), cutter: newCutter(t, db.DSNFor("daybook_engine")), lane: eventstore.NewLane("default", "noop")}
	w.cut, w.straight = w.open(w.cutter.dsn), w.open(db.DSNFor("daybook_engine"))
	w.must(w.straight.CommandJobs(t.Context(), []eventstore.JobCommand{{Name: "report", Do: domain.ApplyJob{Spec: spec("report")}}}))
	return w
}

func (w *world) open(dsn string) *eventstore.Store {
	w.t.Helper()
	s, err := eventstore.Open(w.t.Context(), eventstore.Config{DSN: dsn, Actor: "test", OpsConns: 2, LoopConns: 2})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	return s
}

func spec(name string, schedules ...string) domain.JobSpec {
	return domain.JobSpec{
		Name: name, Schedules: schedules, TimeZone: "UTC", Queue: "default", Kind: "noop", Args: json.RawMessage(`{}`),
		Retry: domain.DefaultRetry(), Overlap: domain.OverlapAllow, Misfire: domain.MisfireAll,
		CatchupWindow: domain.DefaultCatchupWindow, MaxCatchup: domain.DefaultMaxCatchup, Priority: domain.DefaultPriority,
	}
}

func (w *world) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// request makes a run that is due.
func (w *world) request() uuid.UUID {
	w.t.Helper()
	made, err := w.straight.Request(w.t.Context(), []eventstore.RunRequest{{Job: "report"}})
	if err != nil || made[0].Err != nil {
		w.t.Fatal(err, made)
	}
	return made[0].RunID
}

// claimed makes a run that is in hand.
func (w *world) claimed(lease time.Duration) domain.Run {
	w.t.Helper()
	id := w.request()
	c, err := w.straight.Claim(w.t.Context(), eventstore.ClaimRequest{Lane: w.lane, Limit: 10, Lease: lease}, outbox.NewWriter("elsewhere"))
	if err != nil || len(c.Runs) != 1 || c.Runs[0].ID != id {
		w.t.Fatalf("claimed %v, %v, want run %s", c.Runs, err, id)
	}
	return c.Runs[0]
}

// started makes a run that is executed.
func (w *world) started() domain.Run {
	w.t.Helper()
	r := w.claimed(time.Minute)
	w.must(w.straight.Execute(w.t.Context(), []eventstore.Command{start(r)}))
	return r
}

var terms = domain.ExecutionTerms{Lease: time.Minute, Complete: time.Second}

func start(r domain.Run) eventstore.Command {
	token := domain.KeyID(r.ClaimID, "token", time.Time{})
	return eventstore.Command{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: token, Worker: "w-1", ExecutionTerms: terms}}
}

// lose calls f when the server's answer to the completion is cut off. What f did
// has happened, and f does not know.
func (w *world) lose(tag string, f func() error) {
	w.t.Helper()
	w.cutter.arm(tag)
	err := f()
	if cut := w.cutter.fired(); len(cut) != 1 {
		w.t.Fatalf("the connection was not cut: %v, error %v", cut, err)
	}
	if err == nil {
		w.t.Fatal("the answer was lost, and success was reported")
	}
	if tag == "COMMIT" && !errors.Is(err, eventstore.ErrUnknownOutcome) {
		w.t.Errorf("an unknown outcome is reported as %v", err)
	}
	if !eventstore.IsTransient(err) {
		w.t.Errorf("%v does not say that the call can be repeated", err)
	}
}

// history is the types of a stream's events.
func (w *world) history(category domain.Category, id uuid.UUID) string {
	w.t.Helper()
	recs, err := w.straight.ReadStream(w.t.Context(), category, id)
	if err != nil {
		w.t.Fatal(err)
	}
	var types []string
	for i, r := range recs {
		if r.Version != i+1 {
			w.t.Errorf("event %d has version %d", i+1, r.Version)
		}
		types = append(types, strings.TrimPrefix(strings.TrimPrefix(r.Type, "Run"), "Job"))
	}
	return strings.Join(types, " ")
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.admin.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// broker remembers what was published.
type broker struct{ ids []string }

func (b *broker) Publish(_ string, messages ...*message.Message) error {
	for _, m := range messages {
		b.ids = append(b.ids, m.UUID)
	}
	return nil
}

func (b *broker) Close() error { return nil }

func (b *broker) distinct() int {
	return len(slices.Compact(slices.Sorted(slices.Values(b.ids))))
}
