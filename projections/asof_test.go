package projections

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// seen is what was live at an instant.
type seen struct {
	at     time.Time
	queues []QueueStats
	jobs   map[string]eventstore.JobDetail
	runs   map[uuid.UUID]RunDetail
}

func (h *history) look(t *testing.T) seen {
	t.Helper()
	r := NewReader(h.Store)
	s := seen{jobs: map[string]eventstore.JobDetail{}, runs: map[uuid.UUID]RunDetail{}}
	var err error
	if s.at, err = h.Now(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.queues, err = r.Queues(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range h.jobs {
		if s.jobs[name], err = h.Job(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for range min(3, len(h.all)) {
		id := h.all[h.random.IntN(len(h.all))]
		if s.runs[id], err = r.GetRun(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// What stood at an instant is what was seen live at it, for runs, jobs and
// queues, whatever has happened since and however far behind the projection is.
func TestAsOfIsWhatWasSeenLive(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	h := &history{world: newWorld(t), random: rand.New(rand.NewPCG(seed, 1)), jobs: []string{"a", "b"}}
	begin, err := h.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range h.jobs {
		s := spec(name)
		s.Schedules = []string{"0 0 29 2 *"}
		h.apply(t, s)
	}
	var all []seen
	for i := range 120 {
		h.step(t)
		if i == 60 {
			h.follow(t)
		}
		if i%7 == 0 {
			name := h.jobs[h.random.IntN(2)]
			s := spec(name)
			s.Schedules, s.Priority = []string{"0 0 29 2 *"}, h.random.IntN(10)
			do := []domain.JobCommand{domain.PauseJob{Reason: "random"}, domain.ResumeJob{}, domain.ApplyJob{Spec: s}}[h.random.IntN(3)]
			if _, err := h.CommandJobs(t.Context(), []eventstore.JobCommand{{Name: name, Do: do}}); err != nil {
				t.Fatal(err)
			}
		}
		if i%4 == 0 {
			all = append(all, h.look(t))
		}
	}
	r := NewReader(h.Store)
	for _, s := range all {
		queues, err := r.QueuesAsOf(t.Context(), s.at)
		if err != nil {
			t.Fatal(err)
		}
		if len(queues) != len(s.queues) {
			t.Fatalf("at %s: %+v, live it was %+v", s.at, queues, s.queues)
		}
		for i, have := range queues {
			want := s.queues[i]
			if have.Queue != want.Queue || have.Kind != want.Kind || have.Due != want.Due+want.Waiting || have.NotDue != want.NotDue || have.Claimed != want.Claimed || have.Running != want.Running ||
				(have.OldestReadyAt == nil) != (want.OldestReadyAt == nil) || have.OldestReadyAt != nil && !have.OldestReadyAt.Equal(*want.OldestReadyAt) {
				t.Errorf("at %s: %+v, live it was %+v", s.at, have, want)
			}
		}
		for name, want := range s.jobs {
			have, err := r.JobAsOf(t.Context(), name, s.at)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(have.Spec, want.Spec) || have.Version != want.Version || have.SpecVersion != want.SpecVersion || have.Paused != want.Paused || have.PauseReason != want.PauseReason ||
				!have.ChangedAt.Equal(want.ChangedAt) || !have.CreatedAt.Equal(want.CreatedAt) || (have.NextFire == nil) != (want.NextFire == nil) || have.NextFire != nil && !have.NextFire.Equal(*want.NextFire) {
				t.Errorf("job %s at %s: %+v, live it was %+v", name, s.at, have, want)
			}
		}
		for id, want := range s.runs {
			have, err := r.RunAsOf(t.Context(), id, s.at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := differences(have.RunSummary, want.RunSummary); len(diff) > 0 || len(have.ClaimHistory) != len(want.ClaimHistory) {
				t.Errorf("run %s at %s: %+v", id, s.at, diff)
			}
		}
	}
	if _, err := r.JobAsOf(t.Context(), "a", begin); !errors.Is(err, eventstore.ErrNotFound) {
		t.Errorf("a job before it was made: %v", err)
	}
	if queues, err := r.QueuesAsOf(t.Context(), begin); err != nil || len(queues) != 0 {
		t.Errorf("the queues before there were any: %v, %v", queues, err)
	}
}

// What the read models or the log cannot tell any more is not guessed.
func TestQueuesAsOfSaysWhatItCannotTell(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("a"))
	now, err := w.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(w.Store)
	if _, err := r.QueuesAsOf(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := w.admin.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string, as any) {
		t.Helper()
		if _, err := r.QueuesAsOf(t.Context(), now); !errors.As(err, as) {
			t.Errorf("%s: %v", what, err)
		}
	}
	exec(`INSERT INTO checkpoints (name, cursor, updated_at) VALUES ($1, '{"era": 0, "scan": {}}', now())`, RunSummariesName)
	refused("read models that are not made yet", new(*BehindError))
	exec("DELETE FROM checkpoints")
	exec(`INSERT INTO events (category, stream_id, version, era, type, at, actor, data)
		SELECT 'job', gen_random_uuid(), 1, 1, 'JobPaused', now(), 'test', '{}' FROM generate_series(1, $1)`, unread)
	refused("read models far behind", new(*BehindError))
	exec("DELETE FROM events WHERE actor = 'test' AND type = 'JobPaused'")
	exec(`INSERT INTO retired_months (month, sha256, file, directory, host, runs, events, bytes, newest_at, position, era, xid, seen_era, snapshot, exported_by, dropped_at)
		VALUES ('2020-01-01', 'x', 'f', 'd', 'h', 1, 1, 1, $1, 1, 1, '1', 1, pg_current_snapshot(), 'x', now())`, now)
	refused("runs that are gone", new(*eventstore.RetiredError))
}

// A run that was asked for stands there before its time, also when it has ended
// since.
func TestQueuesAsOfHaveWhatWasAskedForLater(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	made, err := w.Request(t.Context(), []eventstore.RunRequest{{Job: "report", At: time.Now().Add(2 * time.Second)}})
	if err != nil || made[0].Err != nil {
		t.Fatal(made, err)
	}
	asked, err := w.ReadStream(t.Context(), domain.CategoryRun, made[0].RunID)
	if err != nil {
		t.Fatal(err)
	}
	at := asked[0].At
	var runs []domain.Run
	await(t, "the run to be due", func() bool {
		runs = w.claim(t, 1)
		return len(runs) == 1
	})
	w.execute(t, start(runs[0]), succeed(runs[0]))
	w.follow(t)
	got, err := NewReader(w.Store).QueuesAsOf(t.Context(), at)
	if err != nil || len(got) != 1 || got[0].NotDue != 1 {
		t.Errorf("%+v, %v, want one run that is not due", got, err)
	}
}
