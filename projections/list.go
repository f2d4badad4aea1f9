package projections

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// RunPage is a page of a list, the newest instant first.
type RunPage struct {
	Runs []RunSummary `json:"runs"`

	// Next is the cursor of the next page, empty at the end. A filter that few
	// rows pass can end a page early: as long as there is a cursor there may be
	// more, however few runs came.
	Next string `json:"next,omitempty"`

	// Lag is how far the list is behind the log.
	Lag Lag `json:"lag"`
}

// examined is how many rows a page looks at one by one.
const examined = 10_000

// ListRuns lists runs from the projection. The error is a *FilterError if the
// filter is at fault.
func (r *Reader) ListRuns(ctx context.Context, f RunFilter) (RunPage, error) {
	l, err := f.prepare()
	if err != nil {
		return RunPage{}, err
	}
	var p RunPage
	if p.Lag, err = r.Lag(ctx); err != nil {
		return p, err
	}
	var more uuid.UUID
	if l.selective {
		more, err = r.searchRuns(ctx, &l, &p)
	} else {
		more, err = r.pageOfRuns(ctx, &l, &p)
	}
	if err != nil {
		return RunPage{}, fmt.Errorf("list runs: %w", err)
	}
	if more != uuid.Nil {
		p.Next, err = l.cursorAfter(more)
	}
	return p, err
}

// from is the runs of the listing in order, their columns as given. With states
// it is the merge of one index range a state.
//
// Each range is written as rows of the index's columns, in the order and the
// condition: no other index serves either, so no plan made without the values
// can go through all runs of the key to find those of a job. A run id begins
// with the instant's millisecond; the instants themselves sort out the rest.
//
// Index: run_summaries_pkey, else that of the scope.
func (l *listing) from(columns string) (sql string, args []any) {
	args = []any{l.below, l.floor, l.until, l.since}
	const instants = "r.scheduled_at < $3 AND r.scheduled_at >= $4"
	if l.states == nil {
		return "SELECT " + columns + " FROM run_summaries r WHERE r.run_id < $1 AND r.run_id >= $2 AND " + instants + " ORDER BY r.run_id DESC LIMIT $5", args
	}
	args = append(args, l.states)
	columnsOf, valuesOf, order := "r.state", "s.state", "r.state DESC"
	switch l.scope {
	case ofJob:
		columnsOf, valuesOf, order = "r.job_id, "+columnsOf, "$7, "+valuesOf, "r.job_id DESC, "+order
		args = append(args, jobID(l.Job))
	case ofQueue:
		columnsOf, valuesOf, order = "r.queue, "+columnsOf, "$7, "+valuesOf, "r.queue DESC, "+order
		args = append(args, l.Queue)
	case everywhere:
	}
	return "SELECT r.* FROM unnest($6::text[]) AS s(state), LATERAL (SELECT " + columns + " FROM run_summaries r" +
		" WHERE (" + columnsOf + ", r.run_id) < (" + valuesOf + ", $1) AND (" + columnsOf + ", r.run_id) >= (" + valuesOf + ", $2) AND " + instants +
		" ORDER BY " + order + ", r.run_id DESC LIMIT $5) r ORDER BY r.run_id DESC LIMIT $5", args
}

// with puts the limit in its place among the arguments.
func with(args []any, limit int) []any {
	return append(append(args[:4:4], limit), args[4:]...)
}

func (r *Reader) pageOfRuns(ctx context.Context, l *listing, p *RunPage) (more uuid.UUID, err error) {
	sql, args := l.from(summaryColumns)
	rows, err := r.store.Pool().Query(ctx, sql, with(args, l.Limit+1)...)
	if err != nil {
		return more, err
	}
	if p.Runs, err = pgx.CollectRows(rows, scanSummary); err != nil {
		return more, err
	}
	return p.cut(l.Limit), nil
}

// cut shortens the page to its limit; if there was more, it returns the last id.
func (p *RunPage) cut(limit int) (more uuid.UUID) {
	if len(p.Runs) <= limit {
		return more
	}
	p.Runs = p.Runs[:limit]
	return p.Runs[limit-1].RunID
}

// search looks at a bounded number of rows in the list's order and tells how
// many there were, which was the last, and which of them match.
func (l *listing) search() (sql string, args []any) {
	var b strings.Builder
	rows, args := l.from("r.run_id, r.queue, r.kind, r.error_type, r.error_message")
	args = with(args, examined)
	n := len(args)
	fmt.Fprintf(&b, `
WITH c AS MATERIALIZED (
  SELECT c.run_id, ($%d = '' OR c.queue = $%d) AND ($%d = '' OR c.kind = $%d)
         AND ($%d = '' OR strpos(lower(c.error_type || ' ' || c.error_message), lower($%d)) > 0) AS hit
    FROM (%s) c)
SELECT (SELECT count(*) FROM c), (SELECT c.run_id FROM c ORDER BY c.run_id LIMIT 1),
       ARRAY (SELECT c.run_id FROM c WHERE c.hit ORDER BY c.run_id DESC LIMIT $%d)`, n+1, n+1, n+2, n+2, n+3, n+3, rows, n+4)
	return b.String(), append(args, l.queueLeft, l.Kind, l.Text, l.Limit+1)
}

// Index: run_summaries_pkey.
var selectSummaries = "SELECT " + summaryColumns + " FROM run_summaries WHERE run_id = ANY($1) ORDER BY run_id DESC"

func (r *Reader) searchRuns(ctx context.Context, l *listing, p *RunPage) (more uuid.UUID, err error) {
	sql, args := l.search()
	oneSnapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = inTx(ctx, r.store.Pool(), oneSnapshot, func(tx pgx.Tx) error {
		var seen int
		var last *uuid.UUID
		var ids []uuid.UUID
		if err := tx.QueryRow(ctx, sql, args...).Scan(&seen, &last, &ids); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, selectSummaries, ids)
		if err != nil {
			return err
		}
		if p.Runs, err = pgx.CollectRows(rows, scanSummary); err != nil {
			return err
		}
		if more = p.cut(l.Limit); more == uuid.Nil && seen == examined {
			more = *last
		}
		return nil
	})
	return more, err
}
