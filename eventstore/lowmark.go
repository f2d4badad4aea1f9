package eventstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// LowMark tells what the log has let go of: whole months of finished runs, after
// they were exported. The zero LowMark means that nothing is gone. Jobs and their
// definitions are never let go of.
type LowMark struct {
	Position int64     `json:"position"`    // up to here events may be missing; above, all are there
	At       time.Time `json:"at,omitzero"` // of the newest event that is gone: what was later is complete
	Months   int       `json:"months"`      // how many are gone
}

// RetiredError says that events which were asked for are no longer in the log.
type RetiredError struct {
	Low   LowMark
	Month *RetiredMonth // where they are; nil if it may be several months
}

func (e *RetiredError) Error() string {
	if m := e.Month; m != nil {
		return fmt.Sprintf("the log has let go of the runs of %s at %s: they are in %s (sha256 %s), written to %s on %s",
			m.Name(), m.DroppedAt.Format(time.RFC3339), m.File, m.SHA256, m.Directory, m.Host)
	}
	return fmt.Sprintf("the log no longer holds all events up to position %d (%s): older ones are in the exports that `daybook retention status` lists; "+
		"go on after %d, or begin without a position for what is kept", e.Low.Position, e.Low.At.Format(time.RFC3339), e.Low.Position)
}

// Index: none; the table has a row a month.
const selectLowMark = `
SELECT coalesce(max(position), 0), max(newest_at), count(DISTINCT month) FROM retired_months WHERE dropped_at IS NOT NULL`

// LowMark tells what the log has let go of.
func (s *Store) LowMark(ctx context.Context) (LowMark, error) {
	var m LowMark
	var at *time.Time
	if err := s.loops.QueryRow(ctx, selectLowMark).Scan(&m.Position, &at, &m.Months); err != nil {
		return m, fmt.Errorf("read low mark: %w", err)
	}
	if at != nil {
		m.At = at.UTC()
	}
	return m, nil
}

// Index: none; the table has a row a month.
const selectUnread = `
SELECT EXISTS (SELECT FROM retired_months m WHERE m.dropped_at IS NOT NULL AND m.position > $2 AND NOT daybook_has_read($1, m))`

// checkKept reports what is gone in front of a cursor.
func (s *Store) checkKept(ctx context.Context, c Cursor) error {
	var unread bool
	if err := s.loops.QueryRow(ctx, selectUnread, c, c.Low).Scan(&unread); err != nil {
		return fmt.Errorf("read low mark: %w", err)
	}
	if !unread {
		return nil
	}
	low, err := s.LowMark(ctx)
	if err != nil {
		return err
	}
	return &RetiredError{Low: low}
}

// RetiredMonth is the export of a month of runs.
type RetiredMonth struct {
	Month      time.Time  `json:"month"`
	SHA256     string     `json:"sha256"`
	File       string     `json:"file"`
	Directory  string     `json:"directory"`
	Host       string     `json:"host"`
	Runs       int64      `json:"runs"`
	Events     int64      `json:"events"`
	Bytes      int64      `json:"bytes"`
	NewestAt   time.Time  `json:"newest_at"` // of its events
	Position   int64      `json:"position"`  // the highest of its events
	ExportedAt time.Time  `json:"exported_at"`
	ExportedBy string     `json:"exported_by"`
	VerifiedAt *time.Time `json:"verified_at,omitempty"`
	DroppedAt  *time.Time `json:"dropped_at,omitempty"` // nil: the log still has it
	DroppedBy  string     `json:"dropped_by,omitempty"`
}

// Name is the month as people write it: 2025-10.
func (m RetiredMonth) Name() string { return m.Month.Format("2006-01") }

const retiredColumns = `month, sha256, file, directory, host, runs, events, bytes, newest_at, position, exported_at, exported_by, verified_at, dropped_at, coalesce(dropped_by, '')`

func scanRetired(row pgx.CollectableRow) (RetiredMonth, error) {
	m, err := pgx.RowToStructByPos[RetiredMonth](row)
	m.NewestAt, m.ExportedAt = m.NewestAt.UTC(), m.ExportedAt.UTC()
	for _, t := range []*time.Time{m.VerifiedAt, m.DroppedAt} {
		if t != nil {
			*t = t.UTC()
		}
	}
	return m, err
}

// Index: none; the table has a row a month.
const selectRetired = `SELECT ` + retiredColumns + ` FROM retired_months ORDER BY month, exported_at`

// RetiredMonths lists the exports, those that were dropped from the log and
// those that were not, in the order of their months.
func (s *Store) RetiredMonths(ctx context.Context) ([]RetiredMonth, error) {
	rows, err := s.loops.Query(ctx, selectRetired)
	if err != nil {
		return nil, fmt.Errorf("read retired months: %w", err)
	}
	out, err := pgx.CollectRows(rows, scanRetired)
	if err != nil {
		return nil, fmt.Errorf("read retired months: %w", err)
	}
	return out, nil
}

// Index: retired_months_pkey.
const selectRetiredOf = `SELECT ` + retiredColumns + ` FROM retired_months
 WHERE month = date_trunc('month', $1::timestamptz AT TIME ZONE 'UTC')::date AND dropped_at IS NOT NULL ORDER BY dropped_at DESC LIMIT 1`

// Retired tells whether runs of that instant are no longer in the log: the error
// is then a *RetiredError that names where they are, and otherwise nil.
func (s *Store) Retired(ctx context.Context, at time.Time) error {
	rows, err := s.loops.Query(ctx, selectRetiredOf, at)
	if err != nil {
		return fmt.Errorf("read retired months: %w", err)
	}
	m, err := pgx.CollectExactlyOneRow(rows, scanRetired)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read retired months: %w", err)
	}
	low, err := s.LowMark(ctx)
	if err != nil {
		return err
	}
	return &RetiredError{Low: low, Month: &m}
}
