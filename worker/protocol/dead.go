package protocol

import (
	"time"

	"github.com/google/uuid"
)

// DeadDispatch is a message in DeadStream: dispatches of one lane that the broker refuses for good. Their pack is
// parked in the outbox and their runs are released for another claim, so nothing is lost; the cause needs somebody.
// It is told at least once if the engine that parked them lives on; the outbox is what counts.
type DeadDispatch struct {
	Queue      string    `json:"queue"`
	Kind       string    `json:"kind"`
	Reason     string    `json:"reason"`    // the broker's
	ParkedAt   time.Time `json:"parked_at"` // RFC 3339, UTC
	Pack       uuid.UUID `json:"pack"`      // as `daybook outbox status` shows it
	Dispatches []Hint    `json:"dispatches"`
}

// MaxDead is the most hints in a DeadDispatch; more go into several.
const MaxDead = 500
