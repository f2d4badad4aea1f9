package eventstore

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

func TestRunIsExecutedAndRecorded(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	id := w.request(t, "report", 1)[0]
	run := w.claim(t, 10)[0]
	if run.ID != id || run.State != domain.Claimed {
		t.Fatalf("claimed %s in state %s", run.ID, run.State)
	}
	a := w.execute(t, start(run))[0]
	if a.Err != nil || a.Run.Attempt != 1 || a.Spec.Name != "report" {
		t.Fatalf("start: %+v", a)
	}
	done := succeed(run)
	done.Output = &Output{Head: []byte("hello"), TotalBytes: 5, Result: json.RawMessage(`{"ok": true}`)}
	if a := w.execute(t, done)[0]; a.Err != nil || a.Run.State != domain.Succeeded {
		t.Fatalf("complete: %+v", a)
	}
	want := []string{"RunScheduled", "RunClaimed", "RunStarted", "RunSucceeded"}
	if got := w.history(t, id); !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
	if n := w.count(t, "SELECT (SELECT count(*) FROM due_runs) + (SELECT count(*) FROM claims)"); n != 0 {
		t.Errorf("%d live rows of a finished run", n)
	}
	if n := w.count(t, "SELECT count(*) FROM run_outputs WHERE run_id = $1 AND attempt = 1 AND head = 'hello' AND result->>'ok' = 'true'", id); n != 1 {
		t.Error("output is not stored with the outcome")
	}
}

func TestRepeatsAreAnsweredFromTheStream(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 1)
	run := w.claim(t, 1)[0]
	w.execute(t, start(run))
	if a := w.execute(t, start(run))[0]; a.Err != nil || !a.Repeat || a.Run.Attempt != 1 {
		t.Errorf("repeated start: %+v", a)
	}
	fail := Command{RunID: run.ID, Do: domain.FailRun{ClaimID: run.ClaimID, Retryable: true, RetryAfter: time.Microsecond, Error: domain.RunError{Message: "no"}}}
	first := w.execute(t, fail)[0]
	second := w.claim(t, 1)[0]
	again := w.execute(t, fail)[0]
	if again.Err != nil || !again.Repeat || again.Event != first.Event {
		t.Errorf("repeated failure after a later claim: %+v, want %+v", again, first)
	}
	if a := w.execute(t, succeed(run))[0]; code(a.Err) != domain.CodeStaleClaim {
		t.Errorf("success of a closed claim: %v", a.Err)
	}
	w.execute(t, start(second), succeed(second))
	if a := w.execute(t, succeed(second))[0]; a.Err != nil || !a.Repeat {
		t.Errorf("repeated success: %+v", a)
	}
	if a := w.execute(t, fail)[0]; a.Err != nil || !a.Repeat {
		t.Errorf("repeated failure of a finished run: %+v", a)
	}
	if a := w.execute(t, succeed(run))[0]; code(a.Err) != domain.CodeTerminal {
		t.Errorf("success of another claim of a finished run: %v", a.Err)
	}
}

func TestClaimFromAnUndoneFutureIsRefused(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 1)
	run := w.claim(t, 1)[0]
	run.ClaimID = uuid.New()
	for _, c := range []Command{start(run), succeed(run)} {
		a := w.execute(t, c)[0]
		var r *domain.Refusal
		if !errors.As(a.Err, &r) || r.Code != domain.CodeStaleClaim || !r.UnknownClaim {
			t.Errorf("%T of a claim nobody made: %v", c.Do, a.Err)
		}
	}
	run.ID = uuid.New()
	if a := w.execute(t, start(run))[0]; code(a.Err) != domain.CodeUnknownRun {
		t.Errorf("start of a run nobody scheduled: %v", a.Err)
	}
}

func TestUnstorableResultFailsTheRunAndNoOther(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 8)
	runs := w.claim(t, 8)
	var commands []Command
	for i, r := range runs {
		w.execute(t, start(r))
		c := succeed(r)
		c.Output = &Output{Result: json.RawMessage(`{"n": 1}`)}
		if i == 5 {
			c.Output.Result = json.RawMessage(`"a\u0000b"`)
		}
		commands = append(commands, c)
	}
	for i, a := range w.execute(t, commands...) {
		want := domain.Succeeded
		if i == 5 {
			want = domain.Failed
		}
		if a.Err != nil || a.Run.State != want {
			t.Errorf("run %d: state %s, error %v, want %s", i, a.Run.State, a.Err, want)
		}
		if f, ok := a.Event.(domain.RunFailed); i == 5 && (!ok || f.Error.Type != ErrorUnstorable || !strings.Contains(f.Error.Message, "u0000")) {
			t.Errorf("failure says %+v", a.Event)
		}
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	cancel := func(id uuid.UUID) Command { return Command{RunID: id, Do: domain.CancelRun{Reason: "stop"}} }

	pending := w.request(t, "report", 1)[0]
	if a := w.execute(t, cancel(pending))[0]; a.Err != nil || a.Run.State != domain.Cancelled {
		t.Errorf("cancel of a pending run: %+v", a)
	}
	w.request(t, "report", 2)
	runs := w.claim(t, 2)
	if a := w.execute(t, cancel(runs[0].ID))[0]; a.Err != nil || a.Run.State != domain.Cancelled {
		t.Errorf("cancel of a claimed run: %+v", a)
	}
	if a := w.execute(t, start(runs[0]))[0]; code(a.Err) != domain.CodeCancelled {
		t.Errorf("start of a cancelled run: %v", a.Err)
	}
	w.execute(t, start(runs[1]))
	if a := w.execute(t, cancel(runs[1].ID))[0]; a.Err != nil || a.Run.State != domain.Running || !a.Run.CancelRequested {
		t.Errorf("cancel of a running run: %+v", a)
	}
	b, err := w.Heartbeat(t.Context(), []Beat{{RunID: runs[1].ID, ClaimID: runs[1].ClaimID}}, domain.ExecutionTerms{Lease: time.Minute})
	if err != nil || !b[0].Cancel || b[0].Remaining < 50*time.Second {
		t.Errorf("heartbeat of a flagged claim: %+v, %v", b, err)
	}
	fail := Command{RunID: runs[1].ID, Do: domain.FailRun{ClaimID: runs[1].ClaimID, Retryable: true}}
	if a := w.execute(t, fail)[0]; a.Err != nil || a.Run.State != domain.Cancelled {
		t.Errorf("failure of a flagged claim: %+v", a)
	}
	if a := w.execute(t, cancel(runs[1].ID))[0]; a.Err != nil || !a.Repeat {
		t.Errorf("repeated cancel: %+v", a)
	}
	if n := w.count(t, "SELECT (SELECT count(*) FROM due_runs) + (SELECT count(*) FROM claims)"); n != 0 {
		t.Errorf("%d live rows left", n)
	}
}

func TestReaperClosesLapsedClaimsOnly(t *testing.T) {
	w := newWorld(t)
	s := spec("report")
	s.Retry.MaxAttempts = 1
	w.apply(t, s)
	w.request(t, "report", 3)
	runs := w.claim(t, 3)
	w.execute(t, start(runs[0]), start(runs[1]))
	if got, err := w.ExpireClaims(t.Context(), 100); err != nil || len(got) != 0 {
		t.Fatalf("reaped %d live claims, %v", len(got), err)
	}
	w.exec(t, "UPDATE claims SET lease_until = now() - interval '1 s' WHERE run_id = ANY($1)", []uuid.UUID{runs[0].ID, runs[2].ID})
	got, err := w.ExpireClaims(t.Context(), 100)
	if err != nil || len(got) != 2 {
		t.Fatalf("reaped %d, %v", len(got), err)
	}
	for _, e := range got {
		want := domain.Failed // crashed with its only attempt
		if e.Run.ID == runs[2].ID {
			want = domain.Pending // nobody started it: free
		}
		if e.Run.State != want {
			t.Errorf("run %s is %s, want %s", e.Run.ID, e.Run.State, want)
		}
	}
	if a := w.execute(t, succeed(runs[0]))[0]; code(a.Err) != domain.CodeTerminal {
		t.Errorf("success after the reaper: %v", a.Err)
	}
	if a := w.execute(t, succeed(runs[1]))[0]; a.Err != nil {
		t.Errorf("success of the live claim: %v", a.Err)
	}
}

func TestLapsedLeaseIsNoMatterUntilTheReaperComes(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", 1)
	run := w.claim(t, 1)[0]
	w.execute(t, start(run))
	w.exec(t, "UPDATE claims SET lease_until = now() - interval '1 s'")
	b, err := w.Heartbeat(t.Context(), []Beat{{RunID: run.ID, ClaimID: run.ClaimID}}, domain.ExecutionTerms{Lease: time.Minute})
	if err != nil || b[0].Code != domain.CodeLeaseOver {
		t.Errorf("heartbeat after the lease: %+v, %v", b, err)
	}
	if a := w.execute(t, succeed(run))[0]; a.Err != nil || a.Run.State != domain.Succeeded {
		t.Errorf("success after the lease: %+v", a)
	}
}

func code(err error) domain.Code {
	if r, ok := errors.AsType[*domain.Refusal](err); ok {
		return r.Code
	}
	return ""
}

// The terms are the caller's: leases of an attempt with a deadline end by the
// budget in force, when they are granted and when they are renewed.
func TestOutcomeIsAwaitedAsLongAsTheTermsSay(t *testing.T) {
	w := newWorld(t)
	s := spec("report")
	s.Timeout = domain.Duration(time.Second)
	w.apply(t, s)
	w.request(t, "report", 1)
	run := w.claim(t, 1)[0]
	terms := domain.ExecutionTerms{Lease: time.Hour, Complete: 20 * time.Minute}
	a := w.execute(t, Command{RunID: run.ID, Do: domain.StartRun{ClaimID: run.ClaimID, Token: run.ClaimID, Worker: "w-1", ExecutionTerms: terms}})[0]
	if a.Err != nil || !a.Run.LeaseUntil.Equal(a.Run.Deadline.Add(terms.Complete)) {
		t.Errorf("the lease ends %s after the deadline, want %s: %v", a.Run.LeaseUntil.Sub(*a.Run.Deadline), terms.Complete, a.Err)
	}
	terms.Complete = 40 * time.Minute
	b, err := w.Heartbeat(t.Context(), []Beat{{RunID: run.ID, ClaimID: run.ClaimID}}, terms)
	if err != nil || b[0].Remaining < 39*time.Minute || b[0].Remaining > 41*time.Minute {
		t.Errorf("renewed for %v, %v", b, err)
	}
}
