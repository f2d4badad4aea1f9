package eventstore

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

const dispatchStream = "DISPATCH"

func (w *world) rearm(t *testing.T, created time.Time, out Outbox) int {
	t.Helper()
	n, err := w.Rearm(t.Context(), dispatchStream, created, out)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (w *world) generation(t *testing.T) int {
	t.Helper()
	return w.count(t, "SELECT generation FROM dispatch_streams WHERE name = $1", dispatchStream)
}

func TestRearmDispatchesUnstartedClaimsAgain(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 6)
	runs := w.claim(t, 6)
	w.execute(t, start(runs[0]), start(runs[1]), succeed(runs[1]))
	w.exec(t, "UPDATE claims SET lease_until = now() + interval '900 milliseconds' WHERE run_id = $1", runs[2].ID)

	out := &memoryOutbox{}
	created := time.Now().Add(-time.Hour).Truncate(time.Microsecond).Add(123 * time.Nanosecond) // the broker's clock is finer
	if n := w.rearm(t, created, out); n != 0 || w.generation(t) != 0 {
		t.Errorf("first sight re-armed %d claims, generation %d", n, w.generation(t))
	}
	if n := w.rearm(t, created, out); n != 0 || w.generation(t) != 0 || len(out.sent) != 0 {
		t.Errorf("the same stream re-armed %d claims, generation %d", n, w.generation(t))
	}
	if n := w.rearm(t, created.Add(time.Minute), out); n != 3 || w.generation(t) != 1 {
		t.Errorf("a new stream re-armed %d claims, want the 3 that nobody started and whose lease lives; generation %d", n, w.generation(t))
	}
	want := slices.SortedFunc(slices.Values(runs[3:]), func(a, b domain.Run) int { return slices.Compare(a.ID[:], b.ID[:]) })
	if len(out.sent) != len(want) {
		t.Fatalf("sent %+v", out.sent)
	}
	for i, m := range out.sent {
		h := Hint{RunID: want[i].ID, ClaimID: want[i].ClaimID, LeaseUntil: want[i].LeaseUntil}
		if m.Queue != "default" || m.Kind != "noop" || m.Generation != 1 || len(m.Hints) != 1 || m.Hints[0] != h {
			t.Errorf("message %+v, want one of generation 1 for %+v", m, h)
		}
	}
	// A stream restored from a copy is older, and no less another one.
	if n := w.rearm(t, created, out); n != 3 || w.generation(t) != 2 || out.sent[3].Generation != 2 {
		t.Errorf("an older stream re-armed %d claims, generation %d", n, w.generation(t))
	}
}

func TestReplicasRearmOnce(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 20)
	w.claim(t, 20)
	created := time.Now().Truncate(time.Microsecond)
	for round, want := range []int{0, 20, 20} { // the first round races for the first sight
		out := &memoryOutbox{}
		total := make(chan int, 4)
		var replicas sync.WaitGroup
		for i := range cap(total) {
			s := w.Store
			if i%2 == 1 {
				s = w.open(t, "engine-2")
			}
			replicas.Go(func() {
				n, err := s.Rearm(t.Context(), dispatchStream, created.Add(time.Duration(round)*time.Second), out)
				if err != nil {
					t.Error(err)
				}
				total <- n
			})
		}
		replicas.Wait()
		sum := 0
		for range cap(total) {
			sum += <-total
		}
		if sum != want || len(out.sent) != want || w.generation(t) != round {
			t.Errorf("round %d: replicas re-armed %d claims and handed over %d, want %d; generation %d", round, sum, len(out.sent), want, w.generation(t))
		}
	}
}

// heldOutbox stops in the middle of a transaction.
type heldOutbox struct {
	memoryOutbox
	reached, release chan struct{}
}

func (o *heldOutbox) Enqueue(b *pgx.Batch, now time.Time, m []Message) (func(), error) {
	close(o.reached)
	<-o.release
	return o.memoryOutbox.Enqueue(b, now, m)
}

// A replica that looks while another re-arms waits for it and then has nothing to do.
func TestRearmWaitsForTheOtherReplica(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 5)
	w.claim(t, 5)
	created := time.Now()
	w.rearm(t, created, &memoryOutbox{})
	created = created.Add(time.Second)

	first, second := &heldOutbox{reached: make(chan struct{}), release: make(chan struct{})}, &memoryOutbox{}
	var replicas sync.WaitGroup
	defer replicas.Wait()
	release := sync.OnceFunc(func() { close(first.release) })
	defer release()
	rearm := func(out Outbox, want int) {
		if n, err := w.Rearm(t.Context(), dispatchStream, created, out); n != want || err != nil {
			t.Errorf("re-armed %d claims, error %v; want %d", n, err, want)
		}
	}
	replicas.Go(func() { rearm(first, 5) })
	<-first.reached
	ended := make(chan struct{})
	replicas.Go(func() { defer close(ended); rearm(second, 0) })
	for waiting := 0; waiting == 0; time.Sleep(5 * time.Millisecond) {
		select {
		case <-ended:
			t.Fatalf("the second replica did not wait, and sent %d messages", len(second.sent))
		case <-t.Context().Done():
			t.Fatal("neither waiting nor done")
		default:
			waiting = w.count(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
		}
	}
	release()
	replicas.Wait()
	if len(first.sent) != 5 || len(second.sent) != 0 || w.generation(t) != 1 {
		t.Errorf("sent %d and %d messages, generation %d", len(first.sent), len(second.sent), w.generation(t))
	}
}

// rowOutbox writes a row for every message, and fails on demand.
type rowOutbox struct {
	calls, failAt int
	largest       int
}

func (o *rowOutbox) Enqueue(b *pgx.Batch, now time.Time, m []Message) (func(), error) {
	o.calls++
	o.largest = max(o.largest, len(m))
	if o.calls == o.failAt {
		return nil, errors.New("on purpose")
	}
	b.Queue("INSERT INTO outbox (id, owner, until, created_at, messages, pack) VALUES ($1, 'x', $2, $2, $3, '')", uuid.New(), now, len(m))
	return func() {}, nil
}

func TestRearmIsAllOrNothing(t *testing.T) {
	w := newWorld(t)
	const claims = rearmPage + 700
	w.exec(t, `INSERT INTO claims (run_id, claim_id, lease_until, job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at,
	                               version, attempt, dispatches, claims, changed_at)
		SELECT gen_random_uuid(), gen_random_uuid(), now() + interval '1 hour', gen_random_uuid(), 1, 'request', 'q', 'k', 5, now(), now(), 2, 0, 1, 1, now()
		  FROM generate_series(1, $1)`, claims)
	created := time.Now()
	w.rearm(t, created, &rowOutbox{})
	packs := (claims + rearmPack - 1) / rearmPack
	if _, err := w.Rearm(t.Context(), dispatchStream, created.Add(time.Second), &rowOutbox{failAt: packs}); err == nil {
		t.Fatal("the last pack was to fail")
	}
	if n := w.count(t, "SELECT count(*) FROM outbox"); n != 0 || w.generation(t) != 0 {
		t.Errorf("%d packs of a re-arm that failed, generation %d", n, w.generation(t))
	}
	out := &rowOutbox{}
	if n := w.rearm(t, created.Add(time.Second), out); n != claims || out.largest > rearmPack {
		t.Errorf("re-armed %d claims of %d in packs of up to %d", n, claims, out.largest)
	}
	if n := w.count(t, "SELECT sum(messages) FROM outbox"); n != claims || w.count(t, "SELECT count(*) FROM outbox") != packs {
		t.Errorf("%d messages in the outbox, want %d", n, claims)
	}
}

// A claim whose message may have gone down with its stream is released without
// being put off, however long its lease was; one made since is not excused.
func TestReaperExcusesClaimsFromBeforeTheStream(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	before := w.request(t, "report", 1)[0]
	w.claim(t, 1)
	created := time.Now().Add(-time.Hour)
	w.rearm(t, created, &memoryOutbox{})
	w.rearm(t, created.Add(time.Minute), &memoryOutbox{})
	since := w.request(t, "report", 1)[0]
	w.claim(t, 1)
	w.exec(t, "UPDATE dispatch_streams SET changed_at = changed_at - interval '1 hour'")
	w.exec(t, "UPDATE claims SET changed_at = changed_at - interval '1 hour', lease_until = now() - interval '1 s', dispatches = 5")
	closed, err := w.ExpireClaims(t.Context(), 10)
	if err != nil || len(closed) != 2 {
		t.Fatal(closed, err)
	}
	for _, e := range closed {
		released := e.Event.(domain.RunReleased)
		want := domain.ReasonNotStarted
		if e.Run.ID == before {
			want = domain.ReasonStreamLost
		}
		if put := released.ReadyAt.After(e.Run.ChangedAt); released.Reason != want || put != (e.Run.ID == since) {
			t.Errorf("%+v, want the reason %q", released, want)
		}
	}
}
