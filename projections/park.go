package projections

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// blamesRow reports whether the error lies in some row of the page: a data
// exception, a constraint, something too large.
func blamesRow(err error) bool {
	s := sqlState(err)
	return strings.HasPrefix(s, "22") || strings.HasPrefix(s, "23") || strings.HasPrefix(s, "54")
}

// applyInParts halves a page until the event that the database refuses is alone.
func (m *member) applyInParts(ctx context.Context, tx pgx.Tx, page []eventstore.Recorded) ([]Poison, error) {
	if len(page) == 0 {
		return nil, nil
	}
	part, err := tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	poison, err := m.Apply(ctx, part, page)
	if err == nil {
		return poison, part.Commit(ctx)
	}
	if rolled := part.Rollback(ctx); rolled != nil || !blamesRow(err) {
		return nil, errors.Join(err, rolled)
	}
	if len(page) == 1 {
		return []Poison{{Event: page[0], Reason: err}}, nil
	}
	half := len(page) / 2
	first, err := m.applyInParts(ctx, tx, page[:half])
	if err != nil {
		return nil, err
	}
	second, err := m.applyInParts(ctx, tx, page[half:])
	return append(first, second...), err
}

// A stream is parked for its first event that was not applied. Index:
// projection_parked_pkey.
const parkStream = `
INSERT INTO projection_parked (projection, stream_id, category, version, position, reason, at, tried_at)
VALUES ($1, $2, $3, $4, $5, $6, now(), now()) ON CONFLICT DO NOTHING`

func (f *Follower) park(ctx context.Context, tx pgx.Tx, m *member, poison []Poison) error {
	for _, p := range poison {
		e := p.Event
		tag, err := tx.Exec(ctx, parkStream, m.Name(), e.StreamID, e.Category, e.Version, e.Position, p.Reason.Error())
		if err != nil {
			return fmt.Errorf("park stream %s: %w", e.StreamID, err)
		}
		if tag.RowsAffected() > 0 {
			f.log.ErrorContext(ctx, "event cannot be applied, its stream is parked", "projection", m.Name(),
				"stream", e.StreamID, "version", e.Version, "position", e.Position, "type", e.Type, "reason", p.Reason)
		}
	}
	return nil
}

const (
	retryEvery = time.Minute
	retryBatch = 100
)

// Index: projection_parked_tried.
const parkedToRetry = `
SELECT stream_id, category FROM projection_parked WHERE projection = $1 AND tried_at <= now() - $2::interval ORDER BY tried_at LIMIT $3`

// Index: projection_parked_pkey.
const (
	unpark     = `DELETE FROM projection_parked WHERE projection = $1 AND stream_id = $2`
	stayParked = `UPDATE projection_parked SET tried_at = now(), version = $3, position = $4, reason = $5 WHERE projection = $1 AND stream_id = $2`
)

// retryParked tries parked streams again from their beginnings: this binary may
// know more than the one that parked them.
func (f *Follower) retryParked(ctx context.Context, m *member) error {
	if !m.swept.IsZero() && time.Since(m.swept) < retryEvery {
		return nil
	}
	rows, err := f.store.Pool().Query(ctx, parkedToRetry, m.Name(), retryEvery, retryBatch)
	if err != nil {
		return fmt.Errorf("list parked streams: %w", err)
	}
	type parked struct {
		Stream   uuid.UUID
		Category domain.Category
	}
	streams, err := pgx.CollectRows(rows, pgx.RowToStructByPos[parked])
	if err != nil {
		return fmt.Errorf("list parked streams: %w", err)
	}
	for _, s := range streams {
		if err := f.retryStream(ctx, m, s.Category, s.Stream); err != nil {
			return err
		}
	}
	if len(streams) < retryBatch {
		m.swept = time.Now()
	}
	return nil
}

func (f *Follower) retryStream(ctx context.Context, m *member, category domain.Category, stream uuid.UUID) error {
	events, err := f.store.ReadStream(ctx, category, stream)
	if err != nil && !errors.Is(err, eventstore.ErrNotFound) {
		return err
	}
	began := time.Now()
	now, err := f.writePage(ctx, m, events, m.at, func(ctx context.Context, tx pgx.Tx, page []eventstore.Recorded) ([]Poison, error) {
		poison, err := m.applyInParts(ctx, tx, page)
		if err != nil {
			return nil, err
		}
		if len(poison) > 0 {
			p := poison[0]
			_, err = tx.Exec(ctx, stayParked, m.Name(), stream, p.Event.Version, p.Event.Position, p.Reason.Error())
			return nil, err
		}
		f.log.InfoContext(ctx, "parked stream is applied", "projection", m.Name(), "stream", stream)
		_, err = tx.Exec(ctx, unpark, m.Name(), stream)
		return nil, err
	})
	if err != nil {
		m.held = false
		return fmt.Errorf("retry parked stream %s: %w", stream, err)
	}
	m.now, m.saved = now, began
	return nil
}
