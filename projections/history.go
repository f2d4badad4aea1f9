package projections

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// HistoryEvent is an event of a job or a run as people read it.
type HistoryEvent struct {
	StreamID    uuid.UUID       `json:"stream_id"`
	Version     int             `json:"version"`
	Position    int64           `json:"position"`
	Era         int             `json:"era"`
	Type        string          `json:"type"`
	At          time.Time       `json:"at"`
	Actor       string          `json:"actor"`
	Correlation *uuid.UUID      `json:"correlation,omitempty"`
	Causation   *uuid.UUID      `json:"causation,omitempty"`
	Data        json.RawMessage `json:"data"`

	// Event is the decoded event; nil, and Problem says why, if this binary does
	// not know it.
	Event   domain.Event `json:"-"`
	Problem string       `json:"problem,omitempty"`
}

func historyEvent(rec eventstore.Recorded) HistoryEvent {
	h := HistoryEvent{
		StreamID: rec.StreamID, Version: rec.Version, Position: rec.Position, Era: rec.Era, Type: rec.Type, At: rec.At,
		Actor: rec.Actor, Correlation: rec.Correlation, Causation: rec.Causation, Data: rec.Data,
	}
	var err error
	if h.Event, err = rec.Event(); err != nil {
		h.Problem = err.Error()
	}
	return h
}

// RunEvents gives the run's events in order; eventstore.ErrNotFound if there are
// none.
func (r *Reader) RunEvents(ctx context.Context, id uuid.UUID) ([]HistoryEvent, error) {
	recs, err := r.store.ReadStream(ctx, domain.CategoryRun, id)
	if err != nil {
		return nil, r.goneOr(ctx, id, err)
	}
	out := make([]HistoryEvent, len(recs))
	for i, rec := range recs {
		out[i] = historyEvent(rec)
	}
	return out, nil
}

// Index: events_job_pkey, backwards.
const selectHistory = `SELECT ` + eventColumns + ` FROM events e
 WHERE e.category = 'job' AND e.stream_id = $1 AND e.version < $2 ORDER BY e.version DESC LIMIT $3`

// JobHistory gives up to limit events of the job, the newest first: those before
// the given version, or with 0 the last ones. Every version of the definition is
// among them. eventstore.ErrNotFound if there never was a job of that name.
func (r *Reader) JobHistory(ctx context.Context, name string, before, limit int) ([]HistoryEvent, error) {
	if limit < 0 || limit > MaxPage {
		return nil, &FilterError{"limit", fmt.Sprintf("%d is not between 1 and %d", limit, MaxPage)}
	}
	if limit == 0 {
		limit = standardPage
	}
	bound := before
	if before == 0 {
		bound = 1<<31 - 1
	}
	rows, err := r.store.Pool().Query(ctx, selectHistory, jobID(name), bound, limit)
	if err != nil {
		return nil, fmt.Errorf("read history of job %q: %w", name, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (HistoryEvent, error) {
		rec, err := scanRecorded(row)
		return historyEvent(rec), err
	})
	if err != nil {
		return nil, fmt.Errorf("read history of job %q: %w", name, err)
	}
	if len(out) == 0 && before == 0 {
		return nil, fmt.Errorf("job %q: %w", name, eventstore.ErrNotFound)
	}
	return out, nil
}

// Index: events_job_pkey; one stream.
const selectCaused = `SELECT ` + eventColumns + ` FROM events e
 WHERE e.category = 'job' AND e.stream_id = $1 AND e.causation = $2 ORDER BY e.version`

// JobEventsCausedBy gives the events of the job that have that cause, in order.
func (r *Reader) JobEventsCausedBy(ctx context.Context, name string, cause uuid.UUID) ([]HistoryEvent, error) {
	rows, err := r.store.Pool().Query(ctx, selectCaused, jobID(name), cause)
	if err != nil {
		return nil, fmt.Errorf("read history of job %q: %w", name, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (HistoryEvent, error) {
		rec, err := scanRecorded(row)
		return historyEvent(rec), err
	})
	if err != nil {
		return nil, fmt.Errorf("read history of job %q: %w", name, err)
	}
	return out, nil
}
