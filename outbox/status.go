package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// State is what a pack in the table waits for.
type State string

// The states of a pack.
const (
	Pending State = "pending" // to be published for the first time
	Failed  State = "failed"  // to be tried again
	Parked  State = "parked"  // for an operator
)

// Status is what is in the table.
type Status struct {
	Pending, Failed, Parked Backlog
	Packs                   []PackStatus // parked ones first, then failed ones, each oldest first
}

// Backlog sums up the packs of one state.
type Backlog struct {
	Packs, Messages int
	Oldest          time.Duration // age by the database's clock; 0 if there are none
}

// PackStatus is one pack.
type PackStatus struct {
	ID        uuid.UUID
	State     State
	Owner     string    // who had it last
	CreatedAt time.Time // when its claim was committed
	Age       time.Duration
	Until     time.Time // its owner's; after a failure, when it is tried again
	Attempts  int
	Messages  int
	LastError string
	ParkedAt  time.Time // zero unless parked
}

const stateOf = `CASE WHEN parked_at IS NOT NULL THEN 'parked' WHEN attempts > 0 THEN 'failed' ELSE 'pending' END`

// Index: none, as leasePacks.
const sumPacks = `
SELECT ` + stateOf + `, count(*), sum(messages), extract(epoch FROM now() - min(created_at))::float8 FROM outbox GROUP BY 1`

// Index: none, as leasePacks.
const listPacks = `
SELECT id, ` + stateOf + `, owner, created_at, now(), until, attempts, messages, coalesce(last_error, ''), parked_at
  FROM outbox ORDER BY parked_at IS NULL, attempts = 0, created_at LIMIT $1`

// ReadStatus tells what waits in the outbox, with up to limit packs one by one.
func ReadStatus(ctx context.Context, db *pgxpool.Pool, limit int) (Status, error) {
	var s Status
	b := &pgx.Batch{}
	b.Queue(sumPacks).Query(func(rows pgx.Rows) error {
		var state State
		var sum Backlog
		var age float64
		_, err := pgx.ForEachRow(rows, []any{&state, &sum.Packs, &sum.Messages, &age}, func() error {
			sum.Oldest = time.Duration(age * float64(time.Second))
			switch state {
			case Pending:
				s.Pending = sum
			case Failed:
				s.Failed = sum
			case Parked:
				s.Parked = sum
			}
			return nil
		})
		return err
	})
	b.Queue(listPacks, max(limit, 0)).Query(func(rows pgx.Rows) (err error) {
		s.Packs, err = pgx.CollectRows(rows, scanPack)
		return err
	})
	if err := db.SendBatch(ctx, b).Close(); err != nil {
		return Status{}, fmt.Errorf("read the outbox: %w", err)
	}
	return s, nil
}

func scanPack(row pgx.CollectableRow) (p PackStatus, err error) {
	var now time.Time
	var parked *time.Time
	err = row.Scan(&p.ID, &p.State, &p.Owner, &p.CreatedAt, &now, &p.Until, &p.Attempts, &p.Messages, &p.LastError, &parked)
	p.CreatedAt, p.Until, p.Age = p.CreatedAt.UTC(), p.Until.UTC(), now.Sub(p.CreatedAt)
	if parked != nil {
		p.ParkedAt = parked.UTC()
	}
	return p, err
}

// Selection names packs. Conditions that are set must all hold.
type Selection struct {
	All  bool        // no other condition is needed
	IDs  []uuid.UUID // these
	From time.Time   // created at or after
	To   time.Time   // created before
}

// ErrNothingSelected refuses a Selection that says nothing.
var ErrNothingSelected = errors.New("no packs selected: give ids, a time range, or all")

// Whoever publishes one of them at this moment loses his hold on it, and records nothing.
//
// Index: none, as leasePacks; outbox_pkey if ids are given.
const replayPacks = `
UPDATE outbox SET until = now(), attempts = 0, parked_at = NULL
 WHERE (attempts > 0 OR parked_at IS NOT NULL)
   AND ($1::uuid[] IS NULL OR id = ANY ($1)) AND ($2::timestamptz IS NULL OR created_at >= $2) AND ($3::timestamptz IS NULL OR created_at < $3)`

// Replay makes failed and parked packs due at once and tells how many. Relays drop those of their messages whose
// leases are over: that is also how to get rid of parked packs whose cause is gone.
func Replay(ctx context.Context, db *pgxpool.Pool, s Selection) (int, error) {
	if !s.All && s.IDs == nil && s.From.IsZero() && s.To.IsZero() {
		return 0, ErrNothingSelected
	}
	tag, err := db.Exec(ctx, replayPacks, s.IDs, when(s.From), when(s.To))
	if err != nil {
		return 0, fmt.Errorf("replay packs: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Index: none, as leasePacks.
const selectPacks = `SELECT id, pack FROM outbox`

// ReadClaims tells which claims have messages in the outbox, whatever state their
// packs are in. A pack that cannot be read is an error: its claims are not known.
func ReadClaims(ctx context.Context, db *pgxpool.Pool) (map[uuid.UUID]bool, error) {
	claims := map[uuid.UUID]bool{}
	rows, err := db.Query(ctx, selectPacks)
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	var id uuid.UUID
	var raw []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &raw}, func() error {
		messages, err := decodePack(raw)
		if err != nil {
			return fmt.Errorf("pack %s: %w", id, err)
		}
		for _, m := range messages {
			for _, h := range m.Hints {
				claims[h.ClaimID] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	return claims, nil
}
