package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookhq/daybook/eventstore"
)

// checkpoint is how far a projection is, as its row in checkpoints keeps it.
type checkpoint struct {
	eventstore.Cursor
	Scan    *scan     `json:"scan,omitempty"`
	Applied int64     `json:"applied,omitempty"` // the highest position applied
	Through time.Time `json:"through,omitzero"`  // what was committed by then is applied
}

// errReplaced says that the lease on the checkpoint went to someone else.
var errReplaced = errors.New("another follower has taken over")

// lease is one follower's hold on a checkpoint. The epoch rises with each
// holder, so a former one is told from the present one whatever its clock says.
type lease struct {
	name  string
	owner string
	term  time.Duration
	epoch int64
}

// Index: checkpoints_pkey. A row that does not match is not locked, so this does
// not wait while the holder writes a page.
const acquireLease = `
UPDATE checkpoints SET owner = $2, epoch = epoch + 1, lease_until = now() + $3, updated_at = now()
 WHERE name = $1 AND (lease_until <= now() OR owner = $2)
RETURNING epoch, cursor, now()`

// Index: checkpoints_pkey.
const leaseLeft = `SELECT CASE WHEN lease_until > now() THEN lease_until - now() ELSE interval '0' END FROM checkpoints WHERE name = $1`

// Index: checkpoints_pkey.
const addCheckpoint = `INSERT INTO checkpoints (name, cursor, updated_at) VALUES ($1, '{"era": 0}', now()) ON CONFLICT DO NOTHING`

// acquire takes the lease if it is free. Otherwise it tells how long it is held.
func (l *lease) acquire(ctx context.Context, pool *pgxpool.Pool) (c checkpoint, now time.Time, held time.Duration, err error) {
	for {
		err = pool.QueryRow(ctx, acquireLease, l.name, l.owner, l.term).Scan(&l.epoch, &c, &now)
		if err == nil {
			return c, now.UTC(), 0, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return c, now, 0, fmt.Errorf("acquire checkpoint %s: %w", l.name, err)
		}
		err = pool.QueryRow(ctx, leaseLeft, l.name).Scan(&held)
		if err == nil {
			return c, now, max(held, time.Millisecond), nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return c, now, 0, fmt.Errorf("read checkpoint %s: %w", l.name, err)
		}
		if _, err := pool.Exec(ctx, addCheckpoint, l.name); err != nil {
			return c, now, 0, fmt.Errorf("add checkpoint %s: %w", l.name, err)
		}
	}
}

// The fence of every page. It locks the row until the transaction ends, which is
// what keeps others from the projection's tables. Index: checkpoints_pkey.
const saveCheckpoint = `
UPDATE checkpoints SET cursor = $4, lease_until = now() + $5, updated_at = now()
 WHERE name = $1 AND epoch = $2 AND owner = $3 RETURNING now()`

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// save moves the checkpoint and renews the lease. errReplaced if it is lost.
func (l *lease) save(ctx context.Context, q querier, c checkpoint) (now time.Time, err error) {
	err = q.QueryRow(ctx, saveCheckpoint, l.name, l.epoch, l.owner, c, l.term).Scan(&now)
	if errors.Is(err, pgx.ErrNoRows) {
		return now, errReplaced
	}
	if err != nil {
		return now, fmt.Errorf("save checkpoint %s: %w", l.name, err)
	}
	return now.UTC(), nil
}

// Index: checkpoints_pkey.
const releaseLease = `
UPDATE checkpoints SET cursor = coalesce($4, cursor), owner = '', lease_until = '-infinity', updated_at = now()
 WHERE name = $1 AND epoch = $2 AND owner = $3`

// release ends the lease, if it is still held. Without a checkpoint the stored
// one stays. Connections may be broken at such a time, so it tries some.
func (l *lease) release(ctx context.Context, pool *pgxpool.Pool, c *checkpoint) error {
	for {
		_, err := pool.Exec(ctx, releaseLease, l.name, l.epoch, l.owner, c)
		if err == nil {
			return nil
		}
		if !sleep(ctx, 50*time.Millisecond, nil) {
			return fmt.Errorf("release checkpoint %s: %w", l.name, err)
		}
	}
}

// inTx runs f in a transaction. A rollback has a time of its own: the caller's
// context may be what ended f.
func inTx(ctx context.Context, pool *pgxpool.Pool, o pgx.TxOptions, f func(pgx.Tx) error) error {
	tx, err := pool.BeginTx(ctx, o)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := f(tx); err != nil {
		done, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(done) // the error that matters is f's
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func sqlState(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}
