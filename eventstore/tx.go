package eventstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// txn is an open transaction on a connection of its own. Its statements are
// gathered in batches, so that the whole transaction is two round trips.
type txn struct {
	conn  *pgxpool.Conn
	now   time.Time // the transaction's time
	began time.Time // by this process's monotonic clock
}

// begin opens a transaction and runs its first statement in the same round trip.
// The statement's rows go to scan; scan sees the transaction's time in tx.now.
func begin(ctx context.Context, pool *pgxpool.Pool, sql string, args []any, scan func(pgx.Rows) error) (*txn, error) {
	if sql == "" {
		return beginWith(ctx, pool)
	}
	return beginWith(ctx, pool, query{sql, args, scan})
}

// query is a statement and what to do with its rows.
type query struct {
	sql  string
	args []any
	scan func(pgx.Rows) error
}

// beginWith opens a transaction and runs its first statements in one round trip.
func beginWith(ctx context.Context, pool *pgxpool.Pool, queries ...query) (*txn, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	tx := &txn{conn: conn, began: time.Now()}
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue("SELECT now()").QueryRow(func(row pgx.Row) error {
		err := row.Scan(&tx.now)
		tx.now = tx.now.UTC()
		return err
	})
	for _, q := range queries {
		b.Queue(q.sql, q.args...).Query(func(rows pgx.Rows) error { return eachRow(rows, q.scan) })
	}
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		tx.rollback(ctx)
		return nil, err
	}
	return tx, nil
}

// query runs one statement more inside the transaction.
func (tx *txn) query(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error {
	rows, err := tx.conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	return eachRow(rows, scan)
}

// queries runs statements inside the transaction in one round trip.
func (tx *txn) queries(ctx context.Context, queries ...query) error {
	b := &pgx.Batch{}
	for _, q := range queries {
		b.Queue(q.sql, q.args...).Query(func(rows pgx.Rows) error { return eachRow(rows, q.scan) })
	}
	return tx.conn.SendBatch(ctx, b).Close()
}

// commit sends the batch with COMMIT behind it and ends the transaction either
// way. A connection that breaks meanwhile leaves the outcome unknown.
func (tx *txn) commit(ctx context.Context, b *pgx.Batch) error {
	b.Queue("COMMIT")
	// A caller that gives up must not turn a commit into an unknown one.
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	err := tx.conn.SendBatch(done, b).Close()
	if err == nil {
		tx.conn.Release()
		tx.conn = nil
		return nil
	}
	if sqlState(err) == "" {
		err = fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	tx.rollback(ctx)
	return err
}

// rollback ends a transaction that is not committed; after commit it does
// nothing. The caller's context may be over, so it has a time of its own.
func (tx *txn) rollback(ctx context.Context) {
	if tx == nil || tx.conn == nil {
		return
	}
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := tx.conn.Exec(done, "ROLLBACK"); err != nil {
		_ = tx.conn.Conn().Close(done)
	}
	tx.conn.Release()
	tx.conn = nil
}

func eachRow(rows pgx.Rows, scan func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// again runs the function until it neither conflicts with another writer nor is
// chosen as a deadlock's victim, a few times at most.
func again(ctx context.Context, f func() error) error {
	const tries = 5
	for i := 1; ; i++ {
		err := f()
		state := sqlState(err)
		retry := errors.Is(err, ErrVersionConflict) || errors.Is(err, errLookAgain) ||
			state == "40P01" || state == "40001" || state == stateCountMismatch || state == stateTooOld
		if err == nil || !retry || i == tries || ctx.Err() != nil {
			return err
		}
	}
}

// errLookAgain says that a row moved between two statements of a transaction
// that did not hold it.
var errLookAgain = errors.New("row moved while it was looked for")
