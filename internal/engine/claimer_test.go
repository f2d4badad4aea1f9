package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker/protocol"
)

// books is an engine whose claimer steps when a test says so, and a worker that
// says what the test makes it say.
type books struct {
	*cluster
	e     *Engine
	c     *claimer
	lanes []protocol.Lane
}

func newBooks(t *testing.T) *books {
	t.Helper()
	b := &books{cluster: newCluster(t), lanes: []protocol.Lane{{Queue: "default", Kind: "noop"}}}
	b.e = b.newEngine("engine-1", topology())
	b.c = b.e.claimer
	b.background("service", b.e.service.Run)
	b.apply(noop("report"))
	return b
}

func (b *books) worker(slots int) {
	b.t.Helper()
	if err := b.e.service.Presence(b.t.Context(), protocol.PresenceRequest{WorkerID: "w-1", Slots: slots, Lanes: b.lanes}); err != nil {
		b.t.Fatal(err)
	}
}

// step claims by the last count, or by a new one, and says how many claims there are.
func (b *books) step(count bool) int {
	b.t.Helper()
	b.c.asked = time.Now().Add(time.Hour)
	if count {
		b.c.asked = time.Now().Add(-maxCountEvery)
	}
	if _, _, err := b.c.Step(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return b.count("SELECT count(*) FROM claims")
}

// execute starts claimed runs.
func (b *books) execute(n int) (claims []protocol.CompleteItem) {
	b.t.Helper()
	rows, err := b.admin.Query(b.t.Context(), "SELECT run_id, claim_id FROM claims WHERE start_token IS NULL ORDER BY run_id LIMIT $1", n)
	if err != nil {
		b.t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Run, Claim uuid.UUID }])
	if err != nil || len(found) != n {
		b.t.Fatalf("%d claims to start, want %d, %v", len(found), n, err)
	}
	q := protocol.StartRequest{WorkerID: "w-1"}
	for _, f := range found {
		q.Items = append(q.Items, protocol.StartItem{RunID: f.Run, ClaimID: f.Claim, Token: uuid.New()})
		claims = append(claims, protocol.CompleteItem{RunID: f.Run, ClaimID: f.Claim})
	}
	got, err := b.e.service.Start(b.t.Context(), "w-1", q)
	if err != nil || got[0].Status != protocol.StatusStarted {
		b.t.Fatal(got, err)
	}
	return claims
}

func (b *books) complete(items []protocol.CompleteItem) {
	b.t.Helper()
	if got, err := b.e.service.Complete(b.t.Context(), "w-1", protocol.CompleteRequest{Items: items}); err != nil || got[0].Error != nil {
		b.t.Fatal(got, err)
	}
}

// Between two counts the claimer goes by what it claimed and by what workers
// reported, and it never holds more than there are slots.
func TestClaimsBetweenTwoCounts(t *testing.T) {
	b := newBooks(t)
	b.worker(4)
	b.request("report", 40)
	if n := b.step(true); n != 4 {
		t.Fatalf("%d claims for 4 slots", n)
	}
	if n := b.step(false); n != 4 {
		t.Errorf("%d claims for 4 slots, after a second step", n)
	}
	ended := b.execute(2)
	b.complete(ended)
	if n := b.step(false); n != 4 {
		t.Errorf("%d claims when two of 4 were closed: their slots are free", n)
	}
	b.complete(ended) // its answer was lost
	if n := b.step(false); n != 4 {
		t.Errorf("%d claims for 4 slots: a repeated outcome freed a slot twice", n)
	}
	b.worker(6)
	if n := b.step(false); n != 6 {
		t.Errorf("%d claims when the worker has said that it has 6 slots", n)
	}
	run := b.execute(1)[0]
	if a, err := b.store.Execute(t.Context(), []eventstore.Command{{RunID: run.RunID, Do: domain.SucceedRun{ClaimID: run.ClaimID}}}); err != nil || a[0].Err != nil {
		t.Fatal(a, err)
	}
	if n := b.step(true); n != 6 {
		t.Errorf("%d claims when another engine has closed one of 6: the next count finds it", n)
	}
}

// A slot that becomes free wakes the claimer if runs wait for it, and else not.
func TestFreeSlotWakesWhoWaitsForIt(t *testing.T) {
	b := newBooks(t)
	woken := func() bool {
		select {
		case <-b.e.wakeClaims:
			return true
		default:
			return false
		}
	}
	b.worker(4)
	b.request("report", 2)
	b.step(true)
	woken() // by the worker and the runs
	b.complete(b.execute(1))
	if woken() {
		t.Error("woken for a slot that no run waits for")
	}
	b.request("report", 10)
	b.step(true)
	b.step(true) // the first filled the slots, and did not see yet that they were too few
	woken()
	b.complete(b.execute(1))
	if !woken() {
		t.Error("not woken for a slot that runs wait for")
	}
}

type failingOutbox struct{}

func (failingOutbox) Enqueue(*pgx.Batch, time.Time, []eventstore.Message) (func(), error) {
	return nil, errors.New("no room")
}

// Whether a claim that failed happened is not known: the books are made anew.
func TestFailedClaimIsCountedAgain(t *testing.T) {
	b := newBooks(t)
	b.worker(4)
	b.request("report", 4)
	outbox := b.c.outbox
	b.c.outbox = failingOutbox{}
	if _, _, err := b.c.Step(t.Context()); err == nil {
		t.Fatal("a claim without dispatches is no error")
	}
	if b.c.book != nil {
		t.Error("the books still count")
	}
	b.c.outbox = outbox
	if n := b.step(true); n != 4 {
		t.Errorf("%d claims, want 4", n)
	}
}

// stoppingOutbox takes dispatches, and has the claimer told to stop meanwhile.
type stoppingOutbox struct {
	eventstore.Outbox
	stop func()
}

func (o stoppingOutbox) Enqueue(b *pgx.Batch, now time.Time, messages []eventstore.Message) (func(), error) {
	o.stop()
	return o.Outbox.Enqueue(b, now, messages)
}

// A lane whose turn did not come any more is nothing to complain about.
func TestClaimerStopsBetweenTwoLanes(t *testing.T) {
	b := newBooks(t)
	b.lanes = append(b.lanes, protocol.Lane{Queue: "other", Kind: "noop"})
	b.worker(4)
	other := noop("other")
	other.Queue = "other"
	b.apply(other)
	b.request("report", 1)
	b.request("other", 1)
	ctx, stop := context.WithCancel(t.Context())
	var said bytes.Buffer
	b.c.outbox, b.c.log = stoppingOutbox{b.c.outbox, stop}, slog.New(slog.NewTextHandler(&said, nil))
	if _, _, err := b.c.Step(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was stopped", err)
	}
	if n := b.count("SELECT count(*) FROM claims"); n != 1 {
		t.Errorf("%d claims, want that of the first lane", n)
	}
	if said.Len() > 0 {
		t.Errorf("complained: %s", &said)
	}
}

// What ended quickly lets the rest of the backlog travel together.
func TestBacklogOfShortRunsTravelsTogether(t *testing.T) {
	b := newBooks(t)
	const slots = 4 * 10
	b.worker(slots)
	b.request("report", 2*slots)
	messages := func() int { return b.count("SELECT coalesce(sum(messages), 0) FROM outbox") }
	if b.step(true); messages() != slots {
		t.Errorf("%d messages for %d runs of a lane of which nothing is known", messages(), slots)
	}
	ended := b.execute(slots)
	for i := range ended {
		ended[i].Ran = protocol.Duration(time.Millisecond)
	}
	// They waited long for their turns, in a full worker and for a transaction.
	if _, err := b.admin.Exec(t.Context(), "UPDATE claims SET started_at = started_at - interval '1 minute'"); err != nil {
		t.Fatal(err)
	}
	b.complete(ended)

	if b.step(true); messages() != slots+parcelsEach {
		t.Errorf("%d messages for the next %d runs, want %d", messages()-slots, slots, parcelsEach)
	}
}
