package domain

import (
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the property tests; 0 draws one")

// seeded is a generator whose seed is logged, to be given again with -seed.
func seeded(t testing.TB) *rand.Rand {
	seed := *seedFlag
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d; repeat with: go test ./domain -run %s -seed %d", seed, t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
}

// answerKey is what a repeat is recognised by.
type answerKey struct {
	claim uuid.UUID
	op    Op
}

// walk takes one run through random commands, and keeps its own account of what
// must be true.
type walk struct {
	t   *testing.T
	rng *rand.Rand
	now time.Time

	run     Run
	history []Dated[RunEvent]
	policy  RetryPolicy
	terms   ExecutionTerms
	calm    bool // nothing ends the run early, so that its history grows

	claims   []uuid.UUID // all there ever were
	tokens   []uuid.UUID
	recorded map[answerKey]RunEvent // what closed a claim
	start    *RunStarted            // of the open claim
	attempts int                    // charged and not refunded
	releases int                    // claims in a row that were never started
	flagged  *RunCancelRequested    // of the open claim
	final    RunEvent

	events map[string]int // types recorded
	codes  map[Code]int   // refusals met
}

func newWalk(t *testing.T, rng *rand.Rand) *walk {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	calm := rng.IntN(2) == 0
	attempts := 1 + rng.IntN(4)
	if calm {
		attempts = 40
	}
	return &walk{
		t: t, rng: rng, now: at, run: Run{ID: SlotID(goldenJob, at)}, calm: calm,
		policy:   RetryPolicy{MaxAttempts: attempts, Initial: Duration(time.Second), Max: Duration(time.Minute), Multiplier: 2},
		terms:    ExecutionTerms{Lease: time.Minute, Complete: 10 * time.Second},
		recorded: map[answerKey]RunEvent{}, events: map[string]int{}, codes: map[Code]int{},
	}
}

func (w *walk) id() (id uuid.UUID) {
	for i := range id {
		id[i] = byte(w.rng.Uint32())
	}
	return id
}

// pick is one of the ids that exist, more often the newest, sometimes an unknown
// one or none.
func (w *walk) pick(ids []uuid.UUID) uuid.UUID {
	switch n := w.rng.IntN(20); {
	case n == 0:
		return uuid.Nil
	case n == 1 || len(ids) == 0:
		return w.id()
	case n < 7:
		return ids[w.rng.IntN(len(ids))]
	}
	return ids[len(ids)-1]
}

// command is a random one. Some claim and start ids are new, as they are in life.
func (w *walk) command() RunCommand {
	claim := w.pick(w.claims)
	text := []string{"", "why", "a\x00b", "\xff"}[w.rng.IntN(4)]
	n := w.rng.IntN(22)
	if w.run.Version == 0 && w.rng.IntN(3) > 0 {
		n = 0
	}
	switch n {
	case 0:
		return ScheduleRun{Event: RunScheduled{JobID: goldenJob, Job: "nightly-report", JobVersion: 1, Origin: OriginSchedule, ScheduledAt: w.now, ReadyAt: w.now, Queue: "default", Kind: KindExec, Priority: 5}}
	case 1, 2, 3, 4, 5:
		return ClaimRun{ClaimID: w.id(), Lease: time.Minute}
	case 6, 7, 8, 9, 10:
		token := w.id()
		if w.rng.IntN(3) == 0 {
			token = w.pick(w.tokens)
		}
		return StartRun{ClaimID: claim, Token: token, Worker: "w", ExecutionTerms: w.terms, Timeout: time.Duration(w.rng.IntN(3)) * 40 * time.Second}
	case 11:
		switch n := w.rng.IntN(4); {
		case w.calm && w.rng.IntN(8) > 0:
		case n > 1:
			return SucceedRun{ClaimID: claim}
		case n == 1 || w.run.State == Running:
			return CancelRun{Reason: text}
		}
		return ClaimRun{ClaimID: w.id(), Lease: time.Minute}
	case 12, 13:
		return FailRun{ClaimID: claim, Error: RunError{Type: "e", Message: text}, Retryable: w.calm || w.rng.IntN(4) > 0, RetryAfter: time.Duration(w.rng.IntN(2)) * time.Second, Policy: w.policy}
	case 14, 15:
		return SnoozeRun{ClaimID: claim, Delay: time.Duration(w.rng.IntN(30)-5) * time.Second}
	case 16, 17:
		r := ReleaseRun{ClaimID: claim, Reason: text, Undeliverable: w.rng.IntN(2) == 0}
		if n := len(w.tokens); n > 0 && w.rng.IntN(2) == 0 {
			r.Token = w.tokens[n-1-w.rng.IntN(min(n, 2))]
		}
		return r
	case 18, 19, 20:
		return ExpireRun{Policy: w.policy, Excused: w.rng.IntN(3) == 0}
	}
	if w.rng.IntN(4) == 0 {
		return SkipRun{Reason: "overlap", BlockedBy: &goldenOther}
	}
	return SnoozeRun{ClaimID: claim, Delay: time.Duration(w.rng.IntN(3)) * time.Second}
}

// tick moves the clock, at times backwards: a transaction that waited for the
// row read the clock before the one it waited for.
func (w *walk) tick() {
	switch w.rng.IntN(10) {
	case 0:
		w.now = w.now.Add(-time.Duration(w.rng.IntN(5000)) * time.Millisecond)
	case 1, 2:
		w.now = w.now.Add(time.Duration(w.rng.IntN(120)) * time.Second)
	default:
		w.now = w.now.Add(time.Duration(w.rng.IntN(3_000_000)) * time.Microsecond)
	}
}

// renew is what a heartbeat does to the row of a run whose lease lives.
func (w *walk) renew() {
	if w.run.State == Running && w.run.LeaseUntil.After(w.now) {
		w.run.LeaseUntil = w.terms.End(w.now, w.run.Deadline)
	}
}

// step decides one random command and checks the answer.
func (w *walk) step() {
	w.tick()
	if w.rng.IntN(3) == 0 {
		w.renew()
	}
	c := w.command()
	before := w.run
	d, err := DecideRun(w.run, c, w.now)
	if !reflect.DeepEqual(w.run, before) {
		w.t.Fatalf("%#v: deciding changed the state", c)
	}
	again, errAgain := DecideRun(w.run, c, w.now)
	if !reflect.DeepEqual(d, again) || !reflect.DeepEqual(err, errAgain) {
		w.t.Fatalf("%#v: decided twice, differently: %#v %v, then %#v %v", c, d, err, again, errAgain)
	}
	w.checkRow(c, d, err)
	switch {
	case err != nil:
		w.checkRefusal(c, err)
	case d.Repeat:
		w.checkRepeat(c, d.Event)
	default:
		w.accept(c, d.Event)
	}
}

// checkRow decides on what a live row holds, without what only the fold knows.
func (w *walk) checkRow(c RunCommand, d Decision, err error) {
	if claim, fenced := fencedBy(c); w.run.Version == 0 || w.run.State.Terminal() || fenced && claim != w.run.ClaimID {
		return
	}
	row := w.run
	row.Closed, row.Final, row.start, row.Job, row.Key = nil, nil, nil, "", ""
	dRow, errRow := DecideRun(row, c, w.now)
	if again, ok := dRow.Event.(RunStarted); ok && dRow.Repeat {
		again.LeaseUntil = w.start.LeaseUntil // a row holds the renewed lease
		dRow.Event = again
	}
	var refusal, refusalRow *Refusal
	if errors.As(err, &refusal) && errors.As(errRow, &refusalRow) && refusal.Code == refusalRow.Code {
		return
	}
	if !reflect.DeepEqual(d, dRow) || (err == nil) != (errRow == nil) {
		w.t.Fatalf("%#v in state %s: on the fold %#v %v, on the row %#v %v", c, w.run.State, d, err, dRow, errRow)
	}
}

// fencedBy is the claim that a command speaks for.
func fencedBy(c RunCommand) (uuid.UUID, bool) {
	f := reflect.ValueOf(c).FieldByName("ClaimID")
	if _, claims := c.(ClaimRun); !f.IsValid() || claims {
		return uuid.Nil, false
	}
	return f.Interface().(uuid.UUID), true
}

func (w *walk) checkRefusal(c RunCommand, err error) {
	var r *Refusal
	if !errors.As(err, &r) || r.Run != w.run.ID || r.Code == "" {
		w.t.Fatalf("%#v: %#v is no refusal of run %s", c, err, w.run.ID)
	}
	w.codes[r.Code]++
	claim, fenced := fencedBy(c)
	if known := w.knows(claim); r.UnknownClaim && (!fenced || known) {
		w.t.Fatalf("%#v: claim reported as unknown, fenced %v, known %v", c, fenced, known)
	} else if fenced && !known && r.Code == CodeStaleClaim && !r.UnknownClaim {
		w.t.Fatalf("%#v: the claim is not in the history and not reported as unknown", c)
	}
}

func (w *walk) knows(claim uuid.UUID) bool {
	return slices.Contains(w.claims, claim)
}

// checkRepeat allows a repeat only of what is recorded, with the event recorded.
func (w *walk) checkRepeat(c RunCommand, e RunEvent) {
	var want RunEvent
	switch c := c.(type) {
	case StartRun:
		if w.start != nil && w.start.ClaimID == c.ClaimID && w.start.Token == c.Token {
			want = *w.start
		}
	case CancelRun:
		if want = w.final; want == nil && w.flagged != nil {
			want = *w.flagged
		}
	default:
		claim, _ := fencedBy(c)
		want = w.recorded[answerKey{claim, opOf(c)}]
	}
	if want == nil || !reflect.DeepEqual(e, want) {
		w.t.Fatalf("%#v: repeat answered with %#v, recorded is %#v", c, e, want)
	}
}

func opOf(c RunCommand) Op {
	switch c.(type) {
	case SucceedRun:
		return OpSucceed
	case FailRun:
		return OpFail
	case SnoozeRun:
		return OpSnooze
	case ReleaseRun:
		return OpRelease
	case ExpireRun:
		return OpExpire
	case CancelRun:
		return OpCancel
	}
	return ""
}

// asStored is the history as it comes back from the database.
func (w *walk) asStored() []Dated[RunEvent] {
	out := make([]Dated[RunEvent], len(w.history))
	for i, d := range w.history {
		data, err := EncodeEvent(d.Event)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := CheckStorable(json.RawMessage(data)); err != nil {
			w.t.Fatalf("%#v %v", d.Event, err)
		}
		e, err := DecodeEvent(d.Event.EventType(), SchemaVersion, data)
		if err != nil {
			w.t.Fatal(err)
		}
		out[i] = Dated[RunEvent]{e.(RunEvent), d.At}
	}
	return out
}
