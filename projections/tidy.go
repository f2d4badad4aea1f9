package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/eventstore"
)

// tidier is a projection that lets go of rows after some time.
type tidier interface {
	// Tidy deletes a batch of them, inside a transaction of whoever holds the
	// checkpoint, and reports whether there may be more.
	Tidy(ctx context.Context, tx pgx.Tx) (more bool, err error)
}

const tidyEvery = time.Minute

// tidy lets the projection delete a batch at a time, between pages.
func (f *Follower) tidy(ctx context.Context, m *member) error {
	p, ok := m.Projection.(tidier)
	if !ok || !m.tidied.IsZero() && time.Since(m.tidied) < tidyEvery {
		return nil
	}
	began, more := time.Now(), false
	now, err := f.writePage(ctx, m, nil, m.at, func(ctx context.Context, tx pgx.Tx, _ []eventstore.Recorded) (_ []Poison, err error) {
		more, err = p.Tidy(ctx, tx)
		return nil, err
	})
	if err != nil {
		m.held = false
		return fmt.Errorf("tidy %s: %w", m.Name(), err)
	}
	m.now, m.saved = now, began
	if !more {
		m.tidied = began
	}
	return nil
}

// tidyBatch is how many rows of a table go at once.
const tidyBatch = 5000

// Tidy implements tidier: buckets go that are older than they are kept, or that
// the log could not make again.
func (p *RunSummaries) Tidy(ctx context.Context, tx pgx.Tx) (more bool, err error) {
	floors, err := scanFloors(tx.QueryRow(ctx, statsBegin))
	if err != nil {
		return false, err
	}
	for _, b := range []struct {
		buckets
		first int64
	}{{laneMinutes, floors.laneMinutes}, {jobMinutes, floors.jobMinutes}, {laneHours, floors.laneHours}, {jobDays, floors.jobDays}} {
		// Index: the table's on the bucket, one end of it.
		sql := fmt.Sprintf("DELETE FROM %[1]s WHERE ctid = ANY (ARRAY (SELECT ctid FROM %[1]s WHERE %[2]s < $1 ORDER BY %[2]s LIMIT $2))", b.table+p.suffix, b.column)
		tag, err := tx.Exec(ctx, sql, time.Unix(b.first, 0), tidyBatch)
		if err != nil {
			return false, fmt.Errorf("%s: %w", b.table, err)
		}
		more = more || tag.RowsAffected() == tidyBatch
	}
	return more, nil
}
