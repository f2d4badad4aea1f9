// Package evidence answers for the past from the log: what a schedule implied,
// what became of each of its instants and why, and whether the history and the
// rows beside it agree.
//
// Nothing here trusts what it is to prove. Expected instants are computed from
// the definitions as they were recorded, version by version, never from the
// ledger of slots; runs are folded from their events.
package evidence

import (
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

// Auditor answers from the log. It is safe for concurrent use.
type Auditor struct {
	store  *eventstore.Store
	reader *projections.Reader

	dispatches Dispatches
}

// New makes an auditor.
func New(store *eventstore.Store) *Auditor {
	return &Auditor{store: store, reader: projections.NewReader(store)}
}

// Asking makes Verify ask for the dispatches of claims too. Nil: it does not.
func (a *Auditor) Asking(d Dispatches) *Auditor {
	a.dispatches = d
	return a
}
