package eventstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Encode gives the cursor as opaque text, for people and programs to keep.
func (c Cursor) Encode() string {
	b, err := json.Marshal(c)
	if err != nil {
		return "" // a Cursor holds numbers and text
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor reads what Encode gave.
func ParseCursor(s string) (c Cursor, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return c, fmt.Errorf("place in the log: %w", err)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("place in the log: %w", err)
	}
	return c, c.Validate()
}

// Index: the primary keys of the partitions.
const selectRunsOfJob = `
SELECT e.stream_id FROM unnest($1::uuid[]) AS u(s) JOIN events e ON e.category = 'run' AND e.stream_id = u.s AND e.version = 1
 WHERE e.data->>'job_id' = $2`

// RunsOfJob gives those of the runs that are the job's.
func (s *Store) RunsOfJob(ctx context.Context, job uuid.UUID, runs []uuid.UUID) ([]uuid.UUID, error) {
	slices.SortFunc(runs, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	rows, err := s.loops.Query(ctx, selectRunsOfJob, slices.Compact(runs), job.String())
	if err != nil {
		return nil, fmt.Errorf("find the job's runs: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}
