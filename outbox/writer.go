package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/eventstore"
)

// freshFor is how long a new pack belongs to its writer's process.
const freshFor = 2 * time.Second

// Writer writes the messages of a transaction into it, as one row. It is safe for concurrent use.
type Writer struct {
	owner string
	desk  *desk // nil: no relay in this process
}

var _ eventstore.Outbox = (*Writer)(nil)

// NewWriter returns a writer for a process without a relay: relays elsewhere find its packs after two seconds. See
// Relay.Writer for the one that hands them over.
func NewWriter(owner string) *Writer { return &Writer{owner: owner} }

// Enqueue queues the pack's row into b, without a round trip of its own. Packs that the relay has published meanwhile
// are deleted in the same transaction. committed hands the pack over and never blocks.
func (w *Writer) Enqueue(b *pgx.Batch, now time.Time, messages []eventstore.Message) (committed func(), err error) {
	if len(messages) == 0 {
		return func() {}, nil
	}
	row, err := encodePack(messages)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	p := newPack(uuid.Must(uuid.NewV7()), messages)
	p.first, p.until, p.clock = true, now.Add(freshFor), clock{database: now, local: time.Now()}
	wire := make([]*message.Message, len(p.dispatches))
	for i, d := range p.dispatches {
		wire[i] = d.wire
	}
	pub, err := wsql.NewPublisher(intoBatch{b}, wsql.PublisherConfig{SchemaAdapter: packSchema{p, w.owner, now, row}}, nil)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	if err := pub.Publish("outbox", wire...); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	if w.desk == nil {
		return func() {}, nil
	}
	gone := w.desk.lend()
	if len(gone) > 0 {
		b.Queue(deletePacks, gone)
	}
	return func() {
		w.desk.settle(gone)
		w.desk.handOver(p)
	}, nil
}

// Index: outbox_pkey is written.
const insertPack = `
INSERT INTO outbox (id, owner, until, created_at, messages, pack) VALUES ($1, $2, $3, $4, $5, $6)`

// Index: outbox_pkey.
const deletePacks = `DELETE FROM outbox WHERE id = ANY($1)`

// packSchema is watermill-sql's SchemaAdapter for one call of its Publisher: all messages become one row, by one
// constant statement. Nothing subscribes to the table, so the other half is not supported.
type packSchema struct {
	*pack
	owner string
	now   time.Time
	row   []byte
}

func (s packSchema) InsertQuery(q wsql.InsertQueryParams) (wsql.Query, error) {
	if len(q.Msgs) != len(s.dispatches) {
		return wsql.Query{}, fmt.Errorf("%d messages for a pack of %d", len(q.Msgs), len(s.dispatches))
	}
	return wsql.Query{Query: insertPack, Args: []any{s.id, s.owner, s.until, s.now, len(q.Msgs), s.row}}, nil
}

func (packSchema) SelectQuery(wsql.SelectQueryParams) (wsql.Query, error) {
	return wsql.Query{}, errors.ErrUnsupported
}

func (packSchema) UnmarshalMessage(wsql.UnmarshalMessageParams) (wsql.Row, error) {
	return wsql.Row{}, errors.ErrUnsupported
}

func (packSchema) SchemaInitializingQueries(wsql.SchemaInitializingQueriesParams) ([]wsql.Query, error) {
	return nil, nil // migrations make the table
}

func (packSchema) SubscribeIsolationLevel() sql.IsolationLevel { return sql.LevelReadCommitted }

// intoBatch lets watermill-sql's Publisher write into the pipeline of an open transaction.
type intoBatch struct{ batch *pgx.Batch }

func (x intoBatch) ExecContext(_ context.Context, query string, args ...any) (wsql.Result, error) {
	x.batch.Queue(query, args...)
	return queued{}, nil
}

func (intoBatch) QueryContext(context.Context, string, ...any) (wsql.Rows, error) {
	return nil, errors.ErrUnsupported
}

// queued is the result of a statement that has not run yet.
type queued struct{}

func (queued) RowsAffected() (int64, error) { return 0, errors.ErrUnsupported }
