package domain

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

// accept checks a decided event against the account, and records it.
func (w *walk) accept(c RunCommand, e RunEvent) {
	before := w.run
	at := EventTime(before.ChangedAt, w.now)
	closed := slices.Clone(before.Closed)
	after, err := EvolveRun(before, e, at)
	if !reflect.DeepEqual(before.Closed, closed) {
		w.t.Fatalf("%#v changed the state that it was applied to", e)
	}
	if err != nil {
		w.t.Fatalf("%#v decided %#v, which is no legal path: %v", c, e, err)
	}
	if w.final != nil {
		w.t.Fatalf("%#v after the end of the run (%#v) decided %#v", c, w.final, e)
	}
	if claim, fenced := fencedBy(c); fenced && (!before.InHand() || claim != before.ClaimID) {
		w.t.Fatalf("%#v of a claim that is not open decided %#v", c, e)
	}
	if after.Version != before.Version+1 || after.Version != len(w.history)+1 {
		w.t.Fatalf("%#v: version %d after %d", e, after.Version, before.Version)
	}
	if n := len(w.history); n > 0 && at.Before(w.history[n-1].At) {
		w.t.Fatalf("%#v is dated %s, before the last event of %s", e, at, w.history[n-1].At)
	}
	w.account(before, c, e)
	if w.flagged != nil && before.CancelRequested {
		switch e.(type) {
		case RunSucceeded, RunCancelled:
		default:
			w.t.Fatalf("%#v ended a flagged claim as %#v", c, e)
		}
	}
	if !after.InHand() {
		w.start, w.flagged = nil, nil
	}
	if after.State.Terminal() {
		w.final = e
		if !reflect.DeepEqual(after.Final, e) {
			w.t.Fatalf("final event %#v, want %#v", after.Final, e)
		}
	}
	if after.Attempt != w.attempts {
		w.t.Fatalf("%#v: %d attempts charged, want %d", e, after.Attempt, w.attempts)
	}
	if after.Dispatches != w.releases {
		w.t.Fatalf("%#v: %d claims since the last start, want %d", e, after.Dispatches, w.releases)
	}
	w.run, w.history = after, append(w.history, Dated[RunEvent]{e, at})
	w.events[e.EventType()]++
}

// account keeps the books: what is charged, what is put off, what closed a claim.
func (w *walk) account(before Run, c RunCommand, e RunEvent) {
	closes := func(ready time.Time, op Op) {
		if claim, fenced := fencedBy(c); fenced && claim != before.ClaimID {
			w.t.Fatalf("%#v closed claim %s", c, before.ClaimID)
		}
		if ready.Before(w.now) && !ready.IsZero() {
			w.t.Fatalf("%#v: ready at %s, before now %s", e, ready, w.now)
		}
		w.recorded[answerKey{before.ClaimID, op}] = e
	}
	refunds := func(attempt int) {
		if attempt != w.attempts {
			w.t.Fatalf("%#v refunds attempt %d of %d", e, attempt, w.attempts)
		}
		w.attempts--
	}
	switch e := e.(type) {
	case RunScheduled, RunSkipped:
	case RunClaimed:
		if before.ReadyAt.After(w.now) {
			w.t.Fatalf("claimed at %s, ready only at %s", w.now, before.ReadyAt)
		}
		w.releases++
		w.claims = append(w.claims, e.ClaimID)
	case RunStarted:
		w.attempts++
		w.releases = 0
		w.start = &e
		w.tokens = append(w.tokens, e.Token)
		if e.Attempt != w.attempts || !before.LeaseUntil.After(w.now) {
			w.t.Fatalf("%#v: %d attempts charged, lease until %s, now %s", e, w.attempts, before.LeaseUntil, w.now)
		}
	case RunReleased:
		closes(e.ReadyAt, opOf(c))
		if before.State != Claimed {
			w.t.Fatalf("a %s run was released free", before.State)
		}
		delay := e.ReadyAt.Sub(w.now)
		var want time.Duration
		switch c := c.(type) {
		case ReleaseRun:
			want = wantReleaseDelay(w.releases)
		case ExpireRun:
			if !c.Excused {
				want = wantReleaseDelay(w.releases)
			}
		}
		if delay != want {
			w.t.Fatalf("%#v after %d claims without a start: put off by %s, want %s", c, w.releases, delay, want)
		}
	case RunRetryScheduled:
		closes(e.ReadyAt, opOf(c))
		if e.Attempt != w.attempts || w.attempts >= w.policy.MaxAttempts {
			w.t.Fatalf("%#v: attempt %d of %d is tried again", e, w.attempts, w.policy.MaxAttempts)
		}
	case RunFailed:
		closes(time.Time{}, opOf(c))
		if f, ok := c.(FailRun); e.Attempt != w.attempts || w.attempts < w.policy.MaxAttempts && (!ok || f.Retryable) {
			w.t.Fatalf("%#v: attempt %d of %d ended the run", e, w.attempts, w.policy.MaxAttempts)
		}
	case RunSnoozed:
		closes(e.ReadyAt, OpSnooze)
		refunds(e.Attempt)
	case RunInterrupted:
		closes(e.ReadyAt, OpRelease)
		refunds(e.Attempt)
		if r, ok := c.(ReleaseRun); !ok || r.Undeliverable || r.Token != uuid.Nil && r.Token != before.Token {
			w.t.Fatalf("%#v interrupted the attempt started with token %s", c, before.Token)
		}
	case RunCancelRequested:
		w.flagged = &e
	case RunSucceeded:
		closes(time.Time{}, OpSucceed)
	case RunCancelled:
		if before.InHand() {
			closes(time.Time{}, opOf(c))
		}
	}
}

// wantReleaseDelay spells the rule out: two are free, then 1 s doubled, 5 min at
// most.
func wantReleaseDelay(releases int) time.Duration {
	if releases < 3 {
		return 0
	}
	d := time.Second
	for range releases - 3 {
		if d *= 2; d > 5*time.Minute {
			return 5 * time.Minute
		}
	}
	return d
}

// settle asks everything again that was ever asked, and expects the answers that
// were given.
func (w *walk) settle() {
	folded, err := FoldRun(w.run.ID, w.asStored())
	if err != nil {
		w.t.Fatalf("the stored history is no legal path: %v", err)
	}
	if w.run.InHand() {
		folded.LeaseUntil = w.run.LeaseUntil // renewals are no events
	}
	if !reflect.DeepEqual(folded, w.run) {
		w.t.Fatalf("the fold of the history differs from the state:\n%#v\n%#v", folded, w.run)
	}
	for i, claim := range w.claims {
		closed := w.run.ClaimID != claim
		commands := []RunCommand{
			SucceedRun{ClaimID: claim}, FailRun{ClaimID: claim, Policy: w.policy}, SnoozeRun{ClaimID: claim},
			ReleaseRun{ClaimID: claim}, StartRun{ClaimID: claim, Token: w.id(), ExecutionTerms: ExecutionTerms{Lease: time.Minute}},
		}
		for _, c := range commands {
			if !closed {
				continue
			}
			d, err := DecideRun(folded, c, w.now)
			want, ok := w.recorded[answerKey{claim, opOf(c)}]
			if ok && opOf(c) != "" {
				if err != nil || !d.Repeat || !reflect.DeepEqual(d.Event, want) {
					w.t.Fatalf("claim %d of %d, %#v again: %#v %v, want the recorded %#v", i+1, len(w.claims), c, d, err, want)
				}
				continue
			}
			code := CodeStaleClaim
			if _, start := c.(StartRun); w.final != nil {
				if code = CodeTerminal; start && w.run.State == Cancelled {
					code = CodeCancelled
				}
			}
			var r *Refusal
			if r, _ = err.(*Refusal); r == nil || r.Code != code || r.UnknownClaim {
				w.t.Fatalf("claim %d of %d, %#v: %#v %v, want %s", i+1, len(w.claims), c, d, err, code)
			}
		}
	}
	terminal := func(d Dated[RunEvent]) bool {
		switch d.Event.(type) {
		case RunSucceeded, RunFailed, RunCancelled, RunSkipped:
			return true
		}
		return false
	}
	if i := slices.IndexFunc(w.history, terminal); i >= 0 && i != len(w.history)-1 {
		w.t.Fatalf("event %d of %d is terminal", i+1, len(w.history))
	}
}

// TestRandomRuns asks random commands of runs and holds every answer against the
// rules.
func TestRandomRuns(t *testing.T) {
	rng := seeded(t)
	events, codes := map[string]int{}, map[Code]int{}
	longest := 0
	for range 700 {
		w := newWalk(t, rng)
		for steps := 10 + rng.IntN(200); steps > 0; steps-- {
			w.step()
			if w.final != nil {
				steps = min(steps, 40)
			}
		}
		w.settle()
		for k, n := range w.events {
			events[k] += n
		}
		for k, n := range w.codes {
			codes[k] += n
		}
		longest = max(longest, len(w.history))
	}
	// The walks are worth nothing where they do not get to.
	for typ := range decoders {
		if e, _ := decoders[typ]([]byte(`{}`)); CategoryOf(e) == CategoryRun && events[typ] < 5 {
			t.Errorf("%s was recorded %d times", typ, events[typ])
		}
	}
	for _, code := range []Code{CodeStaleClaim, CodeAlreadyStarted, CodeNotStarted, CodeTerminal, CodeCancelled, CodeUnknownRun, CodeLeaseOver, CodeLeaseLive, CodeNotDue, CodeExists} {
		if codes[code] < 5 {
			t.Errorf("%s was met %d times", code, codes[code])
		}
	}
	if longest < 30 {
		t.Errorf("the longest history has %d events", longest)
	}
	t.Logf("longest history %d events, recorded %v, refused %v", longest, events, codes)
}
