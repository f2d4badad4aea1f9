package projections

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

func (w *world) states(t *testing.T) map[uuid.UUID]domain.State {
	t.Helper()
	rows, err := w.admin.Query(t.Context(), "SELECT run_id, state FROM run_summaries")
	if err != nil {
		t.Fatal(err)
	}
	out := map[uuid.UUID]domain.State{}
	var id uuid.UUID
	var s domain.State
	if _, err := pgx.ForEachRow(rows, []any{&id, &s}, func() error { out[id] = s; return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUnknownEventParksItsStreamUntilABinaryKnowsIt(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 3)
	runs := w.claim(t, 3)
	for _, r := range runs {
		w.execute(t, start(r))
	}
	w.exec(t, "UPDATE events SET type = 'RunTeleported' WHERE stream_id = $1 AND version = 3", runs[1].ID)
	for _, r := range runs {
		w.execute(t, succeed(r))
	}
	f := w.follower(Config{Limit: 2})
	settle(t, f)
	states := w.states(t)
	if states[runs[0].ID] != domain.Succeeded || states[runs[2].ID] != domain.Succeeded {
		t.Errorf("other runs did not go on: %v", states)
	}
	if states[runs[1].ID] != domain.Claimed {
		t.Errorf("run is %s, want as it was before the unknown event", states[runs[1].ID])
	}
	var version int
	var reason string
	if err := w.admin.QueryRow(t.Context(), "SELECT version, reason FROM projection_parked WHERE stream_id = $1", runs[1].ID).Scan(&version, &reason); err != nil {
		t.Fatal(err)
	}
	if version != 3 || !strings.Contains(reason, "RunTeleported") {
		t.Errorf("parked at version %d: %s", version, reason)
	}
	if !strings.Contains(w.log.String(), "stream is parked") || strings.Count(w.log.String(), "stream is parked") != 1 {
		t.Errorf("want one report of it in the log:\n%s", w.log)
	}
	if r := w.checked(t); r.Parked != 1 {
		t.Errorf("check counts %d parked streams", r.Parked)
	}
	lag, err := f.Lag(t.Context())
	if err != nil || lag[0].Parked != 1 {
		t.Errorf("lag %+v, %v", lag, err)
	}

	// Still unknown a minute later, and then known.
	again := func() {
		t.Helper()
		w.exec(t, "UPDATE projection_parked SET tried_at = now() - interval '1 hour'")
		f.members[0].swept = time.Time{}
		settle(t, f)
	}
	again()
	if n := w.count(t, "SELECT count(*) FROM projection_parked WHERE tried_at > now() - interval '1 minute'"); n != 1 {
		t.Error("the stream was not tried, or let go unapplied")
	}
	w.exec(t, "UPDATE events SET type = 'RunStarted' WHERE type = 'RunTeleported'")
	again()
	if n := w.count(t, "SELECT count(*) FROM projection_parked"); n != 0 {
		t.Error("the stream is still parked")
	}
	if w.count(t, "SELECT succeeded FROM job_stats") != 3 {
		t.Error("the run is missing from the statistics")
	}
	w.checked(t)
}

func TestIllegalEventIsParked(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 2)
	runs := w.claim(t, 2)
	if _, err := w.Append(t.Context(), eventstore.NewEvents{Stream: runs[0].ID, Expect: 2, Events: []domain.Event{domain.RunSucceeded{ClaimID: runs[0].ClaimID}}}); err != nil {
		t.Fatal(err)
	}
	w.follow(t)
	if s := w.states(t); s[runs[0].ID] != domain.Claimed || s[runs[1].ID] != domain.Claimed {
		t.Errorf("states %v", s)
	}
	if n := w.count(t, "SELECT count(*) FROM projection_parked WHERE stream_id = $1 AND version = 3 AND reason LIKE '%cannot follow%'", runs[0].ID); n != 1 {
		t.Error("illegal event is not parked with its reason")
	}
}

// The database may refuse a row that the fold finds nothing wrong with.
func TestRowThatTheDatabaseRefusesIsParkedAlone(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 20)
	runs := w.claim(t, 20)
	for i, r := range runs {
		w.execute(t, start(r), fail(r, false, fmt.Sprintf("error %d", i)))
	}
	w.exec(t, "ALTER TABLE run_summaries ADD CONSTRAINT picky CHECK (error_message <> 'error 7')")
	f := w.follower(Config{Limit: 1000})
	settle(t, f)
	for i, r := range runs {
		want := domain.Failed
		if i == 7 {
			want = domain.Running
		}
		if s := w.states(t)[r.ID]; s != want {
			t.Errorf("run %d is %q, want %s", i, s, want)
		}
	}
	if n := w.count(t, "SELECT count(*) FROM projection_parked WHERE stream_id = $1 AND version = 4", runs[7].ID); n != 1 {
		t.Error("the refused run is not parked")
	}
	w.exec(t, "ALTER TABLE run_summaries DROP CONSTRAINT picky")
	w.exec(t, "UPDATE projection_parked SET tried_at = '-infinity'")
	f.members[0].swept = time.Time{}
	settle(t, f)
	if n := w.count(t, "SELECT failed FROM job_stats"); n != 20 {
		t.Errorf("%d failures counted", n)
	}
	w.checked(t)
}

func TestParkedStreamThatIsNoLongerKeptIsLetGo(t *testing.T) {
	w := newWorld(t)
	f := w.follower(Config{})
	settle(t, f)
	w.exec(t, "INSERT INTO projection_parked VALUES ('run_summaries', $1, 'run', 3, 9, 'gone', now(), '-infinity')", uuid.New())
	f.members[0].swept = time.Time{}
	settle(t, f)
	if n := w.count(t, "SELECT count(*) FROM projection_parked"); n != 0 {
		t.Error("still parked")
	}
}

func TestPoisonHoldsBackItsStreamAndIsReportedOnce(t *testing.T) {
	good, bad := uuid.New(), uuid.New()
	scheduled := func(id uuid.UUID) eventstore.Recorded {
		return eventstore.Recorded{Category: domain.CategoryRun, StreamID: id, Version: 1, Type: "RunScheduled", SchemaVersion: 1, Data: []byte(`{"job": "a"}`)}
	}
	strange := func(id uuid.UUID, version int) eventstore.Recorded {
		return eventstore.Recorded{Category: domain.CategoryRun, StreamID: id, Version: version, Type: "RunTeleported", SchemaVersion: 1}
	}
	f := newFold()
	for _, rec := range []eventstore.Recorded{scheduled(bad), strange(bad, 2), strange(bad, 3), scheduled(good)} {
		f.add(rec)
	}
	if len(f.poison) != 1 || f.poison[0].Event.Version != 2 {
		t.Errorf("poison: %+v", f.poison)
	}
	if r := f.rows[bad]; r.Version != 1 || !r.dirty {
		t.Errorf("the stream's row: %+v", r)
	}
	if r := f.rows[good]; r.Version != 1 || !r.dirty || r.Job != "a" {
		t.Errorf("the other stream's row: %+v", r)
	}
}

func TestErrorsOfTheDatabaseAreNotBlamedOnRows(t *testing.T) {
	if blamesRow(context.DeadlineExceeded) || blamesRow(nil) {
		t.Error("an error without SQLSTATE blames a row")
	}
}
