package projections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// RunDetail is everything known of one run.
type RunDetail struct {
	RunSummary
	Nominal       string          `json:"nominal,omitempty"`        // the civil time that the instant stands for
	RequestReason string          `json:"request_reason,omitempty"` // given with the request
	Args          json.RawMessage `json:"args,omitempty"`           // where the request gave its own
	LeaseUntil    *time.Time      `json:"lease_until,omitempty"`    // of the open claim, as renewed
	Deadline      *time.Time      `json:"deadline,omitempty"`       // of the running attempt
	ClaimHistory  []Claim         `json:"claim_history"`
	Outputs       []Output        `json:"outputs"` // without their text

	// Problem says why this is not the whole run: an event that this binary does
	// not know or that no legal path has, or a stream that is no longer kept.
	Problem string `json:"problem,omitempty"`
}

// Claim is one claim of a run, from its beginning to what ended it.
type Claim struct {
	ClaimID   uuid.UUID        `json:"claim_id"`
	Attempt   int              `json:"attempt,omitempty"` // 0 if it was not started
	Worker    string           `json:"worker,omitempty"`
	ClaimedAt time.Time        `json:"claimed_at"`
	StartedAt *time.Time       `json:"started_at,omitempty"`
	EndedAt   *time.Time       `json:"ended_at,omitempty"`
	EndedBy   string           `json:"ended_by,omitempty"` // the event's type
	Reason    string           `json:"reason,omitempty"`
	Error     *domain.RunError `json:"error,omitempty"`
	ReadyAt   *time.Time       `json:"ready_at,omitempty"` // when the run is tried again
}

// Output is what an attempt wrote and returned. It is kept for a shorter time
// than the run.
type Output struct {
	Attempt    int             `json:"attempt"`
	Head       []byte          `json:"head,omitempty"`
	Tail       []byte          `json:"tail,omitempty"`
	TotalBytes int64           `json:"total_bytes"`
	Result     json.RawMessage `json:"result,omitempty"`
	Progress   *float32        `json:"progress,omitempty"`
	Message    string          `json:"message,omitempty"`
	UpdatedAt  time.Time       `json:"updated_at"`
}

// Index: run_summaries_pkey.
var selectSummary = "SELECT " + summaryColumns + " FROM run_summaries WHERE run_id = $1"

// Index: claims_pkey.
const selectLease = `SELECT lease_until FROM claims WHERE run_id = $1 AND claim_id = $2`

// Index: run_outputs_pkey.
const (
	selectOutputs = `
SELECT attempt, NULL::bytea, NULL::bytea, total_bytes, result, progress, coalesce(message, ''), updated_at FROM run_outputs WHERE run_id = $1 ORDER BY attempt`
	selectOutput = `
SELECT attempt, head, tail, total_bytes, result, progress, coalesce(message, ''), updated_at FROM run_outputs
 WHERE run_id = $1 AND ($2 = 0 OR attempt = $2) ORDER BY attempt DESC LIMIT 1`
)

// GetRun folds the run from the log: it is there as soon as it is committed, and
// never older than the log. A run whose stream is no longer kept is answered
// from the projection while that has it; then the error is a
// *eventstore.RetiredError. eventstore.ErrNotFound if there is no such run.
func (r *Reader) GetRun(ctx context.Context, id uuid.UUID) (RunDetail, error) {
	recs, err := r.store.ReadStream(ctx, domain.CategoryRun, id)
	if err != nil && !errors.Is(err, eventstore.ErrNotFound) {
		return RunDetail{}, err
	}
	d := foldDetail(id, recs)
	if d.Version == 0 {
		found, err := r.summary(ctx, id)
		if err != nil {
			return RunDetail{}, r.goneOr(ctx, id, err)
		}
		d.RunSummary = found
		if d.Problem == "" {
			d.Problem = "the run's events are no longer kept"
		}
	}
	if d.ClaimID != nil {
		err := r.store.Pool().QueryRow(ctx, selectLease, id, *d.ClaimID).Scan(&d.LeaseUntil)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) { // the claim may have ended meanwhile
			return d, fmt.Errorf("read lease of run %s: %w", id, err)
		}
		d.LeaseUntil = inUTC(d.LeaseUntil)
	}
	rows, err := r.store.Pool().Query(ctx, selectOutputs, id)
	if err != nil {
		return d, fmt.Errorf("read outputs of run %s: %w", id, err)
	}
	if d.Outputs, err = pgx.CollectRows(rows, scanOutput); err != nil {
		return d, fmt.Errorf("read outputs of run %s: %w", id, err)
	}
	return d, nil
}

// goneOr turns the error that there is no such run into one that tells where it
// is, if the log has let go of the month that it would be in.
func (r *Reader) goneOr(ctx context.Context, run uuid.UUID, err error) error {
	if !errors.Is(err, eventstore.ErrNotFound) {
		return err
	}
	if gone := r.store.Retired(ctx, domain.InstantOf(run)); gone != nil {
		return gone
	}
	return err
}

// RunAsOf is the run as it stood at an instant, without outputs and leases.
// eventstore.ErrNotFound if it did not exist yet.
func (r *Reader) RunAsOf(ctx context.Context, id uuid.UUID, at time.Time) (RunDetail, error) {
	recs, err := r.store.ReadStream(ctx, domain.CategoryRun, id)
	if err != nil {
		return RunDetail{}, r.goneOr(ctx, id, err)
	}
	n := 0
	for n < len(recs) && !recs[n].At.After(at) {
		n++
	}
	if n == 0 {
		return RunDetail{}, fmt.Errorf("run %s at %s: %w", id, at.UTC().Format(time.RFC3339Nano), eventstore.ErrNotFound)
	}
	return foldDetail(id, recs[:n]), nil
}

// RunOutput is what an attempt wrote and returned, with attempt 0 the last one
// that did. eventstore.ErrNotFound if there is nothing or it is no longer kept.
func (r *Reader) RunOutput(ctx context.Context, id uuid.UUID, attempt int) (Output, error) {
	rows, err := r.store.Pool().Query(ctx, selectOutput, id, attempt)
	if err != nil {
		return Output{}, fmt.Errorf("read output of run %s: %w", id, err)
	}
	o, err := pgx.CollectExactlyOneRow(rows, scanOutput)
	if errors.Is(err, pgx.ErrNoRows) {
		return o, fmt.Errorf("output of run %s: %w", id, eventstore.ErrNotFound)
	}
	if err != nil {
		return o, fmt.Errorf("read output of run %s: %w", id, err)
	}
	return o, nil
}

func scanOutput(row pgx.CollectableRow) (Output, error) {
	o, err := pgx.RowToStructByPos[Output](row)
	o.UpdatedAt = o.UpdatedAt.UTC()
	return o, err
}

func (r *Reader) summary(ctx context.Context, id uuid.UUID) (RunSummary, error) {
	rows, err := r.store.Pool().Query(ctx, selectSummary, id)
	if err != nil {
		return RunSummary{}, fmt.Errorf("read run %s: %w", id, err)
	}
	s, err := pgx.CollectExactlyOneRow(rows, scanSummary)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, fmt.Errorf("run %s: %w", id, eventstore.ErrNotFound)
	}
	if err != nil {
		return s, fmt.Errorf("read run %s: %w", id, err)
	}
	return s, nil
}

func foldDetail(id uuid.UUID, recs []eventstore.Recorded) RunDetail {
	d := RunDetail{RunSummary: RunSummary{RunID: id}, ClaimHistory: []Claim{}, Outputs: []Output{}}
	for _, rec := range recs {
		e, err := runEvent(rec)
		if err == nil {
			err = d.apply(e, rec.At)
		}
		if err != nil {
			d.Problem = fmt.Sprintf("shown as of version %d of %d: event %d: %v", d.Version, recs[len(recs)-1].Version, rec.Version, err)
			break
		}
		d.tell(e, stored(rec.At))
	}
	return d
}

// tell adds what the summary does not keep.
func (d *RunDetail) tell(e domain.RunEvent, at time.Time) {
	switch e := e.(type) {
	case domain.RunScheduled:
		d.Nominal, d.RequestReason, d.Args = e.Nominal, e.Reason, e.Args
	case domain.RunClaimed:
		d.ClaimHistory = append(d.ClaimHistory, Claim{ClaimID: e.ClaimID, ClaimedAt: at})
	case domain.RunStarted:
		c := d.claim()
		c.Attempt, c.Worker, c.StartedAt, d.Deadline = e.Attempt, e.Worker, &at, e.Deadline
	case domain.RunReleased:
		d.endClaim(e, at, e.Reason, nil, e.ReadyAt)
	case domain.RunRetryScheduled:
		d.endClaim(e, at, "", &e.Error, e.ReadyAt)
	case domain.RunSnoozed:
		d.endClaim(e, at, "", nil, e.ReadyAt)
	case domain.RunInterrupted:
		d.endClaim(e, at, e.Reason, nil, e.ReadyAt)
	case domain.RunSucceeded:
		d.endClaim(e, at, "", nil, time.Time{})
	case domain.RunFailed:
		d.endClaim(e, at, "", &e.Error, time.Time{})
	case domain.RunCancelled:
		if e.ClaimID != nil {
			d.endClaim(e, at, e.Reason, nil, time.Time{})
		}
	case domain.RunCancelRequested, domain.RunSkipped:
	}
}

func (d *RunDetail) claim() *Claim { return &d.ClaimHistory[len(d.ClaimHistory)-1] }

func (d *RunDetail) endClaim(e domain.RunEvent, at time.Time, reason string, err *domain.RunError, ready time.Time) {
	c := d.claim()
	c.EndedAt, c.EndedBy, c.Reason, c.Error = &at, e.EventType(), reason, err
	if !ready.IsZero() {
		c.ReadyAt = new(stored(ready))
	}
	d.Deadline = nil
}
