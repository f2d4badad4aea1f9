package client

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// Exporting says which events to write.
type Exporting struct {
	Job      string    // empty: all jobs
	From, To time.Time // zero: from the beginning, to now
	After    string    // the place that an earlier export ended at

	// Page is called after each page of the log with the place to go on from; what
	// came before has been written. Nil: nobody wants to know.
	Page func(next string) error
}

// Exported tells what was written and where to go on.
type Exported struct {
	Events int    `json:"events"`
	Next   string `json:"next"`
}

// Export writes events, a line of JSON each, in commit-safe order. What commits
// while it runs is written too, as far as it lies before To; without To it ends
// where the log ended when it got there. After an error it tells how far it came:
// an export can go on from there.
func Export(ctx context.Context, log Log, w io.Writer, e Exporting) (Exported, error) {
	done := Exported{Next: e.After}
	out := json.NewEncoder(w)
	q := EventQuery{From: Place{Cursor: e.After}, Job: e.Job, Since: e.From, Until: e.To}
	for {
		page, err := log.Events(ctx, q)
		if err != nil {
			return done, err
		}
		for _, event := range page.Events {
			if err := out.Encode(event); err != nil {
				return done, err
			}
		}
		done.Events, done.Next = done.Events+len(page.Events), page.Next.Cursor
		q.From = page.Next
		if e.Page != nil {
			if err := e.Page(done.Next); err != nil {
				return done, err
			}
		}
		if !page.More {
			return done, nil
		}
	}
}
