package projections

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// history writes random but legal histories through the real store.
type history struct {
	*world
	random *rand.Rand
	jobs   []string
	all    []uuid.UUID
	hand   []domain.Run // claimed and perhaps started
}

func (h *history) step(t *testing.T) {
	pick := func(n int) int { return h.random.IntN(n) }
	job := h.jobs[pick(len(h.jobs))]
	switch pick(10) {
	case 0, 1:
		requests := make([]eventstore.RunRequest, 1+pick(8))
		for i := range requests {
			requests[i] = eventstore.RunRequest{Job: job, Reason: "random"}
			if pick(10) == 0 {
				requests[i].At = time.Now().Add(time.Duration(pick(48)) * time.Hour)
			}
			if len(h.all) > 0 && pick(5) == 0 {
				requests[i].RetryOf = new(h.all[pick(len(h.all))])
			}
		}
		made, err := h.Request(t.Context(), requests)
		if err != nil {
			t.Error(err)
			return
		}
		for _, m := range made {
			h.all = append(h.all, m.RunID)
		}
	case 2, 3, 4:
		c, err := h.Claim(t.Context(), eventstore.ClaimRequest{Lane: eventstore.NewLane("default", "noop"), Limit: 1 + pick(10), Lease: time.Minute}, noOutbox{})
		if err != nil {
			t.Error(err)
		}
		h.hand = append(h.hand, c.Runs...)
	case 5, 6, 7:
		h.commands(t, pick)
	case 8:
		if len(h.hand) > 0 {
			id := h.hand[pick(len(h.hand))].ID
			if _, err := h.admin.Exec(t.Context(), "UPDATE claims SET lease_until = now() - interval '1 s' WHERE run_id = $1", id); err != nil {
				t.Error(err)
			}
		}
		if _, err := h.ExpireClaims(t.Context(), 10); err != nil {
			t.Error(err)
		}
	case 9:
		if len(h.all) > 0 {
			h.ask(t, cancel(h.all[pick(len(h.all))], "random"))
		}
		if _, err := h.Materialize(t.Context(), 10, eventstore.LongestDueFirst, nil); err != nil {
			t.Error(err)
		}
	}
}

// commands asks something of some runs in hand, sensible or not.
func (h *history) commands(t *testing.T, pick func(int) int) {
	var asked []eventstore.Command
	for range min(len(h.hand), 1+pick(6)) {
		r := h.hand[pick(len(h.hand))]
		asked = append(asked, start(r))
		switch pick(8) {
		case 0, 1, 2:
			asked = append(asked, succeed(r))
		case 3, 4:
			asked = append(asked, fail(r, pick(2) == 0, strings.Repeat("x", pick(3000))))
		case 5:
			asked = append(asked, eventstore.Command{RunID: r.ID, Do: domain.SnoozeRun{ClaimID: r.ClaimID, Delay: time.Microsecond}})
		case 6:
			asked = append(asked, eventstore.Command{RunID: r.ID, Do: domain.ReleaseRun{ClaimID: r.ClaimID, Reason: "drain"}})
		case 7:
			asked = append(asked, cancel(r.ID, "in flight"))
		}
		if pick(4) == 0 { // not started at all
			asked = slices.Delete(asked, len(asked)-2, len(asked)-1)
		}
	}
	h.ask(t, asked...)
}

func (h *history) ask(t *testing.T, asked ...eventstore.Command) {
	if _, err := h.Execute(t.Context(), asked); err != nil {
		t.Error(err)
	}
}

// Whatever the pages, restarts, rivals and rebuilds, the tables are what one fold
// of the log makes.
func TestTablesAreTheFoldOfTheLog(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t)
			scheduled := spec("often")
			scheduled.Schedules, scheduled.Misfire = []string{"@every 1s"}, domain.MisfireAll
			w.apply(t, scheduled, spec("a"), spec("b"))

			writing, written := context.WithCancel(t.Context())
			var writers, followers sync.WaitGroup
			for i := range uint64(3) {
				h := &history{world: w, random: rand.New(rand.NewPCG(seed, i)), jobs: []string{"a", "b", "often"}}
				writers.Go(func() {
					for range 150 {
						h.step(t)
					}
				})
			}
			for i := range uint64(2) {
				random := rand.New(rand.NewPCG(seed, 100+i))
				followers.Go(func() { w.followBadly(t, writing, random) })
			}
			followers.Go(func() {
				for writing.Err() == nil {
					if err := Rebuild(t.Context(), w.Store, RunSummariesName, nil, nil); err != nil {
						t.Error(err)
						return
					}
				}
			})
			writers.Wait()
			written()
			followers.Wait()

			w.exec(t, "UPDATE checkpoints SET lease_until = '-infinity'")
			w.follow(t)
			report := w.checked(t)
			if report.Streams < 50 || report.Parked > 0 {
				t.Errorf("a dull history: %+v", report)
			}
			w.agreesWithDomain(t)
			followed := w.dump(t)
			if err := Rebuild(t.Context(), w.Store, RunSummariesName, nil, nil); err != nil {
				t.Fatal(err)
			}
			if once := w.dump(t); !slices.Equal(followed, once) {
				t.Errorf("followed\n%s\nfolded at once\n%s", strings.Join(followed, "\n"), strings.Join(once, "\n"))
			}
			t.Logf("%d runs: %d of all events", report.Streams, w.count(t, "SELECT count(*) FROM events"))
		})
	}
}

// followBadly is a run of short-lived followers that come with any page size,
// steal leases, read stream by stream at a whim and vanish in the middle.
func (w *world) followBadly(t *testing.T, writing context.Context, random *rand.Rand) {
	for writing.Err() == nil {
		f := w.follower(Config{Limit: 1 + random.IntN(60)})
		if random.IntN(3) == 0 {
			f.farBehind = func(int64, int64, int) bool { return random.IntN(5) == 0 }
		}
		for range random.IntN(40) {
			if _, _, err := f.Step(t.Context()); err != nil {
				t.Error(err)
				return
			}
		}
		switch random.IntN(3) {
		case 0:
			f.release(t.Context())
		case 1: // crashed, and its lease lapsed
			if _, err := w.admin.Exec(t.Context(), "UPDATE checkpoints SET lease_until = now() WHERE name = $1", RunSummariesName); err != nil {
				t.Error(err)
			}
		}
	}
}

// agreesWithDomain compares the rows with the domain's own fold, which knows
// nothing of rows.
func (w *world) agreesWithDomain(t *testing.T) {
	t.Helper()
	rows, err := w.admin.Query(t.Context(), "SELECT "+summaryColumns+" FROM run_summaries")
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, scanSummary)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		recs, err := w.ReadStream(t.Context(), domain.CategoryRun, s.RunID)
		if err != nil {
			t.Fatal(err)
		}
		var events []domain.Dated[domain.RunEvent]
		for _, rec := range recs {
			e, err := runEvent(rec)
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, domain.Dated[domain.RunEvent]{Event: e, At: rec.At})
		}
		r, err := domain.FoldRun(s.RunID, events)
		if err != nil {
			t.Fatal(err)
		}
		if s.State != r.State || s.Version != r.Version || s.Attempt != r.Attempt || s.Dispatches != r.Dispatches || s.Claims != r.Claims ||
			s.CancelRequested != r.CancelRequested || (s.ClaimID != nil) != r.InHand() || r.InHand() && *s.ClaimID != r.ClaimID ||
			!s.ChangedAt.Equal(stored(r.ChangedAt)) || r.State == domain.Pending && !s.ReadyAt.Equal(stored(r.ReadyAt)) ||
			r.State == domain.Running && (s.Worker != r.Worker || !s.StartedAt.Equal(stored(r.StartedAt))) {
			t.Errorf("row %+v, domain %+v", s, r)
		}
	}
}
