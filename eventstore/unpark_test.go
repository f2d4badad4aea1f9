package eventstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// parkNext lets claims find the job's definition missing until a run is parked,
// and puts the definition back.
func (w *world) parkNext(t *testing.T, job string, run uuid.UUID) {
	t.Helper()
	w.exec(t, "UPDATE events SET version = version + 1000 WHERE category = 'job' AND stream_id = (SELECT id FROM jobs WHERE name = $1)", job)
	w.specs = newSpecCache()
	_, err := w.Claim(t.Context(), ClaimRequest{Lane: NewLane("default", "noop"), Limit: 1, Lease: time.Minute}, &memoryOutbox{})
	if parked, ok := errors.AsType[*ParkedError](err); !ok || parked.Run != run {
		t.Fatalf("the run is not parked: %v", err)
	}
	w.exec(t, "UPDATE events SET version = version - 1000 WHERE category = 'job' AND version > 1000")
}

func TestUnparkedRunIsClaimedOnceItsCauseIsGone(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	run := w.request(t, "report", 1)[0]
	w.exec(t, "UPDATE due_runs SET waiting_since = now() - interval '1 hour'")
	w.parkNext(t, "report", run)
	parked, err := w.ListParked(t.Context(), 10)
	if err != nil || len(parked) != 1 || parked[0].RunID != run || parked[0].Job != "report" || parked[0].Queue != "default" || parked[0].Reason == "" {
		t.Fatalf("parked %+v, %v", parked, err)
	}
	if none, err := w.ListParked(t.Context(), 10, uuid.New()); err != nil || len(none) != 0 {
		t.Errorf("another run's: %+v, %v", none, err)
	}
	got, err := w.Unpark(t.Context(), run, Meta{})
	if err != nil || got.Outcome != UnparkedDue || got.Run.Queue != "default" {
		t.Fatalf("unparked %+v, %v", got, err)
	}
	if again, err := w.Unpark(t.Context(), run, Meta{}); err != nil || again.Outcome != UnparkedNot {
		t.Errorf("once more: %+v, %v", again, err)
	}
	// Claims do not look again where they have been, and who waited for long goes first.
	if n := w.count(t, "SELECT count(*) FROM due_runs WHERE ready_at >= $1 AND waiting_since < now() - interval '30 minutes'", parked[0].ParkedAt); n != 1 {
		t.Error("the run is due from before it was parked, or has forgotten since when it waits")
	}
	claimed, _ := w.settle(t)
	if len(claimed) != 1 || claimed[0].ID != run {
		t.Fatalf("claimed %v", claimed)
	}
	w.execute(t, start(claimed[0]), succeed(claimed[0]))
	if n := w.count(t, "SELECT count(*) FROM parked_runs"); n != 0 {
		t.Errorf("%d rows are still parked", n)
	}
}

// A retried run keeps its overlap place while it is parked. Its definition stays
// missing: a cancel needs none.
func TestParkedRunIsCancelledAndGivesItsPlaceBack(t *testing.T) {
	w := newWorld(t)
	w.apply(t, everySecond("tick", domain.OverlapQueue))
	w.fireNow(t, "tick", 2)
	first, _ := w.settle(t)
	w.execute(t, start(first[0]), Command{RunID: first[0].ID, Do: domain.FailRun{ClaimID: first[0].ClaimID, Retryable: true}})
	w.exec(t, "UPDATE due_runs SET ready_at = now()")
	w.parkNext(t, "tick", first[0].ID)
	w.specs = newSpecCache()
	w.exec(t, "UPDATE events SET version = version + 1000 WHERE category = 'job'")
	a := w.execute(t, Command{RunID: first[0].ID, Do: domain.CancelRun{Reason: "poison"}})[0]
	if a.Err != nil || a.Run.State != domain.Cancelled || a.Repeat {
		t.Fatalf("cancel of a parked run: %+v", a)
	}
	w.exec(t, "UPDATE events SET version = version - 1000 WHERE category = 'job'")
	if a := w.execute(t, Command{RunID: first[0].ID, Do: domain.CancelRun{}})[0]; a.Err != nil || !a.Repeat {
		t.Errorf("repeated: %+v", a)
	}
	if n := w.count(t, "SELECT count(*) FROM parked_runs"); n != 0 {
		t.Error("the cancelled run is still parked")
	}
	if second, _ := w.settle(t); len(second) != 1 || second[0].ID == first[0].ID {
		t.Errorf("claimed %v, want the run that waited", second)
	}
}

func TestUnparkLeavesNothingBehind(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"), spec("old"))
	const park = `INSERT INTO parked_runs (run_id, job_id, parked_at, reason, row) SELECT $1, id, now(), 'test', '{}' FROM jobs WHERE name = $2`

	due := w.request(t, "report", 1)[0]
	w.exec(t, park, due, "report")
	if got, err := w.Unpark(t.Context(), due, Meta{}); err != nil || got.Outcome != UnparkedStale {
		t.Errorf("a run that is due: %+v, %v", got, err)
	}
	run := w.claim(t, 1)[0]
	w.execute(t, start(run), succeed(run))
	w.exec(t, park, run.ID, "report")
	if got, err := w.Unpark(t.Context(), run.ID, Meta{}); err != nil || got.Outcome != UnparkedStale {
		t.Errorf("a run that has ended: %+v, %v", got, err)
	}

	archived := w.request(t, "old", 1)[0]
	w.parkNext(t, "old", archived)
	if _, err := w.CommandJobs(t.Context(), []JobCommand{{Name: "old", Do: domain.ArchiveJob{}}}); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Unpark(t.Context(), archived, Meta{Actor: "ops"}); err != nil || got.Outcome != UnparkedCancelled {
		t.Errorf("a run of an archived job: %+v, %v", got, err)
	}
	if h := w.history(t, archived); h[len(h)-1] != "RunCancelled" {
		t.Errorf("history %v", h)
	}
	if n := w.count(t, "SELECT count(*) FROM events WHERE stream_id = $1 AND type = 'RunCancelled' AND actor = 'ops'", archived); n != 1 {
		t.Error("the cancel does not say who unparked the run")
	}

	unknown := uuid.New()
	w.exec(t, park, unknown, "report")
	if got, err := w.Unpark(t.Context(), unknown, Meta{}); err == nil {
		t.Errorf("a run that the log does not have: %+v", got)
	}
	if n := w.count(t, "SELECT count(*) FROM parked_runs WHERE run_id <> $1", unknown); n != 0 {
		t.Errorf("%d rows are still parked", n)
	}
}

// Its row lies in no table that claims lie in: the run is neither made due, where
// a worker may still execute it, nor asked to end when nobody would hear it.
func TestParkedRunWithoutItsClaimIsNotGuessedAt(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 2)
	runs := w.claim(t, 2)
	claimed, running := runs[0].ID, runs[1].ID
	w.execute(t, start(runs[1]))
	w.exec(t, "INSERT INTO parked_runs (run_id, job_id, parked_at, reason, row) SELECT run_id, job_id, now(), 'test', '{}' FROM claims")
	w.exec(t, "DELETE FROM claims")
	for _, run := range []uuid.UUID{claimed, running} {
		got, err := w.Unpark(t.Context(), run, Meta{})
		if !errors.Is(err, errInconsistent) || strings.Contains(err.Error(), "can be cancelled") != (run == claimed) {
			t.Errorf("unparked %+v, %v", got, err)
		}
	}
	if a := w.execute(t, Command{RunID: running, Do: domain.CancelRun{}})[0]; !errors.Is(a.Err, errInconsistent) {
		t.Errorf("cancel of a run that nobody executes: %+v", a)
	}
	if n := w.count(t, "SELECT count(*) FROM parked_runs"); n != 2 {
		t.Errorf("%d runs are parked, want both", n)
	}
	if a := w.execute(t, Command{RunID: claimed, Do: domain.CancelRun{}})[0]; a.Err != nil || a.Run.State != domain.Cancelled {
		t.Errorf("cancel of a run that nobody has begun: %+v", a)
	}
	if n := w.count(t, "SELECT count(*) FROM parked_runs"); n != 1 {
		t.Errorf("%d runs are parked, want the one that cannot be cancelled", n)
	}
}
