package domain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// matrix is the answer to every command in every state. An event's name is a
// decision, with = before it a repeat of what is recorded; a lower-case name is
// a refusal, with ? after it where the claim is reported as unknown to history.
//
// Commands of a claim come from the open claim, or the last one; "old" ones come
// from a claim that was released before it. In the state "released" the open
// claim has not been made yet.
const matrix = `
command        | none         | pending      | released     | claimed      | running            | flagged             | succeeded     | failed       | cancelled     | dropped       | skipped
schedule       | RunScheduled | exists       | exists       | exists       | exists             | exists              | exists        | exists       | exists        | exists        | exists
claim          | unknown_run  | RunClaimed   | RunClaimed   | stale_claim  | stale_claim        | stale_claim         | terminal      | terminal     | terminal      | terminal      | terminal
claim early    | unknown_run  | not_due      | not_due      | stale_claim  | stale_claim        | stale_claim         | terminal      | terminal     | terminal      | terminal      | terminal
start          | unknown_run  | stale_claim? | stale_claim? | RunStarted   | =RunStarted        | =RunStarted         | terminal      | terminal     | cancelled     | cancelled     | terminal
start again    | unknown_run  | stale_claim? | stale_claim? | RunStarted   | already_started    | already_started     | terminal      | terminal     | cancelled     | cancelled     | terminal
start late     | unknown_run  | stale_claim? | stale_claim? | lease_over   | lease_over         | lease_over          | terminal      | terminal     | cancelled     | cancelled     | terminal
start old      | unknown_run  | stale_claim? | stale_claim  | stale_claim  | stale_claim        | stale_claim         | terminal      | terminal     | cancelled     | cancelled     | terminal
start unknown  | unknown_run  | stale_claim? | stale_claim? | stale_claim? | stale_claim?       | stale_claim?        | terminal      | terminal     | cancelled     | cancelled     | terminal
start none     | unknown_run  | stale_claim? | stale_claim? | stale_claim? | stale_claim?       | stale_claim?        | terminal      | terminal     | cancelled     | cancelled     | terminal
succeed        | unknown_run  | stale_claim? | stale_claim? | not_started  | RunSucceeded       | RunSucceeded        | =RunSucceeded | terminal     | terminal      | terminal      | terminal
succeed old    | unknown_run  | stale_claim? | stale_claim  | stale_claim  | stale_claim        | stale_claim         | terminal      | terminal     | terminal      | terminal      | terminal
fail           | unknown_run  | stale_claim? | stale_claim? | not_started  | RunRetryScheduled  | RunCancelled        | terminal      | =RunFailed   | =RunCancelled | terminal      | terminal
fail for good  | unknown_run  | stale_claim? | stale_claim? | not_started  | RunFailed          | RunCancelled        | terminal      | =RunFailed   | =RunCancelled | terminal      | terminal
fail last      | unknown_run  | stale_claim? | stale_claim? | not_started  | RunFailed          | RunCancelled        | terminal      | =RunFailed   | =RunCancelled | terminal      | terminal
fail old       | unknown_run  | stale_claim? | stale_claim  | stale_claim  | stale_claim        | stale_claim         | terminal      | terminal     | terminal      | terminal      | terminal
snooze         | unknown_run  | stale_claim? | stale_claim? | not_started  | RunSnoozed         | RunCancelled        | terminal      | terminal     | terminal      | terminal      | terminal
snooze unknown | unknown_run  | stale_claim? | stale_claim? | stale_claim? | stale_claim?       | stale_claim?        | terminal      | terminal     | terminal      | terminal      | terminal
release        | unknown_run  | stale_claim? | stale_claim? | RunReleased  | RunInterrupted     | RunCancelled        | terminal      | terminal     | terminal      | terminal      | terminal
release mine   | unknown_run  | stale_claim? | stale_claim? | RunReleased  | RunInterrupted     | RunCancelled        | terminal      | terminal     | terminal      | terminal      | terminal
release other  | unknown_run  | stale_claim? | stale_claim? | RunReleased  | already_started    | already_started     | terminal      | terminal     | terminal      | terminal      | terminal
release old    | unknown_run  | stale_claim? | =RunReleased | =RunReleased | =RunReleased       | =RunReleased        | =RunReleased  | =RunReleased | =RunReleased  | terminal      | terminal
undeliverable  | unknown_run  | stale_claim? | stale_claim? | RunReleased  | already_started    | already_started     | terminal      | terminal     | terminal      | terminal      | terminal
expire early   | unknown_run  | stale_claim  | stale_claim  | lease_live   | lease_live         | lease_live          | terminal      | terminal     | terminal      | terminal      | terminal
expire         | unknown_run  | stale_claim  | stale_claim  | RunReleased  | RunRetryScheduled  | RunCancelled        | terminal      | terminal     | terminal      | terminal      | terminal
expire timeout | unknown_run  | stale_claim  | stale_claim  | RunReleased  | RunRetryScheduled  | RunCancelled        | terminal      | terminal     | terminal      | terminal      | terminal
expire last    | unknown_run  | stale_claim  | stale_claim  | RunReleased  | RunFailed          | RunCancelled        | terminal      | terminal     | terminal      | terminal      | terminal
expire excused | unknown_run  | stale_claim  | stale_claim  | RunReleased  | RunRetryScheduled  | RunCancelled        | terminal      | terminal     | terminal      | terminal      | terminal
cancel         | unknown_run  | RunCancelled | RunCancelled | RunCancelled | RunCancelRequested | =RunCancelRequested | terminal      | terminal     | =RunCancelled | =RunCancelled | terminal
skip           | unknown_run  | RunSkipped   | stale_claim  | stale_claim  | stale_claim        | stale_claim         | terminal      | terminal     | terminal      | terminal      | terminal
`

var (
	matrixAt       = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	matrixOld      = uuid.MustParse("00000000-0000-4000-8000-00000000001d")
	matrixUnknown  = uuid.MustParse("00000000-0000-4000-8000-0000000000ff")
	matrixPolicy   = RetryPolicy{MaxAttempts: 3, Initial: Duration(time.Second), Max: Duration(time.Minute), Multiplier: 2}
	matrixLastTry  = RetryPolicy{MaxAttempts: 1, Initial: Duration(time.Second), Max: Duration(time.Minute), Multiplier: 2}
	matrixDeadline = 10 * time.Minute
)

// matrixCommands are the rows, each with how long after matrixAt it comes.
var matrixCommands = map[string]struct {
	do    RunCommand
	after time.Duration
}{
	"schedule":       {ScheduleRun{RunScheduled{JobID: goldenJob, ScheduledAt: matrixAt, ReadyAt: matrixAt}}, 0},
	"claim":          {ClaimRun{ClaimID: matrixUnknown, Lease: time.Minute}, 0},
	"claim early":    {ClaimRun{ClaimID: matrixUnknown, Lease: time.Minute}, -time.Microsecond},
	"start":          {StartRun{ClaimID: goldenClaim, Token: goldenToken, Worker: "w", ExecutionTerms: ExecutionTerms{Lease: time.Minute}, Timeout: matrixDeadline}, 0},
	"start again":    {StartRun{ClaimID: goldenClaim, Token: goldenOther, Worker: "w", ExecutionTerms: ExecutionTerms{Lease: time.Minute}}, 0},
	"start late":     {StartRun{ClaimID: goldenClaim, Token: goldenToken, Worker: "w", ExecutionTerms: ExecutionTerms{Lease: time.Minute}}, time.Minute},
	"start old":      {StartRun{ClaimID: matrixOld, Token: goldenToken, Worker: "w", ExecutionTerms: ExecutionTerms{Lease: time.Minute}}, 0},
	"start unknown":  {StartRun{ClaimID: matrixUnknown, Token: goldenToken, Worker: "w", ExecutionTerms: ExecutionTerms{Lease: time.Minute}}, 0},
	"start none":     {StartRun{Worker: "w", ExecutionTerms: ExecutionTerms{Lease: time.Minute}}, 0},
	"succeed":        {SucceedRun{ClaimID: goldenClaim}, 0},
	"succeed old":    {SucceedRun{ClaimID: matrixOld}, 0},
	"fail":           {FailRun{ClaimID: goldenClaim, Retryable: true, Policy: matrixPolicy}, 0},
	"fail for good":  {FailRun{ClaimID: goldenClaim, Policy: matrixPolicy}, 0},
	"fail last":      {FailRun{ClaimID: goldenClaim, Retryable: true, Policy: matrixLastTry}, 0},
	"fail old":       {FailRun{ClaimID: matrixOld, Retryable: true, Policy: matrixPolicy}, 0},
	"snooze":         {SnoozeRun{ClaimID: goldenClaim, Delay: time.Minute}, 0},
	"snooze unknown": {SnoozeRun{ClaimID: matrixUnknown, Delay: time.Minute}, 0},
	"release":        {ReleaseRun{ClaimID: goldenClaim, Reason: "drained"}, 0},
	"release mine":   {ReleaseRun{ClaimID: goldenClaim, Token: goldenToken, Reason: "drained"}, 0},
	"release other":  {ReleaseRun{ClaimID: goldenClaim, Token: goldenOther, Reason: "drained"}, 0},
	"release old":    {ReleaseRun{ClaimID: matrixOld, Reason: "drained"}, 0},
	"undeliverable":  {ReleaseRun{ClaimID: goldenClaim, Undeliverable: true}, 0},
	"expire early":   {ExpireRun{Policy: matrixPolicy}, time.Minute - time.Microsecond},
	"expire":         {ExpireRun{Policy: matrixPolicy}, time.Minute},
	"expire timeout": {ExpireRun{Policy: matrixPolicy}, matrixDeadline},
	"expire last":    {ExpireRun{Policy: matrixLastTry}, time.Minute},
	"expire excused": {ExpireRun{Policy: matrixPolicy, Excused: true}, time.Minute},
	"cancel":         {CancelRun{Reason: "why"}, 0},
	"skip":           {SkipRun{Reason: "overlap"}, 0},
}

// matrixStates are the columns, by the commands that lead there.
var matrixStates = map[string][]string{
	"none":      {},
	"pending":   {"schedule"},
	"released":  {"schedule", "claim as old", "release old"},
	"claimed":   {"schedule", "claim as old", "release old", "claim as open"},
	"running":   {"schedule", "claim as old", "release old", "claim as open", "start"},
	"flagged":   {"schedule", "claim as old", "release old", "claim as open", "start", "cancel"},
	"succeeded": {"schedule", "claim as old", "release old", "claim as open", "start", "succeed"},
	"failed":    {"schedule", "claim as old", "release old", "claim as open", "start", "fail for good"},
	"cancelled": {"schedule", "claim as old", "release old", "claim as open", "start", "cancel", "fail"},
	"dropped":   {"schedule", "cancel"},
	"skipped":   {"schedule", "skip"},
}

func matrixRun(t *testing.T, state string) Run {
	t.Helper()
	r := Run{ID: SlotID(goldenJob, matrixAt)}
	for _, name := range matrixStates[state] {
		var c RunCommand
		switch name {
		case "claim as old":
			c = ClaimRun{ClaimID: matrixOld, Lease: time.Minute}
		case "claim as open":
			c = ClaimRun{ClaimID: goldenClaim, Lease: time.Minute}
		default:
			c = matrixCommands[name].do
		}
		d, err := DecideRun(r, c, matrixAt)
		if err != nil || d.Repeat {
			t.Fatalf("on the way to %s: %s: %v, repeat %v", state, name, err, d.Repeat)
		}
		if r, err = EvolveRun(r, d.Event, matrixAt); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func matrixAnswer(t *testing.T, state, command string) string {
	t.Helper()
	c := matrixCommands[command]
	d, err := DecideRun(matrixRun(t, state), c.do, matrixAt.Add(c.after))
	var r *Refusal
	switch {
	case errors.As(err, &r) && r.UnknownClaim:
		return string(r.Code) + "?"
	case errors.As(err, &r):
		return string(r.Code)
	case err != nil:
		t.Fatalf("%s in state %s: %v", command, state, err)
	case d.Repeat:
		return "=" + d.Event.EventType()
	}
	return d.Event.EventType()
}

func TestDecisionMatrix(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(matrix), "\n")
	cells := func(line string) []string {
		parts := strings.Split(line, "|")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		return parts
	}
	states := cells(lines[0])[1:]
	if len(states) != len(matrixStates) || len(lines)-1 != len(matrixCommands) {
		t.Fatalf("the table has %d states and %d commands, want %d and %d", len(states), len(lines)-1, len(matrixStates), len(matrixCommands))
	}
	for _, line := range lines[1:] {
		row := cells(line)
		if len(row) != len(states)+1 {
			t.Fatalf("row %q has %d cells, want %d", row[0], len(row), len(states)+1)
		}
		for i, state := range states {
			if got := matrixAnswer(t, state, row[0]); got != row[i+1] {
				t.Errorf("%s in state %s: %s, want %s", row[0], state, got, row[i+1])
			}
		}
	}
}
