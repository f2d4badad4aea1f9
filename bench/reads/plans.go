package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

var discard = slog.New(slog.DiscardHandler)

// large are the tables that grow with the runs.
var large = []string{"events", "run_summaries", "run_slots", "run_keys", "run_outputs", "due_runs"}

// statement is what a request asked the database.
type statement struct {
	sql  string
	args []any
}

// tracer notes statements while it is on.
type tracer struct {
	mu   sync.Mutex
	on   bool
	seen []statement
}

// TraceQueryStart implements pgx.QueryTracer.
func (t *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	t.note(q.SQL, q.Args)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (t *tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (t *tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		t.note(q.SQL, q.Arguments)
	}
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (t *tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (t *tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (t *tracer) note(sql string, args []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.on && reads(sql) {
		t.seen = append(t.seen, statement{sql, args})
	}
}

// reads leaves out what begins and ends transactions.
func reads(sql string) bool {
	sql = strings.TrimSpace(strings.ToLower(sql))
	return strings.HasPrefix(sql, "select") || strings.HasPrefix(sql, "with")
}

// during gives the statements of what is done meanwhile.
func (t *tracer) during(do func() error) ([]statement, error) {
	t.mu.Lock()
	t.on, t.seen = true, nil
	t.mu.Unlock()
	err := do()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on = false
	return t.seen, err
}

// node is one of a plan, as it was carried out.
type node struct {
	Type      string  `json:"Node Type"`
	Relation  string  `json:"Relation Name"`
	Index     string  `json:"Index Name"`
	Rows      float64 `json:"Actual Rows"`
	Loops     float64 `json:"Actual Loops"`
	ByFilter  float64 `json:"Rows Removed by Filter"`
	ByRecheck float64 `json:"Rows Removed by Index Recheck"`
	Plans     []node  `json:"Plans"`
}

// walk visits the node and all below it.
func (n node) walk(depth int, visit func(depth int, n node)) {
	visit(depth, n)
	for _, below := range n.Plans {
		below.walk(depth+1, visit)
	}
}

// visited is how many rows of tables were looked at.
func (n node) visited() (rows int) {
	n.walk(0, func(_ int, n node) {
		if n.Relation != "" {
			rows += int(n.Loops * (n.Rows + n.ByFilter + n.ByRecheck))
		}
	})
	return rows
}

// scansAll names the large tables that are read from end to end.
func (n node) scansAll() (tables []string) {
	n.walk(0, func(_ int, n node) {
		isLarge := slices.ContainsFunc(large, func(t string) bool {
			return n.Relation == t || t == "events" && strings.HasPrefix(n.Relation, "events_")
		})
		if n.Type == "Seq Scan" && n.Loops > 0 && isLarge {
			tables = append(tables, n.Relation)
		}
	})
	return tables
}

// String is the plan without what never ran.
func (n node) String() string {
	var b strings.Builder
	n.walk(1, func(depth int, n node) {
		if n.Loops == 0 {
			return
		}
		fmt.Fprintf(&b, "%s%s", strings.Repeat("  ", depth), n.Type)
		if n.Index != "" {
			fmt.Fprintf(&b, " using %s", n.Index)
		}
		if n.Relation != "" {
			fmt.Fprintf(&b, " on %s", n.Relation)
		}
		if n.Loops > 1 {
			fmt.Fprintf(&b, ", %.0f times", n.Loops)
		}
		fmt.Fprintf(&b, ": %.0f rows", n.Rows)
		if dropped := n.ByFilter + n.ByRecheck; dropped > 0 {
			fmt.Fprintf(&b, ", %.0f dropped", dropped)
		}
		b.WriteByte('\n')
	})
	return b.String()
}

// explain carries the statement out as the application's role does: by a plan
// made without the values.
func explain(ctx context.Context, c *pgx.Conn, s statement) (node, error) {
	d, err := c.Prepare(ctx, "explained", s.sql)
	if err != nil {
		return node{}, err
	}
	values := make([]string, len(s.args))
	for i, arg := range s.args {
		text, err := c.TypeMap().Encode(d.ParamOIDs[i], pgx.TextFormatCode, arg, nil)
		switch {
		case err != nil:
			return node{}, fmt.Errorf("parameter %d: %w", i+1, err)
		case text == nil:
			values[i] = "NULL"
		default:
			values[i] = "'" + strings.ReplaceAll(string(text), "'", "''") + "'"
		}
	}
	if err := c.Deallocate(ctx, "explained"); err != nil {
		return node{}, err
	}
	list := ""
	if len(values) > 0 {
		list = "(" + strings.Join(values, ", ") + ")"
	}
	if _, err := c.Exec(ctx, "PREPARE explained AS "+s.sql); err != nil {
		return node{}, err
	}
	var text string
	if err := c.QueryRow(ctx, "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE explained"+list, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
		return node{}, err
	}
	if _, err := c.Exec(ctx, "DEALLOCATE explained"); err != nil {
		return node{}, err
	}
	var out []struct{ Plan node }
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return node{}, err
	}
	return out[0].Plan, nil
}

// planned is a statement of a request and its plan.
type planned struct {
	request, sql string
	plan         node
}

// planned sends each request and explains what it asked the database.
func (c *caller) planned(ctx context.Context, conn *pgx.Conn, t *tracer, w *world) (all []planned, err error) {
	for _, q := range w.requests() {
		rnd := rand.New(rand.NewPCG(7, uint64(w.runs)))
		path, err := c.arrive(ctx, q, rnd)
		if err != nil {
			return nil, err
		}
		statements, err := t.during(func() error {
			status, body, err := c.get(ctx, path)
			if err == nil && status >= 500 {
				err = fmt.Errorf("%s: status %d: %s", path, status, body)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, s := range statements {
			p, err := explain(ctx, conn, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", q.name, s.sql, err)
			}
			all = append(all, planned{q.name, strings.Join(strings.Fields(s.sql), " "), p})
		}
	}
	return all, nil
}

// plans writes the plan of each statement to a file, for people.
func (c *caller) plans(ctx context.Context, dsn string, t *tracer, w *world, file string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	all, err := c.planned(ctx, conn, t, w)
	if err != nil {
		return err
	}
	// The same statement with the same plan is written one time.
	type key struct{ sql, shape string }
	first, requests := map[key]planned{}, map[key][]string{}
	var order []key
	for _, p := range all {
		k := key{p.sql, shape(p.plan)}
		if _, known := first[k]; !known {
			first[k] = p
			order = append(order, k)
		}
		if !slices.Contains(requests[k], p.request) {
			requests[k] = append(requests[k], p.request)
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "Plans of the read side's statements with %d runs of %d jobs, as they were carried\nout: made by make bench-reads. What never ran is left out.\n", w.runs, w.jobs)
	for _, k := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n%s", strings.Join(requests[k], "; "), k.sql, first[k].plan)
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// shape is a plan without its numbers.
func shape(n node) string {
	var b strings.Builder
	n.walk(0, func(depth int, n node) {
		if n.Loops > 0 {
			fmt.Fprintln(&b, depth, n.Type, cmp.Or(n.Index, n.Relation))
		}
	})
	return b.String()
}
