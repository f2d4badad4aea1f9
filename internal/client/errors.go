package client

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// Conflict is a job that cannot be changed because something else owns it.
type Conflict struct {
	Name  string `json:"name"`
	Owner string `json:"owner"` // its source; empty: no file
}

// ConflictError refuses a change as a whole.
type ConflictError struct{ Conflicts []Conflict }

func (e *ConflictError) Error() string {
	var b strings.Builder
	for i, c := range e.Conflicts {
		if i > 0 {
			b.WriteByte('\n')
		}
		owner := "not owned by a file"
		if c.Owner != "" {
			owner = "owned by " + c.Owner
		}
		fmt.Fprintf(&b, "job %q exists and is %s: change it there, or archive it first", c.Name, owner)
	}
	return b.String()
}

// NotFinishedError refuses the retry of a run that may still end by itself.
type NotFinishedError struct {
	Run   uuid.UUID
	State domain.State
}

func (e *NotFinishedError) Error() string {
	return fmt.Sprintf("run %s is %s: only a finished run can be retried", e.Run, e.State)
}

// FinishedError refuses the cancel of a run that has ended.
type FinishedError struct {
	Run   uuid.UUID
	State domain.State
}

func (e *FinishedError) Error() string {
	return fmt.Sprintf("run %s has %s already: too late to cancel", e.Run, e.State)
}
