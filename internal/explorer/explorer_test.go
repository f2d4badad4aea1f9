package explorer

import (
	"os"
	"strings"
	"testing"
)

// Worlds. Where leases may end at any moment safety is what is shown; where they
// dominate, progress as well.
var (
	anytime    = config{slots: 2, attempts: 2}
	full       = config{slots: 2, attempts: 2, cancels: true}
	cancelling = config{slots: 2, attempts: 1, cancels: true}
	timed      = config{slots: 2, attempts: 2, timed: true}
	calm       = config{slots: 2, attempts: 2, timed: true, calm: true}
	crashing   = config{slots: 2, attempts: 2, timed: true, crashing: true}
	idle       = config{slots: 2, attempts: 2, idle: true}
	// Small ones, for what a single worker and attempt already show.
	small       = config{slots: 1, attempts: 1}
	smallTimed  = config{slots: 1, attempts: 1, timed: true}
	oneTimed    = config{slots: 1, attempts: 2, timed: true}
	smallCancel = config{slots: 1, attempts: 2, cancels: true}
)

const maxStates = 3_000_000

// TestProtocolHolds looks at every state of the protocol.
func TestProtocolHolds(t *testing.T) {
	for name, c := range map[string]config{
		"leases end at any moment": anytime, "with a cancel": full, "with a cancel, one attempt": cancelling, "leases dominate": timed, "no faults": calm,
		"every execution kills its worker": crashing, "no worker starts": idle,
		"one worker, one attempt": small, "the same, leases dominate": smallTimed, "one worker and a cancel": smallCancel,
	} {
		if c == full && os.Getenv("DAYBOOK_EXPLORE_ALL") == "" {
			continue // a minute of its own
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, n := explore(c, "", maxStates)
			t.Logf("%d states", n)
			for _, f := range got {
				t.Errorf("%s\n  %s", f.what, strings.Join(f.trace, "\n  "))
			}
		})
	}
}

// removals is each guard with the smallest world that needs it and with what
// goes wrong there without it.
var removals = map[guard]struct {
	in   config
	want string
}{
	outcomeFence:      {anytime, stale},
	startOnce:         {anytime, sameClaim},
	startToken:        {anytime, burnt},
	startClaim:        {anytime, sameClaim},
	reapCheck:         {anytime, regress},
	reaper:            {smallTimed, lostRun},
	chargeAtStart:     {idle, burnt},
	chargeCrash:       {crashing, undercharge},
	attemptLimit:      {crashing, tooMany},
	refund:            {oneTimed, burnt},
	recorded:          {smallTimed, untruth},
	ackLast:           {smallTimed, stuckClaim},
	idPerClaim:        {calm, idleRelease},
	outboxRow:         {smallTimed, stuckClaim},
	relayPoll:         {smallTimed, stuckClaim},
	rearm:             {smallTimed, stuckClaim},
	rearmDurable:      {smallTimed, stuckClaim},
	consumerPerStream: {smallTimed, stuckClaim},
	timeToLive:        {small, leak},
	cancelWaits:       {smallCancel, endedUnder},
	cancelFlag:        {smallCancel, uncancelled},
	atomicMove:        {smallTimed, lostRun},
	ownDeadline:       {timed, overlap},
	bothTransports:    {oneTimed, burnt},
	nakUnsent:         {timed, burnt},
	releaseToken:      {timed, overlap},
	releaseUnstarted:  {timed, burnt},
	parkUnstarted:     {timed, overlap},
}

// TestEveryGuardIsNeeded takes the guards away one at a time, and prints how the
// run comes to harm.
func TestEveryGuardIsNeeded(t *testing.T) {
	only := os.Getenv("DAYBOOK_EXPLORE") // part of a guard's description
	for g, says := range guards {
		if !strings.Contains(says, only) {
			continue
		}
		t.Run(strings.ReplaceAll(says, " ", "_"), func(t *testing.T) {
			t.Parallel()
			r, ok := removals[g]
			if !ok {
				t.Fatal("nothing is said about this guard: add what goes wrong without it")
			}
			c := r.in
			c.without = g
			got, n := explore(c, r.want, maxStates)
			for _, f := range got {
				t.Logf("without it, after %d steps (%d states): %s\n  %s", len(f.trace), n, f.what, strings.Join(f.trace, "\n  "))
			}
			if len(got) == 0 || got[len(got)-1].what != r.want {
				t.Errorf("not found in %d states: %s", n, r.want)
			}
			if len(got) > 0 && len(got[len(got)-1].trace) == 0 {
				t.Error("no trace")
			}
		})
	}
}
