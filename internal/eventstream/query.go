package eventstream

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

// Log is what is read. *eventstore.Store has it.
type Log interface {
	Read(ctx context.Context, c eventstore.Cursor, limit int) ([]eventstore.Recorded, eventstore.Cursor, error)
	After(ctx context.Context, position int64) (eventstore.Cursor, error)
	End(ctx context.Context) (eventstore.Cursor, error)
	LowMark(ctx context.Context) (eventstore.LowMark, error)
	RunsOfJob(ctx context.Context, job uuid.UUID, runs []uuid.UUID) ([]uuid.UUID, error)
}

// Event is an entry of the log as it stands there.
type Event struct {
	Position    int64           `json:"position"`
	Era         int             `json:"era"`
	Category    domain.Category `json:"category"`
	StreamID    uuid.UUID       `json:"stream_id"`
	Version     int             `json:"version"`
	Type        string          `json:"type"`
	At          time.Time       `json:"at"`
	Actor       string          `json:"actor"`
	Correlation *uuid.UUID      `json:"correlation,omitempty"`
	Causation   *uuid.UUID      `json:"causation,omitempty"`
	Data        json.RawMessage `json:"data"`
}

// NewEvent makes the form in which an entry is shown.
func NewEvent(r eventstore.Recorded) Event {
	return Event{
		Position: r.Position, Era: r.Era, Category: r.Category, StreamID: r.StreamID, Version: r.Version, Type: r.Type,
		At: r.At, Actor: r.Actor, Correlation: r.Correlation, Causation: r.Causation, Data: r.Data,
	}
}

// Query asks for a page of the log. Conditions that are set must all hold.
type Query struct {
	From         eventstore.Cursor
	Types        []string // as stored, or as of CloudEvents
	Streams      []uuid.UUID
	Job          string    // the job of this name and its runs
	Since, Until time.Time // both included
	Limit        int       // events at most, up to MaxLimit
	Wait         time.Duration
}

// MaxLimit is the size of the largest page.
const MaxLimit = 500

// Page is what was found. There may be few events or none, and more to come.
type Page struct {
	Records []eventstore.Recorded
	Next    eventstore.Cursor // where to go on
	More    bool              // the end of the log was not reached
}

// What one page may cost, whatever its filter.
const (
	maxScanned = 1000
	maxBytes   = 8 << 20
)

// Page reads on until it has as many events as were asked for, has looked at very
// many, or is at the end. There it waits, if that is wanted, for an event
// to come, for ctx to end or for done to be closed.
func (q Query) Page(ctx context.Context, log Log, done <-chan struct{}) (Page, error) {
	p := Page{Next: q.From}
	var alarm <-chan time.Time
	if q.Wait > 0 {
		t := time.NewTimer(q.Wait)
		defer t.Stop()
		alarm = t.C
	}
	for scanned, bytes := 0, 0; ; {
		recs, next, more, err := q.read(ctx, log, p.Next, q.Limit-len(p.Records))
		if err != nil {
			return p, err
		}
		scanned += len(recs)
		for _, r := range recs {
			if r.wanted {
				p.Records = append(p.Records, r.Recorded)
				bytes += len(r.Data)
			}
		}
		p.Next, p.More = next, more
		switch {
		case more && len(p.Records) < q.Limit && scanned < maxScanned && bytes < maxBytes:
			continue
		case more || len(p.Records) > 0 || alarm == nil:
			return p, nil
		}
		select {
		case <-ctx.Done():
			return p, ctx.Err()
		case <-done:
			return p, nil
		case <-alarm:
			return p, nil
		case <-time.After(tick):
		}
	}
}

// judged is an entry and whether it was asked for.
type judged struct {
	eventstore.Recorded
	wanted bool
}

// read reads once, and no more than holds as many wanted entries as there is room
// for: a cursor is between two reads, not within one.
func (q Query) read(ctx context.Context, log Log, from eventstore.Cursor, room int) (recs []judged, next eventstore.Cursor, more bool, err error) {
	limit := room
	if q.selective() {
		limit = maxScanned
	}
	for {
		found, next, err := log.Read(ctx, from, limit)
		if err != nil {
			return nil, next, false, err
		}
		if recs, err = q.judge(ctx, log, found); err != nil {
			return nil, next, false, err
		}
		cut, n := 0, 0
		for ; cut < len(recs) && n < room; cut++ {
			if recs[cut].wanted {
				n++
			}
		}
		if rest := recs[cut:]; !slices.ContainsFunc(rest, func(r judged) bool { return r.wanted }) {
			return recs, next, len(found) == limit, nil
		}
		limit = cut
	}
}

func (q Query) selective() bool {
	return len(q.Types) > 0 || len(q.Streams) > 0 || q.Job != "" || !q.Since.IsZero() || !q.Until.IsZero()
}

func (q Query) judge(ctx context.Context, log Log, recs []eventstore.Recorded) ([]judged, error) {
	of, err := q.ofJob(ctx, log, recs)
	if err != nil {
		return nil, err
	}
	out := make([]judged, len(recs))
	for i, r := range recs {
		unwanted := len(q.Streams) > 0 && !slices.Contains(q.Streams, r.StreamID) ||
			len(q.Types) > 0 && !slices.Contains(q.Types, r.Type) && !slices.Contains(q.Types, projections.CloudEventType(r)) ||
			!q.Since.IsZero() && r.At.Before(q.Since) || !q.Until.IsZero() && r.At.After(q.Until) ||
			q.Job != "" && !of[r.StreamID]
		out[i] = judged{r, !unwanted}
	}
	return out, nil
}

// ofJob tells which streams among the records are the job's: its own and those
// of its runs.
func (q Query) ofJob(ctx context.Context, log Log, recs []eventstore.Recorded) (map[uuid.UUID]bool, error) {
	if q.Job == "" {
		return nil, nil
	}
	id := domain.JobID(q.Job)
	of := map[uuid.UUID]bool{id: true}
	var runs []uuid.UUID
	for _, r := range recs {
		if r.Category == domain.CategoryRun {
			runs = append(runs, r.StreamID)
		}
	}
	if len(runs) == 0 {
		return of, nil
	}
	found, err := log.RunsOfJob(ctx, id, runs)
	for _, run := range found {
		of[run] = true
	}
	return of, err
}
