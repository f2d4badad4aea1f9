package judge

import (
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// legal is the lifecycle of a run, one letter an event: Scheduled, Claimed,
// Begun, cancel reQuested, Released, retried (T), snooZed, Interrupted,
// succeeded (K), Failed, cancelled (X), skipped (M). It says the same as the
// product's fold, and was written without it.
var legal = regexp.MustCompile(`^S(M|(C(R|B[TZI]))*(X|C|CX|CBQ?|CBQ?K|CBF|CBQX)?)$`)

const finals = "KFXM"

func letter(e domain.Event) (letter byte, claim uuid.UUID) {
	switch e := e.(type) {
	case domain.RunScheduled:
		return 'S', uuid.Nil
	case domain.RunClaimed:
		return 'C', e.ClaimID
	case domain.RunStarted:
		return 'B', e.ClaimID
	case domain.RunCancelRequested:
		return 'Q', e.ClaimID
	case domain.RunReleased:
		return 'R', e.ClaimID
	case domain.RunRetryScheduled:
		return 'T', e.ClaimID
	case domain.RunSnoozed:
		return 'Z', e.ClaimID
	case domain.RunInterrupted:
		return 'I', e.ClaimID
	case domain.RunSucceeded:
		return 'K', e.ClaimID
	case domain.RunFailed:
		return 'F', e.ClaimID
	case domain.RunCancelled:
		if e.ClaimID != nil {
			claim = *e.ClaimID
		}
		return 'X', claim
	case domain.RunSkipped:
		return 'M', uuid.Nil
	}
	return '?', uuid.Nil
}

// path checks a run's events in their order, and its claims against each other.
func (h History) path(r *run, v *Violations) {
	var b strings.Builder
	var open uuid.UUID
	var closed time.Time
	for _, e := range r.events {
		l, claim := letter(e.Event)
		b.WriteByte(l)
		switch l {
		case 'C':
			open = claim
			if e.at.Before(closed) {
				v.add("claims overlap", "run %s: claim %s is of %s, the one before was closed at %s", r.ID, claim, e.at, closed)
			}
		case 'B', 'Q', 'R', 'T', 'Z', 'I', 'K', 'F', 'X':
			if claim != open && (l != 'X' || claim != uuid.Nil) {
				v.add("fence", "run %s version %d: a %s of claim %s; the open one is %s", r.ID, e.version, e.EventType(), claim, open)
			}
			if l != 'B' && l != 'Q' {
				closed = e.at
			}
		}
		h.granted(r, e, v)
	}
	p := b.String()
	if !legal.MatchString(p) {
		v.add("illegal path", "run %s: %s", r.ID, p)
	}
	if i := strings.IndexAny(p, finals); i >= 0 && i < len(p)-1 {
		v.add("second end", "run %s: %s", r.ID, p)
	}
	if strings.Contains(p, "F") && !strings.Contains(p, "B") {
		v.add("starved", "run %s failed and was never started: %s", r.ID, p)
	}
}

// granted checks that a lease is as long as it has to be.
func (h History) granted(r *run, e event, v *Violations) {
	var until, at time.Time
	var want time.Duration
	switch ev := e.Event.(type) {
	case domain.RunClaimed:
		until, want = ev.LeaseUntil, h.Settings.DispatchLease
	case domain.RunStarted:
		until, want = ev.LeaseUntil, h.Settings.ExecutionLease
		if ev.Deadline != nil { // the attempt ends first
			return
		}
	default:
		return
	}
	// An event that waited for its row is dated later than its transaction.
	at = e.at
	if have := until.Sub(at); have < want-h.Settings.slack() {
		v.add("short lease", "run %s version %d: %s, want %s", r.ID, e.version, have, want)
	}
}
