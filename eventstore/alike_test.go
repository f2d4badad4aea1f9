package eventstore

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// tryAlike is one try without locks; a repeat under them would hide what noticed.
func (w *world) tryAlike(t *testing.T, commands ...Command) func() error {
	return func() error {
		a := &alike{starts: startsOnly(commands), order: []int32{0}}
		if len(commands) > 1 {
			a = alikeIn(commands)
		}
		answers, done, err := w.executeAlike(t.Context(), commands, a)
		if err == nil && !done {
			err = errLeftToLocks
		}
		if err == nil {
			err = answers[0].Err
		}
		return err
	}
}

var errLeftToLocks = errors.New("left to the decision under locks")

func startBy(run domain.Run, worker string) Command {
	c := start(run)
	c.Do = domain.StartRun{ClaimID: run.ClaimID, Token: uuid.New(), Worker: worker, Timeout: time.Minute, ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}
	return c
}

func (w *world) claimOne(t *testing.T) domain.Run {
	t.Helper()
	w.request(t, "report", 1)
	return w.claim(t, 1)[0]
}

func (w *world) starts(t *testing.T, run domain.Run) {
	t.Helper()
	if n := w.count(t, "SELECT count(*) FROM events WHERE type = 'RunStarted' AND stream_id = $1", run.ID); n != 1 {
		t.Errorf("%d starts of one claim", n)
	}
}

// Nothing locks a claim between the look of a start and its write. Two deliveries
// look at once, and both decide to start.
func TestUnlockedStartIsACompareAndSet(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))

	run := w.claimOne(t)
	w.pausing = rendezvous(2)
	errs := race(w.tryAlike(t, startBy(run, "w-1")), w.tryAlike(t, startBy(run, "w-2")))
	if !slices.Contains(errs, nil) || !slices.Contains(errs, errLeftToLocks) {
		t.Errorf("two unlocked starts: %v, want one of them left to the locks", errs)
	}
	w.starts(t, run)

	w.sql.startClaims = without(t, startClaims, " AND c.claim_id = u.k AND c.version = u.v AND c.start_token IS NULL")
	run = w.claimOne(t)
	w.pausing = rendezvous(2)
	errs = race(w.tryAlike(t, startBy(run, "w-1")), w.tryAlike(t, startBy(run, "w-2")))
	assertOneNoticed(t, "compare-and-set of the unlocked start taken away", errs)
	w.starts(t, run)

	// The loser is answered as the state is.
	w.sql.startClaims = startClaims
	w.request(t, "report", fewStarts)
	var first, second []Command
	for _, r := range w.claim(t, fewStarts) {
		first, second = append(first, startBy(r, "w-1")), append(second, startBy(r, "w-2"))
	}
	slices.Reverse(second)
	w.pausing = rendezvous(2)
	var one, other []Answer
	race(func() error { one = w.execute(t, first...); return nil }, func() error { other = w.execute(t, second...); return nil })
	for i := range one {
		if a, b := code(one[i].Err), code(other[len(other)-1-i].Err); a+b != domain.CodeAlreadyStarted {
			t.Errorf("two starts of one claim: %q and %q, want one of them refused as already started", a, b)
		}
		w.starts(t, one[i].Run)
	}
}

// A claim that ends between a start's look and its write is not started.
func TestUnlockedStartMissesAClaimThatEnded(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.request(t, "report", fewStarts)
	runs := w.claim(t, fewStarts)
	var commands []Command
	for _, r := range runs {
		commands = append(commands, startBy(r, "w-1"))
	}
	w.pausing = func(string) {
		w.pausing = func(string) {}
		if a := w.execute(t, Command{RunID: runs[7].ID, Do: domain.CancelRun{}})[0]; a.Err != nil {
			t.Error(a.Err)
		}
	}
	for i, a := range w.execute(t, commands...) {
		if want := map[bool]domain.Code{true: domain.CodeCancelled}[i == 7]; code(a.Err) != want {
			t.Errorf("start %d, the 7th of which was cancelled under it: %v, want %q", i, a.Err, want)
		}
	}
	if n := w.count(t, "SELECT count(*) FROM events WHERE type = 'RunStarted'"); n != fewStarts-1 {
		t.Errorf("%d starts, want one less than there were claims", n)
	}
}

// What a success takes away is looked at again: it is of the claim and started.
func TestSuccessTakesItsOwnStartedClaimOnly(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	first := w.claimOne(t)
	w.exec(t, "UPDATE claims SET lease_until = now() - interval '1 s'")
	if _, err := w.ExpireClaims(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	second := w.claim(t, 1)[0]
	for _, without := range []string{"", without(t, closeStarted, " AND c.claim_id = u.k"), without(t, closeStarted, " AND c.start_token IS NOT NULL")} {
		if w.sql.closeStarted = closeStarted; without != "" {
			w.sql.closeStarted = without
		}
		for what, c := range map[string]struct {
			run  domain.Run
			want domain.Code
		}{"of an earlier claim": {first, domain.CodeStaleClaim}, "of a claim not started": {second, domain.CodeNotStarted}} {
			if err := w.tryAlike(t, succeed(c.run))(); err != errLeftToLocks {
				t.Errorf("success %s: %v", what, err)
			}
			if a := w.execute(t, succeed(c.run))[0]; code(a.Err) != c.want {
				t.Errorf("success %s: %v, want %s", what, a.Err, c.want)
			}
		}
		if n := w.count(t, "SELECT count(*) FROM claims WHERE claim_id = $1", second.ClaimID); n != 1 {
			t.Fatal("the claim is gone")
		}
	}
	w.execute(t, start(second))
	w.sql.closeStarted = without(t, closeStarted, " AND c.claim_id = u.k")
	if err := w.tryAlike(t, succeed(first))(); err != errLeftToLocks {
		t.Errorf("success of an earlier claim beside a started one: %v", err)
	}
	w.sql.closeStarted = closeStarted
	if err := w.tryAlike(t, succeed(second))(); err != nil {
		t.Fatalf("success of the started claim: %v", err)
	}
	if a := w.execute(t, succeed(second))[0]; a.Err != nil || !a.Repeat {
		t.Errorf("the success repeated: %+v, want it answered from the stream", a)
	}
}

// Both the worker's success and the reaper hold the claim for its last.
func TestSuccessAndReaperCloseAClaimOnce(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	for range 5 {
		run := w.claimOne(t)
		w.execute(t, start(run))
		w.exec(t, "UPDATE claims SET lease_until = now() - interval '1 s'")
		w.pausing = rendezvous(2)
		var answer Answer
		race(func() error { answer = w.execute(t, succeed(run))[0]; return nil },
			func() error { _, err := w.ExpireClaims(t.Context(), 10); return err })
		if n := w.count(t, "SELECT count(*) FROM events WHERE version = 4 AND stream_id = $1", run.ID); n != 1 {
			t.Errorf("%d events close one claim", n)
		}
		succeeded := w.count(t, "SELECT count(*) FROM events WHERE type = 'RunSucceeded' AND stream_id = $1", run.ID) == 1
		if succeeded != (answer.Err == nil) {
			t.Errorf("the success was recorded: %v, and answered with %v", succeeded, answer.Err)
		}
	}
}

// One command that the others' way is not for takes none of them down.
func TestUnlikeCommandsAreDecidedUnderLocks(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	const n = 2 * fewStarts
	w.request(t, "report", n)
	runs := w.claim(t, n)
	commands := make([]Command, len(runs))
	for i, r := range runs {
		commands[i] = start(r)
	}
	w.execute(t, commands[3])
	commands[5].Do = domain.StartRun{ClaimID: uuid.New(), Token: uuid.New(), Worker: "w-2", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}
	for i, a := range w.execute(t, commands...) {
		switch {
		case i == 5:
			if code(a.Err) != domain.CodeStaleClaim {
				t.Errorf("start of no claim: %v, want it refused", a.Err)
			}
		case a.Err != nil || a.Repeat != (i == 3) || a.Run.ID != runs[i].ID:
			t.Errorf("start %d: %+v", i, a)
		}
	}
	for i, r := range runs {
		commands[i] = succeed(r)
	}
	for i, a := range w.execute(t, commands...) {
		if (a.Err != nil) != (i == 5) || a.Run.ID != runs[i].ID {
			t.Errorf("success %d: %+v", i, a)
		}
	}
}

// Transactions meet over many runs that each was given in an order of its own. They
// wait for one another; a deadlock would cost one of them a second.
func TestAlikeBatchesDoNotMeetCrosswise(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	const n = 300
	w.request(t, "report", n)
	runs := w.claim(t, n)
	shuffled := func(command func(domain.Run) Command) func() error {
		commands := make([]Command, n)
		for i, r := range runs {
			commands[i] = command(r)
		}
		rand.Shuffle(n, func(i, j int) { commands[i], commands[j] = commands[j], commands[i] })
		return w.tryAlike(t, commands...)
	}
	for _, command := range []func(domain.Run) Command{start, succeed} {
		for _, err := range race(shuffled(command), shuffled(command), shuffled(command)) {
			if sqlState(err) == "40P01" {
				t.Error(err)
			}
		}
	}
	if n := w.count(t, "SELECT count(*) FROM claims"); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}

// The answer says of each run what its worker is told, in the commands' order.
func TestAlikeAnswersAreThoseUnderLocks(t *testing.T) {
	w := newWorld(t)
	s := spec("report")
	s.Timeout = domain.Duration(time.Hour)
	other := spec("other")
	w.apply(t, s, other)
	w.request(t, "report", fewStarts)
	w.request(t, "other", fewStarts)
	runs := w.claim(t, 2*fewStarts)
	rand.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	commands := make([]Command, len(runs))
	for i, r := range runs {
		commands[i] = start(r)
	}
	answers := w.execute(t, commands...)
	repeats := w.execute(t, commands...) // these lock
	for i, a := range answers {
		r := repeats[i]
		if a.Repeat || !r.Repeat || a.Spec != r.Spec || a.Run.ID != runs[i].ID || a.Run.JobID != r.Run.JobID || a.Run.Kind != r.Run.Kind ||
			a.Run.Origin != r.Run.Origin || a.Run.Attempt != r.Run.Attempt || a.Run.Version != r.Run.Version || a.Run.Token != r.Run.Token || a.Run.Worker != r.Run.Worker ||
			!a.Run.ScheduledAt.Equal(r.Run.ScheduledAt) || !a.Run.LeaseUntil.Equal(r.Run.LeaseUntil) || !a.Run.StartedAt.Equal(r.Run.StartedAt) ||
			!a.Run.ChangedAt.Equal(r.Run.ChangedAt) || !slices.Equal(a.Run.Args, r.Run.Args) || (a.Run.Deadline == nil) != (r.Run.Deadline == nil) ||
			a.Run.Deadline != nil && !a.Run.Deadline.Equal(*r.Run.Deadline) || (a.Run.Deadline == nil) != (a.Spec.Name == "other") {
			t.Errorf("start %d: %+v, its claim says %+v", i, a.Run, r.Run)
		}
	}
	for i, r := range runs {
		commands[i] = succeed(r)
	}
	for i, a := range w.execute(t, commands...) {
		if a.Err != nil || a.Run.ID != runs[i].ID || a.Run.JobID != runs[i].JobID || a.Run.Queue != "default" || a.Run.Kind != "noop" ||
			a.Run.State != domain.Succeeded || a.Run.Attempt != 1 || a.Took <= 0 {
			t.Errorf("success %d: %+v", i, a)
		}
	}
	if n := w.count(t, "SELECT count(DISTINCT actor) FROM events WHERE type IN ('RunStarted', 'RunSucceeded') AND actor = 'worker:w-1'"); n != 1 {
		t.Error("the events do not name the worker")
	}
}
