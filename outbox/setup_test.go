package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/worker/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()...) }

// deadline is how long a test waits for what must happen; reaching it is a failure.
const deadline = 30 * time.Second

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not happen within %s: %s", deadline, what)
		}
	}
}

// world is a database with a store on it, the superuser's view beside, and a job whose runs are claimed.
type world struct {
	*eventstore.Store
	admin *pgxpool.Pool
	log   *safeBuffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := pgtest.New(t)
	w := &world{admin: db.Pool(t, ""), log: &safeBuffer{}}
	var err error
	w.Store, err = eventstore.Open(t.Context(), eventstore.Config{DSN: db.DSNFor("daybook_engine"), Actor: "engine-1", Logger: w.logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	spec := domain.JobSpec{
		Name: "report", TimeZone: "UTC", Queue: "default", Kind: "noop", Args: json.RawMessage(`{}`),
		Retry: domain.DefaultRetry(), Overlap: domain.OverlapAllow, Misfire: domain.MisfireLatest,
		CatchupWindow: domain.DefaultCatchupWindow, MaxCatchup: domain.DefaultMaxCatchup, Priority: domain.DefaultPriority,
	}
	_, err = w.CommandJobs(t.Context(), []eventstore.JobCommand{{Name: spec.Name, Do: domain.ApplyJob{Spec: spec}, Meta: eventstore.Meta{Actor: "test"}}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w.log, nil)) }

// relay makes one replica's relay.
func (w *world) relay(t *testing.T, owner string, p message.Publisher, edit ...func(*Config)) *Relay {
	t.Helper()
	c := Config{DB: w.Pool(), Publisher: p, Owner: owner, Logger: w.logger()}
	for _, f := range edit {
		f(&c)
	}
	r, err := NewRelay(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// start runs the relay until the end of the test or until stop is called.
func start(t *testing.T, r *Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// claim makes n runs and claims them, dispatched through out with one hint a message.
func (w *world) claim(t *testing.T, out eventstore.Outbox, n int) []domain.Run {
	t.Helper()
	runs, err := w.tryClaim(t, out, n, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != n {
		t.Fatalf("claimed %d runs of %d", len(runs), n)
	}
	return runs
}

func (w *world) tryClaim(t *testing.T, out eventstore.Outbox, n, parcel int) ([]domain.Run, error) {
	t.Helper()
	requests := make([]eventstore.RunRequest, n)
	for i := range requests {
		requests[i] = eventstore.RunRequest{Job: "report"}
	}
	if _, err := w.Request(t.Context(), requests); err != nil {
		t.Fatal(err)
	}
	c, err := w.Claim(t.Context(), eventstore.ClaimRequest{
		Lane: eventstore.NewLane("default", "noop"), Limit: n, Lease: domain.DefaultDispatchLease, Parcel: func(int) int { return parcel }}, out)
	return c.Runs, err
}

// enqueue commits messages as a claim would, without one. Leases count from the database's now.
func (w *world) enqueue(t *testing.T, out eventstore.Outbox, leases ...time.Duration) []eventstore.Message {
	t.Helper()
	now, err := w.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	messages := make([]eventstore.Message, len(leases))
	for i, lease := range leases {
		messages[i] = eventstore.Message{Queue: "default", Kind: "noop", Hints: []eventstore.Hint{
			{RunID: uuid.New(), ClaimID: uuid.New(), LeaseUntil: now.Add(lease)}}}
	}
	b := &pgx.Batch{}
	committed, err := out.Enqueue(b, now, messages)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Pool().SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	committed()
	return messages
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.admin.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := w.admin.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (w *world) rows(t *testing.T) int { t.Helper(); return w.count(t, "SELECT count(*) FROM outbox") }

// abandon makes every pack one that its owner has lost.
func (w *world) abandon(t *testing.T) {
	t.Helper()
	w.exec(t, "UPDATE outbox SET until = now() - interval '1 second'")
}

// keepFresh gives the packs in memory all the time that a slow machine needs.
func (w *world) keepFresh(t *testing.T, r *Relay) {
	t.Helper()
	w.exec(t, "UPDATE outbox SET until = until + interval '1 hour'")
	r.desk.mu.Lock()
	defer r.desk.mu.Unlock()
	for _, p := range r.desk.fresh {
		p.until = p.until.Add(time.Hour)
	}
}

// step drives the relay once, polling if there is nothing in memory.
func step(t *testing.T, r *Relay) bool {
	t.Helper()
	r.desk.mu.Lock()
	r.desk.nextPoll = time.Time{}
	r.desk.mu.Unlock()
	did, _, err := r.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return did
}

// drain steps until there is nothing to do.
func drain(t *testing.T, r *Relay) {
	t.Helper()
	for step(t, r) {
	}
}

func claimIDs(runs []domain.Run) []string {
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.ClaimID.String()
	}
	slices.Sort(ids)
	return ids
}

// broker stands in for a publisher on a broker: it takes every message of a call that it does not refuse, as the real
// one does, keeps what it took, and knows ids it has seen.
type broker struct {
	refuse func(m *message.Message) error // nil: nothing is refused
	hold   chan struct{}                  // if not nil, a call waits for it

	mu    sync.Mutex
	calls int
	sent  []sent
}

type sent struct {
	id, subject, ttl, body string
	duplicate              bool
}

var errDown = errors.New("no connection")

// permanentError is a refusal for good.
type permanentError struct{ error }

// partial is a PartialError.
type partial map[int]error

func (p partial) Error() string           { return fmt.Sprintf("%d messages not published", len(p)) }
func (p partial) Failures() map[int]error { return p }
func (p partial) Permanent(i int) bool {
	_, ok := errors.AsType[permanentError](p[i])
	return ok
}

func (b *broker) Publish(topic string, messages ...*message.Message) error {
	if b.hold != nil {
		<-b.hold
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	failed := partial{}
	for i, m := range messages {
		id := m.Metadata[protocol.HeaderMsgID]
		known := slices.ContainsFunc(b.sent, func(s sent) bool { return s.id == id })
		switch {
		case b.refuse != nil && b.refuse(m) != nil:
			failed[i] = b.refuse(m)
		case known && m.Metadata[MetaGeneration] != "":
			failed[i] = permanentError{errors.New("duplicate")}
		default:
			subject := topic
			if s := m.Metadata[MetaSubject]; s != "" {
				subject = s
			}
			b.sent = append(b.sent, sent{id, subject, m.Metadata[protocol.HeaderTTL], string(m.Payload), known})
		}
	}
	if len(failed) > 0 {
		return failed
	}
	return nil
}

func (b *broker) Close() error { return nil }

func (b *broker) set(refuse func(m *message.Message) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = refuse
}

// ids are those of all messages taken, sorted; duplicates only if asked for.
func (b *broker) ids(duplicates bool) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for _, s := range b.sent {
		if duplicates || !s.duplicate {
			ids = append(ids, s.id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (b *broker) asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
