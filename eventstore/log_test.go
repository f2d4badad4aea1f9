package eventstore

import (
	"errors"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
)

func TestAppendIsAllOrNothingOverStreams(t *testing.T) {
	w := newWorld(t)
	a, b := domain.JobID("a"), domain.JobID("b")
	pause := []domain.Event{domain.JobPaused{Reason: "x"}}
	if _, err := w.Append(t.Context(), NewEvents{Stream: a, Events: pause}, NewEvents{Stream: b, Events: pause}); err != nil {
		t.Fatal(err)
	}
	for name, expect := range map[string]int{"behind": 0, "ahead": 5} {
		_, err := w.Append(t.Context(), NewEvents{Stream: a, Expect: 1, Events: pause}, NewEvents{Stream: b, Expect: expect, Events: pause})
		if !errors.Is(err, ErrVersionConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	at, err := w.Append(t.Context(), NewEvents{Stream: a, Expect: 1, Events: append(pause, domain.JobResumed{}), Meta: Meta{Actor: "someone", Causation: &b}})
	if err != nil {
		t.Fatal(err)
	}
	recs, err := w.ReadStream(t.Context(), domain.CategoryJob, a)
	if err != nil || len(recs) != 3 {
		t.Fatalf("%d events, %v", len(recs), err)
	}
	for i, r := range recs {
		if r.Version != i+1 || i > 0 && r.Position <= recs[i-1].Position {
			t.Errorf("event %d has version %d and position %d", i+1, r.Version, r.Position)
		}
	}
	if last := recs[2]; last.Actor != "someone" || last.Causation == nil || *last.Causation != b || !last.At.Equal(at) || last.Type != "JobResumed" {
		t.Errorf("recorded %+v", last)
	}
	if recs, err := w.ReadStream(t.Context(), domain.CategoryJob, b); err != nil || len(recs) != 1 {
		t.Errorf("the other stream has %d events, %v", len(recs), err)
	}
	if _, err := w.ReadStream(t.Context(), domain.CategoryJob, domain.JobID("c")); !errors.Is(err, ErrNotFound) {
		t.Errorf("a stream that is not: %v", err)
	}
}

func TestPartitionsComeAheadOfNeed(t *testing.T) {
	w := newWorld(t)
	leaves := func() int {
		return w.count(t, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'events_run'::regclass")
	}
	if _, err := w.KeepPartitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if made, err := w.KeepPartitions(t.Context()); err != nil || made != 0 {
		t.Errorf("made %d partitions again, %v", made, err)
	}
	before := leaves()
	if before < 4 {
		t.Errorf("%d monthly partitions are ready", before)
	}
	w.apply(t, spec("report"))
	far := time.Now().AddDate(7, 0, 0)
	got, err := w.Request(t.Context(), []RunRequest{{Job: "report", At: far}})
	if err != nil || got[0].Err != nil {
		t.Fatalf("a request seven years ahead: %v %v", err, got)
	}
	if n := leaves(); n != before+1 {
		t.Errorf("%d partitions after a request for one month more, want %d", n, before+1)
	}
	got, err = w.Request(t.Context(), []RunRequest{{Job: "report", At: time.Now().AddDate(70, 0, 0)}, {Job: "report"}})
	var bad *RequestError
	if err != nil || !errors.As(got[0].Err, &bad) || bad.Field != "at" || got[1].Err != nil {
		t.Errorf("a request seventy years ahead: %v %+v", err, got)
	}
}

func TestSameKeyGivesTheSameRun(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	first, err := w.Request(t.Context(), []RunRequest{{Job: "report", Key: "k"}, {Job: "report", Key: "k"}, {Job: "report"}, {Job: "nobody"}})
	if err != nil {
		t.Fatal(err)
	}
	if !first[0].Created || first[1].RunID != first[0].RunID || first[2].RunID == first[0].RunID {
		t.Errorf("%+v", first)
	}
	var refused *domain.JobRefusal
	if !errors.As(first[3].Err, &refused) || refused.Code != domain.JobUnknown {
		t.Errorf("a job that is not: %v", first[3].Err)
	}
	again, err := w.Request(t.Context(), []RunRequest{{Job: "report", Key: "k", At: time.Now().Add(time.Hour)}})
	if err != nil || again[0].Created || again[0].RunID != first[0].RunID {
		t.Errorf("%+v, %v", again, err)
	}
	if n := w.count(t, "SELECT count(*) FROM due_runs"); n != 2 {
		t.Errorf("%d runs due, want 2", n)
	}
}
