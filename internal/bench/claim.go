package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ClaimOptions say how due work is picked.
type ClaimOptions struct {
	Options
	Rows     int   // of each strategy and number of claimers
	Batch    int   // rows a claim
	Claimers []int // that pick at the same time
	Version  string
}

// strategy is a way for several claimers to pick due rows: its statements run in
// one transaction, and the last returns the ids that it believes to be its own.
type strategy struct {
	name       string
	lock       string   // taken first
	statements []string // the first picks $1 rows, a second gets their ids
	separate   bool     // each statement in a transaction of its own
}

// The first four work on a table with a state column, as most queues do; the
// last is what Daybook does. Select-then-update is in the list because it is
// what one writes first, and finds the same rows in every claimer.
var strategies = []strategy{
	{name: "select, then update", separate: true, statements: []string{
		`SELECT id FROM queue WHERE state = 'due' AND due <= now() ORDER BY due LIMIT $1`,
		`UPDATE queue SET state = 'claimed' WHERE id = ANY($1) RETURNING id`,
	}},
	{name: "for update", statements: []string{
		`SELECT id FROM queue WHERE state = 'due' AND due <= now() ORDER BY due LIMIT $1 FOR UPDATE`,
		`UPDATE queue SET state = 'claimed' WHERE id = ANY($1) RETURNING id`,
	}},
	{name: "advisory lock", lock: `SELECT pg_advisory_xact_lock(4711)`, statements: []string{
		`SELECT id FROM queue WHERE state = 'due' AND due <= now() ORDER BY due LIMIT $1`,
		`UPDATE queue SET state = 'claimed' WHERE id = ANY($1) RETURNING id`,
	}},
	{name: "skip locked", statements: []string{
		`SELECT id FROM queue WHERE state = 'due' AND due <= now() ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED`,
		`UPDATE queue SET state = 'claimed' WHERE id = ANY($1) RETURNING id`,
	}},
	{name: "row moves", statements: []string{
		`WITH taken AS (
		   DELETE FROM due WHERE ctid = ANY (ARRAY (SELECT ctid FROM due WHERE due <= now() ORDER BY due FOR UPDATE SKIP LOCKED LIMIT $1))
		   RETURNING id, due, payload)
		 INSERT INTO claimed SELECT * FROM taken RETURNING id`,
	}},
}

// Claim compares the ways, each at several numbers of claimers, and counts rows
// that more than one of them believed to be its own.
func Claim(ctx context.Context, o ClaimOptions) (rep Report, err error) {
	l, err := openLab(ctx, o.Options)
	if err != nil {
		return rep, err
	}
	defer l.close()
	dsn, drop, err := l.database(ctx, false)
	if err != nil {
		return rep, err
	}
	defer drop()
	var results []Result
	for _, s := range strategies {
		for _, n := range o.Claimers {
			o.Say("%s, %d claimers", s.name, n)
			res, err := l.claim(ctx, dsn, s, n, o.Rows, o.Batch)
			if err != nil {
				return rep, fmt.Errorf("%s with %d claimers: %w", s.name, n, err)
			}
			results = append(results, res)
		}
	}
	rep = l.report("claim", 1, o.Version)
	rep.Results, rep.Result = results, results[len(results)-1]
	return rep, nil
}

func (l *lab) claim(ctx context.Context, dsn string, s strategy, claimers, rows, batch int) (res Result, err error) {
	const row = `SELECT g AS id, now() - interval '1 hour' + g * interval '1 ms' AS due, decode(repeat('00', 100), 'hex') AS payload FROM generate_series(1, %d) g`
	err = execAll(ctx, dsn,
		`DROP TABLE IF EXISTS queue, due, claimed`,
		fmt.Sprintf(`CREATE TABLE queue AS SELECT id, 'due' AS state, due, payload FROM (`+row+`) r`, rows),
		`ALTER TABLE queue ADD PRIMARY KEY (id)`, `CREATE INDEX ON queue (due) WHERE state = 'due'`,
		fmt.Sprintf(`CREATE TABLE due AS `+row, rows), `CREATE INDEX ON due (due)`,
		`CREATE TABLE claimed (id integer PRIMARY KEY, due timestamptz, payload bytea)`,
		`VACUUM ANALYZE queue`, `VACUUM ANALYZE due`, `CHECKPOINT`)
	if err != nil {
		return res, err
	}
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return res, err
	}
	config.MaxConns = int32(claimers)
	config.ConnConfig.RuntimeParams["enable_seqscan"] = "off" // as the engine's role has it
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return res, err
	}
	defer pool.Close()
	began, spent := time.Now(), ServerTime(l.postmaster)
	owners := make([]map[int32]int, claimers)
	errs := make([]error, claimers)
	var working sync.WaitGroup
	for i := range claimers {
		owners[i] = map[int32]int{}
		working.Go(func() { errs[i] = claimAll(ctx, pool, s, batch, owners[i]) })
	}
	working.Wait()
	took := time.Since(began).Seconds()
	for _, e := range errs {
		if e != nil {
			return res, e
		}
	}
	times := map[int32]int{}
	claims := 0
	for _, own := range owners {
		for id, n := range own {
			times[id] += n
			claims += n
		}
	}
	if len(times) != rows {
		return res, fmt.Errorf("%d of %d rows were claimed", len(times), rows)
	}
	duplicates := claims - len(times)
	res = Result{Name: s.name, Claimers: claimers, Batch: batch, Runs: rows, Seconds: round(took, 3), RunsPerSecond: round(float64(rows)/took, 0), Duplicates: &duplicates}
	if l.postmaster != 0 {
		us := round(float64((ServerTime(l.postmaster)-spent).Microseconds())/float64(rows), 1)
		res.CPU = &CPU{Database: us, Total: us}
	}
	return res, nil
}

// claimAll claims until nothing is due. A claim that finds nothing looks once
// more: what others hold is skipped, and may come back.
func claimAll(ctx context.Context, pool *pgxpool.Pool, s strategy, batch int, own map[int32]int) error {
	for empty := 0; empty < 2; {
		ids, err := claimOnce(ctx, pool, s, batch)
		if err != nil {
			return err
		}
		for _, id := range ids {
			own[id]++
		}
		if len(ids) == 0 {
			empty++
		} else {
			empty = 0
		}
	}
	return nil
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func claimOnce(ctx context.Context, pool *pgxpool.Pool, s strategy, batch int) (ids []int32, err error) {
	if s.separate {
		return s.pick(ctx, pool, batch)
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		ids, err = s.pick(ctx, tx, batch)
		return err
	})
	return ids, err
}

func (s strategy) pick(ctx context.Context, q querier, batch int) (ids []int32, err error) {
	if s.lock != "" {
		rows, err := q.Query(ctx, s.lock)
		if err != nil {
			return nil, err
		}
		if rows.Close(); rows.Err() != nil {
			return nil, rows.Err()
		}
	}
	for i, sql := range s.statements {
		arg := any(batch)
		if i > 0 {
			arg = ids
		}
		rows, err := q.Query(ctx, sql, arg)
		if err != nil {
			return nil, err
		}
		if ids, err = pgx.CollectRows(rows, pgx.RowTo[int32]); err != nil {
			return nil, err
		}
	}
	return ids, nil
}
