package domain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// decideIn decides in one of the matrix's states.
func decideIn(t *testing.T, state string, c RunCommand, after time.Duration) RunEvent {
	t.Helper()
	d, err := DecideRun(matrixRun(t, state), c, matrixAt.Add(after))
	if err != nil {
		t.Fatal(err)
	}
	return d.Event
}

func TestReadyTimesOfDecisions(t *testing.T) {
	backoff := matrixPolicy.Backoff(matrixRun(t, "running").ID, 1)
	for name, c := range map[string]struct {
		state string
		do    RunCommand
		after time.Duration
		want  time.Duration // after matrixAt
	}{
		"a released claim is ready at once":              {"claimed", ReleaseRun{ClaimID: goldenClaim}, time.Second, time.Second},
		"a drained attempt is ready at once":             {"running", ReleaseRun{ClaimID: goldenClaim}, time.Second, time.Second},
		"a snoozed attempt waits its delay":              {"running", SnoozeRun{ClaimID: goldenClaim, Delay: time.Hour}, time.Second, time.Hour + time.Second},
		"a negative delay is none":                       {"running", SnoozeRun{ClaimID: goldenClaim, Delay: -time.Hour}, time.Second, time.Second},
		"a failed attempt waits the policy's back-off":   {"running", FailRun{ClaimID: goldenClaim, Retryable: true, Policy: matrixPolicy}, time.Second, time.Second + backoff},
		"or what the failure asks for":                   {"running", FailRun{ClaimID: goldenClaim, Retryable: true, Policy: matrixPolicy, RetryAfter: time.Hour}, time.Second, time.Hour + time.Second},
		"a crash waits the policy's back-off":            {"running", ExpireRun{Policy: matrixPolicy}, time.Minute, time.Minute + backoff},
		"an unstarted claim is ready at once":            {"claimed", ExpireRun{}, time.Minute, time.Minute},
		"an undeliverable one too, the first two in row": {"claimed", ReleaseRun{ClaimID: goldenClaim, Undeliverable: true}, time.Second, time.Second},
	} {
		var got time.Time
		switch e := decideIn(t, c.state, c.do, c.after).(type) {
		case RunReleased:
			got = e.ReadyAt
		case RunInterrupted:
			got = e.ReadyAt
		case RunSnoozed:
			got = e.ReadyAt
		case RunRetryScheduled:
			got = e.ReadyAt
		}
		if want := matrixAt.Add(c.want); !got.Equal(want) {
			t.Errorf("%s: ready at %s, want %s", name, got, want)
		}
	}
}

func TestReasonsOfExpiry(t *testing.T) {
	if e := decideIn(t, "claimed", ExpireRun{}, time.Minute).(RunReleased); e.Reason != ReasonNotStarted || e.Op != OpExpire {
		t.Errorf("%#v", e)
	}
	if e := decideIn(t, "claimed", ExpireRun{Excused: true}, time.Minute).(RunReleased); e.Reason != ReasonStreamLost {
		t.Errorf("%#v", e)
	}
	silent := decideIn(t, "running", ExpireRun{Policy: matrixPolicy}, time.Minute).(RunRetryScheduled)
	if silent.Error.Type != ErrorLeaseOver || !strings.Contains(silent.Error.Message, "worker w ") || silent.Op != OpExpire {
		t.Errorf("%#v", silent)
	}
	late := decideIn(t, "running", ExpireRun{Policy: matrixPolicy}, matrixDeadline).(RunRetryScheduled)
	if late.Error.Type != ErrorTimeout || !strings.Contains(late.Error.Message, "2026-03-01T00:10:00Z") {
		t.Errorf("%#v", late)
	}
	if e := decideIn(t, "flagged", ExpireRun{Policy: matrixPolicy}, time.Minute).(RunCancelled); e.Op != OpExpire || e.Reason != "why" || *e.ClaimID != goldenClaim {
		t.Errorf("%#v", e)
	}
}

func TestTextOfCallersIsMadeStorable(t *testing.T) {
	bad := "a\x00b\xff" + strings.Repeat("é", 40_000)
	cause := RunError{Type: bad, Message: bad, Stack: bad}
	for name, e := range map[string]RunEvent{
		"failed":    decideIn(t, "running", FailRun{ClaimID: goldenClaim, Error: cause}, 0),
		"retried":   decideIn(t, "running", FailRun{ClaimID: goldenClaim, Error: cause, Retryable: true, Policy: matrixPolicy}, 0),
		"drained":   decideIn(t, "running", ReleaseRun{ClaimID: goldenClaim, Reason: bad}, 0),
		"released":  decideIn(t, "claimed", ReleaseRun{ClaimID: goldenClaim, Reason: bad}, 0),
		"flagged":   decideIn(t, "running", CancelRun{Reason: bad}, 0),
		"cancelled": decideIn(t, "claimed", CancelRun{Reason: bad}, 0),
		"dropped":   decideIn(t, "pending", CancelRun{Reason: bad}, 0),
	} {
		b, err := EncodeEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckStorable(b); err != nil || len(b) > 24<<10 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
}

func TestStartTakesTheTimeout(t *testing.T) {
	e := decideIn(t, "claimed", StartRun{ClaimID: goldenClaim, Token: goldenToken, Worker: "w", ExecutionTerms: ExecutionTerms{Lease: time.Minute}}, time.Second).(RunStarted)
	if e.Deadline != nil || !e.LeaseUntil.Equal(matrixAt.Add(61*time.Second)) {
		t.Errorf("without a timeout: %#v", e)
	}
	e = decideIn(t, "claimed", StartRun{ClaimID: goldenClaim, Token: goldenToken, Worker: "w", ExecutionTerms: ExecutionTerms{Lease: time.Minute, Complete: 10 * time.Second}, Timeout: 20 * time.Second}, time.Second).(RunStarted)
	if e.Deadline == nil || !e.Deadline.Equal(matrixAt.Add(21*time.Second)) || !e.LeaseUntil.Equal(matrixAt.Add(31*time.Second)) {
		t.Errorf("with a timeout below the lease: %#v", e)
	}
}

func TestLeaseEnd(t *testing.T) {
	at := func(d time.Duration) *time.Time { v := matrixAt.Add(d); return &v }
	for name, c := range map[string]struct {
		deadline *time.Time
		want     time.Duration
	}{
		"no deadline":                        {nil, time.Minute},
		"far deadline":                       {at(time.Hour), time.Minute},
		"a margin for the report is awaited": {at(30 * time.Second), 40 * time.Second},
		"deadline and margin at the lease":   {at(50 * time.Second), time.Minute},
		"deadline is over":                   {at(-time.Second), 9 * time.Second},
		"margin is over too":                 {at(-time.Minute), -50 * time.Second},
	} {
		if got := (ExecutionTerms{Lease: time.Minute, Complete: 10 * time.Second}).End(matrixAt, c.deadline); !got.Equal(matrixAt.Add(c.want)) {
			t.Errorf("%s: %s after now, want %s", name, got.Sub(matrixAt), c.want)
		}
	}
}

func TestEventTime(t *testing.T) {
	later := matrixAt.Add(time.Second)
	if got := EventTime(matrixAt, later); !got.Equal(later) {
		t.Errorf("a later transaction dates its event %s", got)
	}
	if got := EventTime(later, matrixAt); !got.Equal(later) {
		t.Errorf("a transaction that waited dates its event %s, before the last event", got)
	}
}

// TestIllegalPaths appends every event to every state, and to the states that
// count, events that count wrongly.
func TestIllegalPaths(t *testing.T) {
	cancelled := RunCancelled{Op: OpCancel}
	withClaim := func(id uuid.UUID) []RunEvent {
		return []RunEvent{
			RunStarted{ClaimID: id, Attempt: 1}, RunReleased{ClaimID: id}, RunRetryScheduled{ClaimID: id, Attempt: 1}, RunSnoozed{ClaimID: id, Attempt: 1},
			RunInterrupted{ClaimID: id, Attempt: 1}, RunCancelRequested{ClaimID: id}, RunSucceeded{ClaimID: id, Attempt: 1}, RunFailed{ClaimID: id, Attempt: 1},
			RunCancelled{ClaimID: &id},
		}
	}
	every := append(append(withClaim(goldenClaim), withClaim(matrixUnknown)...), RunScheduled{}, cancelled, RunSkipped{},
		RunClaimed{ClaimID: matrixUnknown, Dispatch: 1}, RunClaimed{ClaimID: matrixUnknown, Dispatch: 2}, RunClaimed{ClaimID: matrixUnknown, Dispatch: 3},
		RunStarted{ClaimID: goldenClaim}, RunStarted{ClaimID: goldenClaim, Attempt: 2},
		RunRetryScheduled{ClaimID: goldenClaim, Attempt: 2}, RunSnoozed{ClaimID: goldenClaim}, RunInterrupted{ClaimID: goldenClaim},
		RunSucceeded{ClaimID: goldenClaim}, RunFailed{ClaimID: goldenClaim, Attempt: 2})
	legal := map[string]string{
		"none":     "RunScheduled",
		"pending":  "RunClaimed RunCancelled RunSkipped",
		"released": "RunClaimed RunCancelled",
		"claimed":  "RunStarted RunReleased RunCancelled",
		"running":  "RunRetryScheduled RunSnoozed RunInterrupted RunCancelRequested RunSucceeded RunFailed RunCancelled",
		"flagged":  "RunSucceeded RunCancelled",
	}
	for state := range matrixStates {
		var got []string
		r := matrixRun(t, state)
		for _, e := range every {
			next, err := EvolveRun(r, e, matrixAt)
			var illegal *IllegalEventError
			switch {
			case err == nil:
				got = append(got, e.EventType())
			case !errors.As(err, &illegal) || illegal.Stream != r.ID || illegal.Version != r.Version+1 || illegal.Event != e.EventType() || illegal.State != string(r.State):
				t.Errorf("%s: %#v", state, err)
			case next.Version != r.Version || next.State != r.State:
				t.Errorf("%s: refused %s and yet went to %s", state, e.EventType(), next.State)
			}
		}
		if g := strings.Join(got, " "); !sameWords(g, legal[state]) {
			t.Errorf("%s accepts %q, want %q", state, g, legal[state])
		}
	}
}

func sameWords(a, b string) bool {
	seen := map[string]int{}
	for w := range strings.FieldsSeq(a) {
		seen[w]++
	}
	for w := range strings.FieldsSeq(b) {
		seen[w]--
	}
	for _, n := range seen {
		if n != 0 {
			return false
		}
	}
	return true
}

func TestStates(t *testing.T) {
	terminal := map[State]bool{Succeeded: true, Failed: true, Cancelled: true, Skipped: true}
	if len(States) != 7 {
		t.Errorf("%d states", len(States))
	}
	for _, s := range States {
		if s.Terminal() != terminal[s] {
			t.Errorf("%s: terminal %v", s, s.Terminal())
		}
		if inHand := (Run{State: s}).InHand(); inHand != (s == Claimed || s == Running) {
			t.Errorf("%s: in hand %v", s, inHand)
		}
	}
}
