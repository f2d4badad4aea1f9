package eventstore

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// One statement sees one snapshot, in which a live run lies in one of the tables.
// Index: the primary keys of the four.
const selectLive = `
SELECT u.r FROM unnest($1::uuid[]) AS u(r)
 WHERE EXISTS (SELECT 1 FROM claims c WHERE c.run_id = u.r) OR EXISTS (SELECT 1 FROM due_runs d WHERE d.run_id = u.r)
    OR EXISTS (SELECT 1 FROM waiting_runs w WHERE w.run_id = u.r) OR EXISTS (SELECT 1 FROM parked_runs p WHERE p.run_id = u.r)`

// LiveRuns tells which of the runs are not final.
func (s *Store) LiveRuns(ctx context.Context, runs []uuid.UUID) (map[uuid.UUID]bool, error) {
	rows, err := s.loops.Query(ctx, selectLive, runs)
	if err != nil {
		return nil, fmt.Errorf("look for live runs: %w", err)
	}
	live := map[uuid.UUID]bool{}
	found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	for _, run := range found {
		live[run] = true
	}
	return live, err
}
