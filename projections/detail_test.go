package projections

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

func TestDetailIsNeverOlderThanTheLog(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	reader := NewReader(w.Store)
	made, err := w.Request(t.Context(), []eventstore.RunRequest{{Job: "report", Key: "k-1", Args: json.RawMessage(`{"a": 1}`), Reason: "asked by hand"}})
	if err != nil {
		t.Fatal(err)
	}
	id := made[0].RunID
	get := func() RunDetail {
		t.Helper()
		d, err := reader.GetRun(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	// Nobody follows: all of this comes from the log.
	if d := get(); d.State != domain.Pending || d.Key != "k-1" || string(d.Args) != `{"a": 1}` || d.RequestReason != "asked by hand" || d.Problem != "" {
		t.Errorf("new run: %+v", d)
	}
	r := w.claim(t, 1)[0]
	if d := get(); d.State != domain.Claimed || d.LeaseUntil == nil || !d.LeaseUntil.Equal(r.LeaseUntil) {
		t.Errorf("claimed run: %+v", d)
	}
	w.execute(t, start(r))
	beat, err := w.Heartbeat(t.Context(), []eventstore.Beat{{RunID: id, ClaimID: r.ClaimID}}, domain.ExecutionTerms{Lease: 10 * time.Minute})
	if err != nil || beat[0].Code != "" {
		t.Fatal(beat, err)
	}
	if d := get(); d.State != domain.Running || time.Until(*d.LeaseUntil) < 5*time.Minute {
		t.Errorf("running run does not show its renewed lease: %+v", d)
	}
	failed := fail(r, true, "first try")
	failed.Output = &eventstore.Output{Head: []byte("hello"), Tail: []byte("bye"), TotalBytes: 100}
	w.execute(t, failed)
	between := get().ChangedAt
	r = w.claim(t, 1)[0]
	done := succeed(r)
	done.Output = &eventstore.Output{Head: []byte("second"), TotalBytes: 6, Result: json.RawMessage(`{"ok": true}`)}
	w.execute(t, start(r), done)

	d := get()
	if d.State != domain.Succeeded || d.Attempt != 2 || d.LeaseUntil != nil || d.ErrorMessage != "" || len(d.ClaimHistory) != 2 {
		t.Fatalf("finished run: %+v", d)
	}
	first, second := d.ClaimHistory[0], d.ClaimHistory[1]
	if first.EndedBy != "RunRetryScheduled" || first.Error == nil || first.Error.Message != "first try" || first.ReadyAt == nil || first.Worker != "w-1" || first.Attempt != 1 {
		t.Errorf("first claim: %+v", first)
	}
	if second.EndedBy != "RunSucceeded" || second.Error != nil || second.Attempt != 2 || second.EndedAt == nil || !second.EndedAt.Equal(*d.FinishedAt) {
		t.Errorf("second claim: %+v", second)
	}
	if len(d.Outputs) != 2 || d.Outputs[0].TotalBytes != 100 || d.Outputs[0].Head != nil || string(d.Outputs[1].Result) != `{"ok": true}` {
		t.Errorf("outputs: %+v", d.Outputs)
	}

	then, err := reader.RunAsOf(t.Context(), id, between)
	if err != nil || then.State != domain.Pending || then.ErrorMessage != "first try" || then.Version != 4 {
		t.Errorf("as of the failure: %+v, %v", then, err)
	}
	if _, err := reader.RunAsOf(t.Context(), id, d.ScheduledAt.Add(-time.Hour)); !errors.Is(err, eventstore.ErrNotFound) {
		t.Errorf("as of before the request: %v", err)
	}

	if o, err := reader.RunOutput(t.Context(), id, 1); err != nil || string(o.Head) != "hello" || string(o.Tail) != "bye" {
		t.Errorf("output of attempt 1: %+v, %v", o, err)
	}
	if o, err := reader.RunOutput(t.Context(), id, 0); err != nil || o.Attempt != 2 || string(o.Head) != "second" {
		t.Errorf("last output: %+v, %v", o, err)
	}
	if _, err := reader.RunOutput(t.Context(), id, 3); !errors.Is(err, eventstore.ErrNotFound) {
		t.Errorf("output of an attempt that was not made: %v", err)
	}

	events, err := reader.RunEvents(t.Context(), id)
	if err != nil || len(events) != 7 || events[6].Type != "RunSucceeded" || events[6].Version != 7 || events[6].Actor == "" || events[6].At.IsZero() {
		t.Errorf("events %+v, %v", events, err)
	}
	if _, ok := events[0].Event.(domain.RunScheduled); !ok {
		t.Errorf("first event decoded as %T", events[0].Event)
	}
	for _, missing := range []func() error{
		func() error { _, err := reader.GetRun(t.Context(), uuid.New()); return err },
		func() error { _, err := reader.RunEvents(t.Context(), uuid.New()); return err },
		func() error { _, err := reader.JobHistory(t.Context(), "nobody", 0, 0); return err },
	} {
		if err := missing(); !errors.Is(err, eventstore.ErrNotFound) {
			t.Errorf("want not found, have %v", err)
		}
	}
}

func TestDetailOfAStreamThatDoesNotFold(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 1)
	r := w.claim(t, 1)[0]
	w.execute(t, start(r), succeed(r))
	w.follow(t)
	w.exec(t, "UPDATE events SET type = 'RunTeleported' WHERE stream_id = $1 AND version = 3", r.ID)
	reader := NewReader(w.Store)
	d, err := reader.GetRun(t.Context(), r.ID)
	if err != nil || d.State != domain.Claimed || !strings.Contains(d.Problem, "version 2 of 4") || !strings.Contains(d.Problem, "RunTeleported") {
		t.Errorf("%+v, %v", d, err)
	}
	events, err := reader.RunEvents(t.Context(), r.ID)
	if err != nil || events[2].Problem == "" || events[2].Event != nil || len(events[2].Data) == 0 {
		t.Errorf("%+v, %v", events, err)
	}

	w.exec(t, "DELETE FROM events WHERE stream_id = $1", r.ID)
	if d, err = reader.GetRun(t.Context(), r.ID); err != nil || d.State != domain.Succeeded || d.Problem == "" {
		t.Errorf("run whose stream is gone: %+v, %v", d, err)
	}
}

func TestJobHistoryIsPagedNewestFirst(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	command := func(do domain.JobCommand) {
		t.Helper()
		if _, err := w.CommandJobs(t.Context(), []eventstore.JobCommand{{Name: "report", Do: do, Meta: eventstore.Meta{Actor: "ann"}}}); err != nil {
			t.Fatal(err)
		}
	}
	command(domain.PauseJob{Reason: "maintenance"})
	command(domain.ResumeJob{})
	reader := NewReader(w.Store)
	page, err := reader.JobHistory(t.Context(), "report", 0, 2)
	if err != nil || len(page) != 2 || page[0].Type != "JobResumed" || page[1].Version != 2 || page[1].Actor != "ann" {
		t.Fatalf("%+v, %v", page, err)
	}
	if e, ok := page[1].Event.(domain.JobPaused); !ok || e.Reason != "maintenance" {
		t.Errorf("decoded as %+v", page[1].Event)
	}
	page, err = reader.JobHistory(t.Context(), "report", page[1].Version, 2)
	if err != nil || len(page) != 1 || page[0].Type != "JobCreated" {
		t.Errorf("%+v, %v", page, err)
	}
	if page, err = reader.JobHistory(t.Context(), "report", 1, 2); err != nil || len(page) != 0 {
		t.Errorf("after the last page: %+v, %v", page, err)
	}
	var bad *FilterError
	if _, err := reader.JobHistory(t.Context(), "report", 0, 501); !errors.As(err, &bad) {
		t.Errorf("limit 501: %v", err)
	}
}

func TestQueuesCountEveryLane(t *testing.T) {
	w := newWorld(t)
	mail := spec("mail")
	mail.Queue, mail.Kind = "mail", "send"
	w.apply(t, spec("report"), mail)
	w.request(t, "report", 6)
	runs := w.claim(t, 3)
	w.execute(t, start(runs[0]))
	w.exec(t, `WITH d AS (DELETE FROM due_runs WHERE run_id = (SELECT run_id FROM due_runs LIMIT 1) RETURNING *)
		INSERT INTO waiting_runs SELECT run_id, 'k', job_id, job_version, origin, queue, kind, priority, scheduled_at, ready_at,
		       version, attempt, dispatches, claims, changed_at, args, catch_up, now() FROM d`)
	if _, err := w.Request(t.Context(), []eventstore.RunRequest{{Job: "mail", At: time.Now().Add(time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"w-1", "w-2"} {
		err := w.SeeWorker(t.Context(), eventstore.Worker{ID: id, Slots: 4, Lanes: []eventstore.WorkerLane{{Queue: "default", Kind: "noop"}, {Queue: "idle", Kind: "noop"}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.exec(t, "UPDATE workers SET seen_at = now() - interval '1 minute' WHERE worker_id = 'w-2'")
	lanes, err := NewReader(w.Store).Queues(t.Context())
	if err != nil || len(lanes) != 3 {
		t.Fatalf("%+v, %v", lanes, err)
	}
	d, i, m := lanes[0], lanes[1], lanes[2]
	if d.Due != 2 || d.NotDue != 0 || d.Waiting != 1 || d.Claimed != 2 || d.Running != 1 || d.Workers != 1 || d.Slots != 4 || d.OldestReadyAt == nil || d.OldestWait <= 0 {
		t.Errorf("default: %+v", d)
	}
	if i.Queue != "idle" || i.Workers != 1 || i.Due != 0 {
		t.Errorf("idle: %+v", i)
	}
	if m.Queue != "mail" || m.Kind != "send" || m.Due != 0 || m.NotDue != 1 || m.OldestReadyAt != nil || m.OldestWait != 0 || m.Workers != 0 {
		t.Errorf("mail: %+v", m)
	}
}
