package eventstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Engine is a replica of the engine.
type Engine struct {
	ID      string
	Roles   string // separated by commas
	Version string
	Host    string
	SeenAt  time.Time
}

// Index: none; the table is small.
const selectEngines = `SELECT engine_id, roles, version, host, seen_at FROM engines WHERE seen_at > now() - $1::interval ORDER BY engine_id`

// Engines lists the engines that spoke within Silence.
func (s *Store) Engines(ctx context.Context) ([]Engine, error) {
	rows, err := s.loops.Query(ctx, selectEngines, Silence)
	if err != nil {
		return nil, fmt.Errorf("list engines: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Engine, error) {
		e, err := pgx.RowToStructByPos[Engine](row)
		e.SeenAt = e.SeenAt.UTC()
		return e, err
	})
}
