package eventstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Status is what the database says of itself.
type Status struct {
	Now    time.Time
	Schema int64 // version of the last migration
	Era    int   // the present history
}

// Index: eras_pkey; the migrations are few.
const selectStatus = `
SELECT clock_timestamp(), (SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied), (SELECT coalesce(max(era), 0) FROM eras)`

// Status reads it.
func (s *Store) Status(ctx context.Context) (Status, error) {
	var st Status
	if err := s.loops.QueryRow(ctx, selectStatus).Scan(&st.Now, &st.Schema, &st.Era); err != nil {
		return st, fmt.Errorf("read status: %w", err)
	}
	st.Now = st.Now.UTC()
	return st, nil
}

// Era is a history of the database without forks.
type Era struct {
	Number           int
	SystemIdentifier string
	Timeline         int64
	RaisedAt         time.Time
	Reason           string
}

// Index: eras_pkey.
const selectEras = `SELECT era, system_identifier, timeline, raised_at, reason FROM eras ORDER BY era`

// Eras lists the histories that the log was written in, the present one last.
func (s *Store) Eras(ctx context.Context) ([]Era, error) {
	rows, err := s.loops.Query(ctx, selectEras)
	if err != nil {
		return nil, fmt.Errorf("list eras: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Era, error) {
		e, err := pgx.RowToStructByPos[Era](row)
		e.RaisedAt = e.RaisedAt.UTC()
		return e, err
	})
}
