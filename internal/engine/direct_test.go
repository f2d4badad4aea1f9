package engine

import (
	"testing"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/worker/protocol"
)

// ask asks an engine for runs, as programs do.
func (b *books) ask(n int) {
	b.t.Helper()
	items := make([]protocol.EnqueueItem, n)
	for i := range items {
		items[i] = protocol.EnqueueItem{Job: "report", Key: uuid.NewString()}
	}
	got, err := b.e.service.Enqueue(b.t.Context(), "test", items)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, g := range got {
		if g.Error != nil || !g.Created {
			b.t.Fatal(g)
		}
	}
}

func (b *books) claims() int { return b.count("SELECT count(*) FROM claims") }

// Runs that are claimed as they are made use the same slots as all others: no
// claim is made beyond them, and what is left over waits for the claimer, which
// is told of it.
func TestDirectClaimsSpendTheClaimersCredit(t *testing.T) {
	b := newBooks(t)
	woken := func() bool {
		select {
		case <-b.e.wakeClaims:
			return true
		default:
			return false
		}
	}
	b.worker(4)
	woken()
	b.ask(3)
	if n := b.claims(); n != 3 || woken() {
		t.Errorf("%d claims of 3 runs, with 4 slots free", n)
	}
	b.ask(3)
	if n := b.claims(); n != 4 || !woken() || b.count("SELECT count(*) FROM due_runs") != 2 {
		t.Errorf("%d claims for 4 slots", n)
	}
	if n := b.step(false); n != 4 {
		t.Errorf("%d claims for 4 slots, after a step of the claimer", n)
	}
	b.complete(b.execute(3))
	if n := b.step(false); n != 3 {
		t.Errorf("%d claims when 3 of 4 slots became free for 2 runs", n)
	}
	b.ask(2)
	if n := b.claims(); n != 4 {
		t.Errorf("%d claims for 4 slots: the claimer's are not counted", n)
	}
}

// While the claimer spends the credit, who makes runs leaves them to it.
func TestDirectClaimsDoNotWaitForTheClaimer(t *testing.T) {
	b := newBooks(t)
	b.worker(4)
	b.c.mu.Lock()
	b.ask(1)
	b.c.mu.Unlock()
	if n := b.claims(); n != 0 || b.count("SELECT count(*) FROM due_runs") != 1 {
		t.Errorf("%d claims while the claimer was at work", n)
	}
	if n := b.step(false); n != 1 {
		t.Errorf("%d claims by the claimer", n)
	}
}

// A lane that no worker serves, or that is behind, is left alone.
func TestDirectClaimsOnlyWhereNothingWaits(t *testing.T) {
	b := newBooks(t)
	b.ask(1)
	if n := b.claims(); n != 0 {
		t.Errorf("%d claims without a worker", n)
	}
	b.worker(4)
	b.ask(1)
	if n := b.claims(); n != 0 {
		t.Errorf("%d claims before a run that waits", n)
	}
	if n := b.step(false); n != 2 {
		t.Errorf("%d claims, want those of both runs", n)
	}
}
