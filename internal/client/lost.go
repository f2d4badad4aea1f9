package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/projections"
	"github.com/daybookhq/daybook/worker/protocol"
)

// Lost is a run or job of which subscribers heard what the log does not know:
// it was restored, or failed over, to before that.
type Lost struct {
	Category domain.Category `json:"category"`
	StreamID uuid.UUID       `json:"stream_id"`
	Job      string          `json:"job,omitempty"` // name, if the lost events tell it
	Key      string          `json:"key,omitempty"` // that the run was asked for with
	Known    bool            `json:"known"`         // the log has the run or job, as it was before or as it is now
	Era      int             `json:"era"`           // of the last lost event
	Events   int             `json:"events"`
	Last     string          `json:"last"` // the type of the last lost event: run.succeeded
	LastAt   time.Time       `json:"last_at"`

	version  int
	versions map[int]bool
}

const (
	lostPage     = 1000
	lostPatience = 10 * time.Second
)

// FindLost reads what the broker still holds of the event stream since then and
// gives what the log does not have of it, the oldest first. It works in a
// database that engines refuse. Progress is told how many events were read.
func FindLost(ctx context.Context, dsn string, js jetstream.JetStream, since time.Time, progress func(events int)) ([]Lost, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	stream, err := js.Stream(ctx, protocol.EventsStream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", protocol.EventsStream, err)
	}
	config := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	if !since.IsZero() {
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}
	consumer, err := stream.OrderedConsumer(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", protocol.EventsStream, err)
	}
	found := map[uuid.UUID]*Lost{}
	// What is published meanwhile is read, too: in a database that engines
	// refuse there is nothing.
	for read, left := 0, consumer.CachedInfo().NumPending; left > 0; progress(read) {
		batch, err := consumer.Fetch(int(min(lostPage, left)), jetstream.FetchMaxWait(lostPatience))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", protocol.EventsStream, err)
		}
		var page []heard
		before := read
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return nil, err
			}
			if h, err := hear(m.Data()); err == nil { // else not of this deployment
				page = append(page, h)
			}
			read, left = read+1, meta.NumPending
		}
		if err := batch.Error(); read == before || err != nil && !errors.Is(err, nats.ErrTimeout) {
			return nil, fmt.Errorf("read %s: %d events did not come: %w", protocol.EventsStream, left, cmp.Or(err, nats.ErrTimeout))
		}
		if err := missing(ctx, conn, page, found); err != nil {
			return nil, err
		}
	}
	var all []Lost
	for _, l := range found {
		all = append(all, *l)
	}
	slices.SortFunc(all, func(a, b Lost) int {
		return cmp.Or(a.LastAt.Compare(b.LastAt), slices.Compare(a.StreamID[:], b.StreamID[:]))
	})
	return all, nil
}

// heard is an event as subscribers got it.
type heard struct {
	category     string
	stream       uuid.UUID
	version, era int
	at           time.Time
	typ          string // run.succeeded
	data         json.RawMessage
}

func hear(body []byte) (heard, error) {
	var e projections.CloudEvent
	if err := json.Unmarshal(body, &e); err != nil {
		return heard{}, err
	}
	name, _ := strings.CutPrefix(e.Type, "daybook.")
	name = name[:max(0, strings.LastIndex(name, ".v"))]
	h := heard{typ: name, data: e.Data}
	h.category, _, _ = strings.Cut(name, ".")
	var errs [4]error
	h.stream, errs[0] = uuid.Parse(e.Subject)
	h.version, errs[1] = number(e.Sequence, math.MaxInt32)
	h.era, errs[2] = number(e.Source[strings.LastIndex(e.Source, "/")+1:], math.MaxInt16)
	h.at, errs[3] = time.Parse(time.RFC3339Nano, e.Time)
	if h.category != string(domain.CategoryRun) && h.category != string(domain.CategoryJob) {
		return h, fmt.Errorf("type %q", e.Type)
	}
	return h, errors.Join(errs[:]...)
}

// number reads what a column of the log can hold.
func number(s string, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && (n < 1 || n > most) {
		err = strconv.ErrRange
	}
	return n, err
}

// The same place may be taken by another event since, in another era or at
// another time. Index: the primary keys of the partitions.
const selectMissing = `
SELECT u.n - 1, EXISTS (SELECT 1 FROM events e WHERE e.category = u.category AND e.stream_id = u.stream AND e.version = 1)
  FROM unnest($1::text[], $2::uuid[], $3::integer[], $4::smallint[], $5::timestamptz[]) WITH ORDINALITY AS u(category, stream, version, era, at, n)
 WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.category = u.category AND e.stream_id = u.stream AND e.version = u.version AND e.era = u.era AND e.at = u.at)`

// missing adds to found what the log does not have of the page.
func missing(ctx context.Context, conn *pgx.Conn, page []heard, found map[uuid.UUID]*Lost) error {
	categories, streams := make([]string, len(page)), make([]uuid.UUID, len(page))
	versions, eras, times := make([]int32, len(page)), make([]int16, len(page)), make([]time.Time, len(page))
	for i, h := range page {
		categories[i], streams[i], versions[i], eras[i], times[i] = h.category, h.stream, int32(h.version), int16(h.era), h.at
	}
	rows, err := conn.Query(ctx, selectMissing, categories, streams, versions, eras, times)
	if err != nil {
		return fmt.Errorf("look for events: %w", err)
	}
	var n int64
	var known bool
	_, err = pgx.ForEachRow(rows, []any{&n, &known}, func() error {
		h := page[n]
		l := found[h.stream]
		if l == nil {
			l = &Lost{Category: domain.Category(h.category), StreamID: h.stream, versions: map[int]bool{}}
			found[h.stream] = l
		}
		l.hear(h, known)
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for events: %w", err)
	}
	return nil
}

func (l *Lost) hear(h heard, known bool) {
	l.Known = known
	if !l.versions[h.version] { // one that was published twice is one
		l.versions[h.version] = true
		l.Events++
	}
	if h.version >= l.version {
		l.version, l.Era, l.Last, l.LastAt = h.version, h.era, h.typ, h.at
	}
	var names struct {
		Job string `json:"job"`
		Key string `json:"key"`
	}
	if h.version == 1 && h.category == string(domain.CategoryRun) && json.Unmarshal(h.data, &names) == nil {
		l.Job, l.Key = names.Job, names.Key
	}
}
