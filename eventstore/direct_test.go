package eventstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// room is a Direct with so much of it in every lane.
func room(n int, out Outbox) *Direct {
	return &Direct{Outbox: out, Room: func(queue, kind string) (ClaimRequest, bool) {
		return ClaimRequest{Lane: NewLane(queue, kind), Limit: n, Lease: time.Minute}, n > 0
	}}
}

// fireDirectly makes the job's instants due and materializes them with so much room.
func (w *world) fireDirectly(t *testing.T, job string, instants, n int, out Outbox) (Materialized, *Direct) {
	t.Helper()
	w.due(t, job, instants)
	d := room(n, out)
	m, err := w.Materialize(t.Context(), 10, LongestDueFirst, d)
	if err != nil {
		t.Fatal(err)
	}
	return m, d
}

// A run that is made and claimed at once has the history of any other, in one
// transaction, and was never a due row.
func TestMadeAndClaimedInOneTransaction(t *testing.T) {
	w := newWorld(t)
	w.apply(t, everySecond("tick", domain.OverlapAllow), spec("report"))
	var out memoryOutbox
	m, d := w.fireDirectly(t, "tick", 1, 5, &out)
	asked := room(5, &out)
	got, err := w.RequestAndClaim(t.Context(), []RunRequest{{Job: "report", Key: "a"}, {Job: "report", Key: "a"}, {Job: "report", At: time.Now().Add(time.Hour)}}, asked)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Waiting) > 0 || got[0].Waits || got[1].Waits || !got[2].Waits {
		t.Errorf("waiting for a claim: %v, %v, want none but the run in an hour", m.Waiting, got)
	}
	claimed := slices.Concat(d.Claimed, asked.Claimed)
	if len(claimed) != 2 || len(out.sent) != 2 {
		t.Fatalf("%d lanes claimed and %d messages, want 2 and 2", len(claimed), len(out.sent))
	}
	for i, c := range claimed {
		run := c.Runs[0]
		if h := out.sent[i].Hints; len(c.Runs) != 1 || len(h) != 1 || h[0].RunID != run.ID || h[0].ClaimID != run.ClaimID {
			t.Fatalf("claimed %v, sent %v", c.Runs, h)
		}
		if types := w.history(t, run.ID); !slices.Equal(types, []string{"RunScheduled", "RunClaimed"}) {
			t.Errorf("history %v", types)
		}
		if n := w.count(t, "SELECT count(DISTINCT xid) FROM events WHERE stream_id = $1", run.ID); n != 1 {
			t.Errorf("%d transactions", n)
		}
		if a := w.execute(t, start(run))[0]; a.Err != nil {
			t.Errorf("start: %v", a.Err)
		}
		if a := w.execute(t, succeed(run))[0]; a.Err != nil {
			t.Errorf("outcome: %v", a.Err)
		}
	}
	if n := w.count(t, "SELECT count(*) FROM due_runs"); n != 1 {
		t.Errorf("%d due rows, want that of the run in an hour", n)
	}
}

// What is claimed directly overtakes nobody and stays within the room: those of
// the first level go first.
func TestDirectClaimsOvertakeNobody(t *testing.T) {
	w := newWorld(t)
	urgent := everySecond("urgent", domain.OverlapAllow)
	urgent.Priority = 0
	w.apply(t, everySecond("tick", domain.OverlapAllow), everySecond("tock", domain.OverlapAllow), everySecond("tack", domain.OverlapAllow), urgent, spec("report"))
	w.exec(t, "UPDATE jobs SET next_fire = NULL") // but of those that are made due below
	old := w.request(t, "report", 1)
	m, d := w.fireDirectly(t, "tick", 1, 5, &memoryOutbox{})
	if len(d.Claimed) > 0 || !slices.Equal(m.Waiting, []string{"default"}) {
		t.Errorf("claimed %v before the run that waits", d.Claimed)
	}
	if got := w.claim(t, 5); len(got) != 2 || got[0].ID != old[0] && got[1].ID != old[0] {
		t.Fatalf("claimed %v, want both", got)
	}

	w.exec(t, "UPDATE jobs SET next_fire = NULL")
	w.due(t, "urgent", 1)
	m, d = w.fireDirectly(t, "tock", 2, 2, &memoryOutbox{})
	if len(m.Runs) != 3 || len(d.Claimed) != 1 || len(d.Claimed[0].Runs) != 2 {
		t.Fatalf("%d runs made, %v claimed, want 2 of 3", len(m.Runs), d.Claimed)
	}
	if first := d.Claimed[0].Runs[0]; first.Priority != 0 {
		t.Errorf("claimed %v first, want the one of the first level", first)
	}
	if n := w.count(t, "SELECT count(*) FROM due_runs"); n != 1 || !slices.Equal(m.Waiting, []string{"default"}) {
		t.Errorf("%d due rows and %v waiting, want one", n, m.Waiting)
	}
	w.claim(t, 1)
	if m, d := w.fireDirectly(t, "tack", 1, 0, &memoryOutbox{}); len(d.Claimed) > 0 || len(m.Waiting) != 1 {
		t.Errorf("claimed %v without room", d.Claimed)
	}
}

// Another transaction has the lane's due row in hand and may give it back.
func TestDirectClaimsDoNotOvertakeWhatIsLocked(t *testing.T) {
	w := newWorld(t)
	w.apply(t, everySecond("tick", domain.OverlapAllow), spec("report"))
	w.request(t, "report", 1)
	tx, err := w.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "DELETE FROM due_runs"); err != nil {
		t.Fatal(err)
	}
	if _, d := w.fireDirectly(t, "tick", 1, 5, &memoryOutbox{}); len(d.Claimed) > 0 {
		t.Errorf("claimed %v before a run whose claim may roll back", d.Claimed)
	}
}

// Places are decided as a claim decides them.
func TestDirectClaimsNeedPlaces(t *testing.T) {
	for overlap, want := range map[domain.Overlap]struct {
		waiting, skipped, replaced int
	}{
		domain.OverlapSkip:    {0, 2, 0},
		domain.OverlapQueue:   {1, 1, 0},
		domain.OverlapReplace: {1, 1, 1},
		domain.OverlapAllow:   {},
	} {
		t.Run(string(overlap), func(t *testing.T) {
			w := newWorld(t)
			w.apply(t, everySecond("tick", overlap))
			m, d := w.fireDirectly(t, "tick", 3, 5, &memoryOutbox{})
			claims := 3 - want.waiting - want.skipped
			if len(m.Runs) != 3 || len(d.Claimed) != 1 || len(d.Claimed[0].Runs) != claims || len(d.Replaced) < want.replaced {
				t.Errorf("made %d, claimed %v, replaced %v", len(m.Runs), d.Claimed, d.Replaced)
			}
			for table, n := range map[string]int{"claims": claims, "waiting_runs": want.waiting, "due_runs": 0, "events WHERE type = 'RunSkipped'": want.skipped} {
				if got := w.count(t, "SELECT count(*) FROM "+table); got != n {
					t.Errorf("%d rows in %s, want %d", got, table, n)
				}
			}
			if first := d.Claimed[0].Runs[0]; overlap != domain.OverlapAllow && !first.ScheduledAt.Equal(slices.MinFunc(m.Runs, func(a, b domain.Run) int { return a.ScheduledAt.Compare(b.ScheduledAt) }).ScheduledAt) {
				t.Errorf("%v has the place, want the first instant", first.ScheduledAt)
			}
		})
	}
}

// A run that cannot be claimed leaves the pass to be made without claims.
func TestPassGoesOnWithoutClaims(t *testing.T) {
	w := newWorld(t)
	elsewhere := spec("report")
	elsewhere.Queue = "elsewhere"
	w.apply(t, everySecond("tick", domain.OverlapAllow), elsewhere)
	m, d := w.fireDirectly(t, "tick", 1, 5, brokenOutbox{})
	if len(d.Claimed) > 0 || len(m.Waiting) != 1 || w.count(t, "SELECT count(*) FROM due_runs") != 1 {
		t.Errorf("claimed %v, %v waiting, want the run to wait for a claim", d.Claimed, m.Waiting)
	}
	got, err := w.RequestAndClaim(t.Context(), []RunRequest{{Job: "report"}}, room(5, brokenOutbox{}))
	if err != nil || got[0].Err != nil || !got[0].Waits {
		t.Errorf("%v, %v, want that the run waits", got, err)
	}
}

// brokenOutbox writes what the database refuses.
type brokenOutbox struct{}

func (brokenOutbox) Enqueue(b *pgx.Batch, _ time.Time, _ []Message) (func(), error) {
	b.Queue("SELECT '\\x00'::bytea::text::int")
	return func() {}, nil
}

var errNoOutbox = errors.New("no outbox")

type noOutbox struct{}

func (noOutbox) Enqueue(*pgx.Batch, time.Time, []Message) (func(), error) { return nil, errNoOutbox }

// If the pass fails nothing of it has happened.
func TestFailedDirectClaimLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.apply(t, everySecond("tick", domain.OverlapAllow))
	before := w.count(t, "SELECT count(*) FROM events")
	w.due(t, "tick", 1)
	if _, err := w.Materialize(t.Context(), 10, LongestDueFirst, room(5, noOutbox{})); !errors.Is(err, errNoOutbox) {
		t.Fatalf("%v, want what the outbox said", err)
	}
	if n := w.count(t, "SELECT count(*) FROM events"); n != before || w.count(t, "SELECT count(*) FROM run_slots")+w.count(t, "SELECT count(*) FROM claims") > 0 {
		t.Errorf("%d events became %d", before, n)
	}
}
