package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

const sweepPage = 5000

func (k *Keeper) dropOutputs(ctx context.Context) (dropped int, err error) {
	spans, err := k.store.Spans(ctx)
	if err != nil || spans.Outputs == nil {
		return 0, err
	}
	var at eventstore.OutputKey
	for {
		n, next, done, err := k.store.DropOutputs(ctx, at, *spans.Outputs, sweepPage)
		dropped += n
		if err != nil || done {
			return dropped, err
		}
		at = next
	}
}

// The rows of retired runs. A month that came back has rows that stay: those
// whose stream is there. Index: run_summaries_pkey and run_outputs_pkey; the
// primary keys of the partitions.
const (
	sweepSummaries = `
WITH p AS MATERIALIZED (
  SELECT s.run_id, EXISTS (SELECT FROM events e WHERE e.category = 'run' AND e.stream_id = s.run_id AND e.version = 1) AS stays
    FROM run_summaries s WHERE s.run_id > $1 AND s.run_id < $2 ORDER BY s.run_id LIMIT $3),
d AS (DELETE FROM run_summaries s USING p WHERE s.run_id = p.run_id AND NOT p.stays)
SELECT run_id FROM p ORDER BY run_id DESC LIMIT 1`
	sweepOutputs = `
WITH p AS MATERIALIZED (
  SELECT DISTINCT o.run_id FROM run_outputs o WHERE o.run_id > $1 AND o.run_id < $2 ORDER BY o.run_id LIMIT $3),
d AS (DELETE FROM run_outputs o USING p WHERE o.run_id = p.run_id AND NOT EXISTS (SELECT FROM events e WHERE e.category = 'run' AND e.stream_id = p.run_id AND e.version = 1))
SELECT run_id FROM p ORDER BY run_id DESC LIMIT 1`
)

// sweep removes what is left of retired runs in the read models, of every month
// that the log has let go of: a pass that was killed or a rebuild under way at
// the time may have left some.
func (k *Keeper) sweep(ctx context.Context) error {
	months, err := k.store.RetiredMonths(ctx)
	if err != nil {
		return err
	}
	for _, m := range months {
		if m.DroppedAt == nil {
			continue
		}
		for _, sql := range []string{sweepSummaries, sweepOutputs} {
			if err := k.sweepTable(ctx, sql, m.Month); err != nil {
				return fmt.Errorf("sweep rows of %s: %w", m.Name(), err)
			}
		}
	}
	return nil
}

func (k *Keeper) sweepTable(ctx context.Context, sql string, month time.Time) error {
	at, end := domain.FirstID(month), domain.FirstID(month.AddDate(0, 1, 0))
	for {
		var last uuid.UUID
		err := k.store.Pool().QueryRow(ctx, sql, at, end, sweepPage).Scan(&last)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		at = last
	}
}
