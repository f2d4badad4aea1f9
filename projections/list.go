package projections

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
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

// A page looks at a few rows for each that it may return, and unless that fills it
// at so many: of an index that holds what is compared, or of
// the table.
const (
	examinedIndexed = 3_000
	examinedRows    = 1_000
)

// examined is up to how many rows a page of this listing looks at one by one.
func (l *listing) examined() int {
	if l.scope == ofErrors {
		return examinedIndexed
	}
	return examinedRows
}

// ListRuns lists runs from the projection. The error is a *FilterError if the
// filter is at fault.
func (r *Reader) ListRuns(ctx context.Context, f RunFilter) (RunPage, error) {
	l, err := f.prepare()
	if err != nil {
		return RunPage{}, err
	}
	if l.tagLeft != "" {
		tagged, err := r.tagged(ctx, l.tagLeft)
		if err != nil {
			return RunPage{}, err
		}
		l.narrow(tagged)
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

// Index: job_tags_pkey.
const selectTagged = `SELECT job_id FROM job_tags WHERE tag = $1 ORDER BY job_id LIMIT $2`

// tagged gives the jobs that bear the tag, as many as tell that there are more
// than a few.
func (r *Reader) tagged(ctx context.Context, tag string) ([]uuid.UUID, error) {
	rows, err := r.store.Pool().Query(ctx, selectTagged, tag, fewTagged+1)
	if err != nil {
		return nil, fmt.Errorf("read jobs with tag %q: %w", tag, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("read jobs with tag %q: %w", tag, err)
	}
	return ids, nil
}

// from is the runs of the listing in order, their columns as given. With states
// it is the merge of one index range a state.
//
// Where each range begins is written as a row of the index's columns, and so is
// the order: no other index serves either, so no plan made without the values
// can go through all runs of the key to find those of a job. Where it ends is not
// a condition of the scan, which would read on for as long as the first column is
// the same: what lies behind the end counts towards the limit, too, and is left
// out afterwards. A run id begins with the instant's millisecond; the instants
// themselves sort out the rest.
//
// Index: run_summaries_pkey or run_summaries_errors, else that of the scope.
func (l *listing) from(columns string) (sql string, args []any) {
	args = []any{l.below, l.floor, l.until, l.since}
	const instants = "r.scheduled_at < $3 AND r.scheduled_at >= $4"
	if l.states == nil {
		return "SELECT " + columns + " FROM run_summaries r WHERE r.run_id < $1 AND r.run_id >= $2 AND " + instants + " ORDER BY r.run_id DESC LIMIT $5", args
	}
	var ranges, which string // one range each of ranges, of the rows that are such
	var columnsOf, valuesOf, order string
	if l.scope == ofErrors {
		which, columnsOf, valuesOf = anError+" AND ", anError, "true"
		order = anError + " DESC"
	} else {
		args = append(args, l.states)
		ranges, columnsOf, valuesOf, order = "unnest($6::text[]) AS s(wanted), LATERAL ", "r.state", "s.wanted", "r.state DESC"
	}
	switch l.scope {
	case ofJobs:
		ranges = "unnest($7::uuid[]) AS j(id), " + ranges
		columnsOf, valuesOf, order = "r.job_id, "+columnsOf, "j.id, "+valuesOf, "r.job_id DESC, "+order
		args = append(args, l.jobs)
	case ofKind:
		columnsOf, valuesOf, order = "r.kind, "+columnsOf, "$7, "+valuesOf, "r.kind DESC, "+order
		args = append(args, l.Kind)
	case ofQueue:
		columnsOf, valuesOf, order = "r.queue, "+columnsOf, "$7, "+valuesOf, "r.queue DESC, "+order
		args = append(args, l.Queue)
	case ofLane:
		columnsOf, valuesOf, order = "r.queue, r.kind, "+columnsOf, "$7, $8, "+valuesOf, "r.queue DESC, r.kind DESC, "+order
		args = append(args, l.Queue, l.Kind)
	case everywhere, ofErrors:
	}
	inside := "(ROW(" + columnsOf + ") = ROW(" + valuesOf + ") AND r.run_id >= $2)"
	return "SELECT " + columns + " FROM " + ranges + "(SELECT " + columns + ", " + inside + " AS inside FROM run_summaries r" +
		" WHERE " + which + "(" + columnsOf + ", r.run_id) < (" + valuesOf + ", $1) AND (NOT " + inside + " OR " + instants + ")" +
		" ORDER BY " + order + ", r.run_id DESC LIMIT $5) r WHERE r.inside ORDER BY r.run_id DESC LIMIT $5", args
}

// anError is what run_summaries_errors begins with.
const anError = "(r.error_type || r.error_message <> '')"

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
func (l *listing) search(limit int) (sql string, args []any) {
	var b strings.Builder
	rows, args := l.from("r.run_id, r.state, r.job_id, r.queue, r.kind, r.error_type, r.error_message")
	args = with(args, limit)
	n := len(args)
	fmt.Fprintf(&b, `
WITH c AS MATERIALIZED (
  SELECT c.run_id, ($%d = '' OR c.queue = $%d) AND ($%d = '' OR c.kind = $%d)
         AND ($%d = '' OR c.job_id IN (SELECT t.job_id FROM job_tags t WHERE t.tag = $%d))
         AND ($%d = '' OR strpos(lower(c.error_type || ' ' || c.error_message), lower($%d)) > 0)
         AND ($%d::text[] IS NULL OR c.state = ANY($%d)) AS hit
    FROM (%s) c)
SELECT (SELECT count(*) FROM c), (SELECT c.run_id FROM c ORDER BY c.run_id LIMIT 1),
       ARRAY (SELECT c.run_id FROM c WHERE c.hit ORDER BY c.run_id DESC LIMIT $%d)`, n+1, n+1, n+2, n+2, n+3, n+3, n+4, n+4, n+5, n+5, rows, n+6)
	var states []domain.State // still to be compared
	if l.scope == ofErrors {
		states = l.states
	}
	return b.String(), append(args, l.queueLeft, l.kindLeft, l.tagLeft, l.Text, states, l.Limit+1)
}

// Index: run_summaries_pkey.
var selectSummaries = "SELECT " + summaryColumns + " FROM run_summaries WHERE run_id = ANY($1) ORDER BY run_id DESC"

func (r *Reader) searchRuns(ctx context.Context, l *listing, p *RunPage) (more uuid.UUID, err error) {
	oneSnapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = inTx(ctx, r.store.Pool(), oneSnapshot, func(tx pgx.Tx) error {
		var seen int
		var last *uuid.UUID
		var ids []uuid.UUID
		for limit := min(4*(l.Limit+1), l.examined()); ; limit = l.examined() {
			sql, args := l.search(limit)
			if err := tx.QueryRow(ctx, sql, args...).Scan(&seen, &last, &ids); err != nil {
				return err
			}
			if seen < limit || len(ids) > l.Limit || limit == l.examined() {
				break
			}
		}
		rows, err := tx.Query(ctx, selectSummaries, ids)
		if err != nil {
			return err
		}
		if p.Runs, err = pgx.CollectRows(rows, scanSummary); err != nil {
			return err
		}
		if more = p.cut(l.Limit); more == uuid.Nil && seen == l.examined() {
			more = *last
		}
		return nil
	})
	return more, err
}
