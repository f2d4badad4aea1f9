package outbox

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker/protocol"
)

func TestClaimWritesOneRow(t *testing.T) {
	w := newWorld(t)
	runs, err := w.tryClaim(t, NewWriter("engine-1"), 7, 3)
	if err != nil {
		t.Fatal(err)
	}
	var raw []byte
	var owner string
	var messages int
	var lead time.Duration
	if err := w.admin.QueryRow(t.Context(), "SELECT owner, messages, pack, until - created_at FROM outbox").Scan(&owner, &messages, &raw, &lead); err != nil {
		t.Fatal(err)
	}
	if owner != "engine-1" || messages != 3 || lead != freshFor || w.rows(t) != 1 {
		t.Errorf("owner %s, %d messages, owned for %s, %d rows", owner, messages, lead, w.rows(t))
	}
	pack, err := decodePack(raw)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for _, m := range pack {
		if m.Queue != "default" || m.Kind != "noop" || m.Generation != 0 {
			t.Errorf("message %+v", m)
		}
		for _, h := range m.Hints {
			want := eventstore.Hint{RunID: runs[i].ID, ClaimID: runs[i].ClaimID, LeaseUntil: runs[i].LeaseUntil}
			if h.RunID != want.RunID || h.ClaimID != want.ClaimID || !h.LeaseUntil.Equal(want.LeaseUntil) {
				t.Errorf("hint %d is %v, want %v", i, h, want)
			}
			i++
		}
	}
	if i != len(runs) {
		t.Errorf("%d hints for %d runs", i, len(runs))
	}
}

func TestPublishedMessageIsWhatWorkersRead(t *testing.T) {
	w := newWorld(t)
	b := &broker{}
	r := w.relay(t, "engine-1", b)
	runs, err := w.tryClaim(t, r.Writer(), 5, 5)
	if err != nil {
		t.Fatal(err)
	}
	drain(t, r)
	if len(b.sent) != 1 {
		t.Fatalf("published %+v", b.sent)
	}
	got := b.sent[0]
	if got.subject != protocol.DispatchSubject("default", "noop") || got.id != runs[0].ClaimID.String() {
		t.Errorf("published %+v", got)
	}
	if ttl, err := time.ParseDuration(got.ttl + "s"); err != nil || ttl >= domain.DefaultDispatchLease || ttl < domain.DefaultDispatchLease-deadline {
		t.Errorf("time to live %q of a lease of %s, in part used up", got.ttl, domain.DefaultDispatchLease)
	}
	hints, err := protocol.DecodeHints([]byte(got.body))
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range hints {
		if h.RunID != runs[i].ID || h.ClaimID != runs[i].ClaimID || !h.LeaseUntil.Equal(runs[i].LeaseUntil) {
			t.Errorf("hint %d is %+v of run %+v", i, h, runs[i])
		}
	}
}

// failing breaks the transaction after the outbox has written into it.
type failing struct{ eventstore.Outbox }

func (f failing) Enqueue(b *pgx.Batch, now time.Time, m []eventstore.Message) (func(), error) {
	committed, err := f.Outbox.Enqueue(b, now, m)
	b.Queue("SELECT pg_terminate_backend(pg_backend_pid())")
	return committed, err
}

func TestNothingUncommittedIsPublished(t *testing.T) {
	w := newWorld(t)
	b := &broker{}
	r := w.relay(t, "engine-1", b)
	if _, err := w.tryClaim(t, failing{r.Writer()}, 3, 1); err == nil {
		t.Fatal("the claim was to be rolled back")
	}
	drain(t, r)
	if len(b.sent) != 0 || w.rows(t) != 0 || r.Stats().Held != 0 {
		t.Errorf("a claim that was rolled back published %v, left %d rows and %d packs in memory", b.sent, w.rows(t), r.Stats().Held)
	}
	c, err := w.Claim(t.Context(), eventstore.ClaimRequest{Lane: eventstore.NewLane("default", "noop"), Limit: 10, Lease: time.Minute}, r.Writer())
	if err != nil {
		t.Fatal(err)
	}
	drain(t, r)
	if got := b.ids(true); !slices.Equal(got, claimIDs(c.Runs)) || len(got) != 3 {
		t.Errorf("published %v, want the claims that were committed: %v", got, claimIDs(c.Runs))
	}
}

func TestDeletionRidesAlong(t *testing.T) {
	w := newWorld(t)
	r := w.relay(t, "engine-1", &broker{})
	r.desk.ride, r.desk.loan = time.Hour, time.Millisecond
	w.claim(t, r.Writer(), 2)
	drain(t, r)
	if w.rows(t) != 1 {
		t.Fatalf("%d rows, want the published pack to wait for the next claim", w.rows(t))
	}
	// A claim that fails gives the deletion back.
	if _, err := w.tryClaim(t, failing{r.Writer()}, 1, 1); err == nil {
		t.Fatal("the claim was to be rolled back")
	}
	if w.rows(t) != 1 {
		t.Fatalf("%d rows after a claim that was rolled back, want 1", w.rows(t))
	}
	eventually(t, "the failed claim's deletion is carried out", func() bool { drain(t, r); return w.rows(t) == 0 })

	r.desk.loan = time.Hour
	w.claim(t, r.Writer(), 1)
	drain(t, r)
	w.claim(t, r.Writer(), 1)
	if n := w.rows(t); n != 1 {
		t.Errorf("%d rows, want only the second claim's", n)
	}
	if n := len(r.desk.finished); n != 0 {
		t.Errorf("%d deletions that were committed are still to do", n)
	}
}

func TestDeletionDoesNotWaitForAClaimForEver(t *testing.T) {
	w := newWorld(t)
	r := w.relay(t, "engine-1", &broker{})
	start(t, r)
	w.claim(t, r.Writer(), 3)
	eventually(t, "the published pack is deleted", func() bool { return r.Stats().Published == 3 && w.rows(t) == 0 })
}

// Two claims must not wait for one another's deletions.
func TestDeletionGoesToOneClaim(t *testing.T) {
	w := newWorld(t)
	r := w.relay(t, "engine-1", &broker{})
	r.desk.ride, r.desk.loan = time.Hour, time.Hour
	w.enqueue(t, r.Writer(), time.Minute)
	drain(t, r)
	message := []eventstore.Message{{Queue: "q", Kind: "k", Hints: make([]eventstore.Hint, 1)}}
	first, second := &pgx.Batch{}, &pgx.Batch{}
	for _, b := range []*pgx.Batch{first, second} {
		if _, err := r.Writer().Enqueue(b, time.Now(), message); err != nil {
			t.Fatal(err)
		}
	}
	if first.Len() != 2 || second.Len() != 1 {
		t.Errorf("%d and %d statements, want the deletion in the first alone", first.Len(), second.Len())
	}
}

func TestEnqueueNothing(t *testing.T) {
	b := &pgx.Batch{}
	committed, err := NewWriter("engine-1").Enqueue(b, time.Now(), nil)
	if err != nil || b.Len() != 0 {
		t.Fatalf("%d statements, error %v", b.Len(), err)
	}
	committed()
}

func BenchmarkEnqueue(b *testing.B) {
	for _, parcel := range []int{1, 10} {
		b.Run(strconv.Itoa(parcel)+" hints", func(b *testing.B) {
			messages := make([]eventstore.Message, 500/parcel)
			for i := range messages {
				messages[i] = eventstore.Message{Queue: "default", Kind: "noop", Hints: make([]eventstore.Hint, parcel)}
				for j := range messages[i].Hints {
					messages[i].Hints[j] = eventstore.Hint{RunID: uuid.New(), ClaimID: uuid.New(), LeaseUntil: time.Now()}
				}
			}
			w := NewWriter("engine-1")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Enqueue(&pgx.Batch{}, time.Now(), messages); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/run")
		})
	}
}
