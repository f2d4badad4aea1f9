package outbox

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker/protocol"
)

func refuseAll(err error) func(*message.Message) error {
	return func(*message.Message) error { return err }
}

// refuseIDs refuses messages by their id.
func refuseIDs(err error, ids ...string) func(*message.Message) error {
	return func(m *message.Message) error {
		if slices.Contains(ids, m.Metadata[protocol.HeaderMsgID]) {
			return err
		}
		return nil
	}
}

func TestOneFailureStopsNothing(t *testing.T) {
	w := newWorld(t)
	b := &broker{}
	r := w.relay(t, "engine-1", b)
	runs := w.claim(t, r.Writer(), 9)
	bad := runs[4].ClaimID.String()
	b.refuse = refuseIDs(errDown, bad)
	if !step(t, r) {
		t.Fatal("no pack")
	}
	want := slices.DeleteFunc(claimIDs(runs), func(id string) bool { return id == bad })
	if got := b.ids(true); !slices.Equal(got, want) {
		t.Errorf("published %v, want the other eight: %v", got, want)
	}
	status, err := ReadStatus(t.Context(), w.Pool(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(status.Packs) != 1 || status.Failed.Packs != 1 || status.Failed.Messages != 1 ||
		status.Packs[0].Attempts != 1 || !strings.Contains(status.Packs[0].LastError, errDown.Error()) {
		t.Fatalf("the table keeps %+v, want the one that failed", status)
	}

	b.set(nil)
	w.abandon(t)
	drain(t, r)
	if got := b.ids(true); !slices.Equal(got, claimIDs(runs)) {
		t.Errorf("published %v, want every claim once: %v", got, claimIDs(runs))
	}
	if got := r.Stats(); got.Published != 9 || got.Failed != 1 || got.Held != 0 {
		t.Errorf("counted %+v", got)
	}
}

func TestRelayKilledAfterPublishing(t *testing.T) {
	w := newWorld(t)
	b := &broker{}
	first := w.relay(t, "engine-1", b)
	runs := w.claim(t, first.Writer(), 3)
	if !step(t, first) {
		t.Fatal("no pack")
	}
	first = nil // dead before it deleted anything
	w.abandon(t)
	second := w.relay(t, "engine-2", b)
	drain(t, second)
	want := slices.Concat(claimIDs(runs), claimIDs(runs))
	slices.Sort(want)
	if got := b.ids(true); !slices.Equal(got, want) {
		t.Errorf("published %v, want the same ids again", got)
	}
	if got := b.ids(false); !slices.Equal(got, claimIDs(runs)) {
		t.Errorf("the broker cannot tell the repeats: %v", got)
	}
	if err := second.flush(t.Context(), true); err != nil || w.rows(t) != 0 {
		t.Errorf("%d rows left, error %v", w.rows(t), err)
	}
}

func TestRelayKilledBeforePublishing(t *testing.T) {
	w := newWorld(t)
	dead := w.relay(t, "engine-1", &broker{})
	runs := w.claim(t, dead.Writer(), 3)
	b := &broker{}
	r := w.relay(t, "engine-2", b)
	w.exec(t, "UPDATE outbox SET until = now() + interval '1 hour'")
	if step(t, r) {
		t.Fatalf("published %v, which another relay still holds", b.ids(true))
	}
	w.abandon(t)
	start(t, r)
	eventually(t, "the pack is found in the table", func() bool { return r.Stats().Published == 3 })
	if got := b.ids(true); !slices.Equal(got, claimIDs(runs)) {
		t.Errorf("published %v, want %v", got, claimIDs(runs))
	}
}

// A relay that was held up leaves what it has in memory to whoever has it by now.
func TestLapsedPackIsNotPublishedFromMemory(t *testing.T) {
	w := newWorld(t)
	b := &broker{}
	r := w.relay(t, "engine-1", b)
	w.enqueue(t, r.Writer(), time.Minute)
	w.exec(t, "UPDATE outbox SET owner = 'engine-2', until = now() + interval '1 hour'")
	r.desk.fresh[0].clock.local = time.Now().Add(-freshFor)
	if step(t, r) || len(b.sent) != 0 {
		t.Errorf("published %v", b.sent)
	}
}

func TestRelaysShareWhatWasLeftBehind(t *testing.T) {
	const packs = 60
	w := newWorld(t)
	gone := NewWriter("gone")
	var want []string
	for range packs {
		for _, m := range w.enqueue(t, gone, time.Minute, time.Minute) {
			want = append(want, m.Hints[0].ClaimID.String())
		}
	}
	slices.Sort(want)
	w.abandon(t)
	b := &broker{}
	relays := []*Relay{w.relay(t, "engine-1", b), w.relay(t, "engine-2", b)}
	var stop []func()
	for _, r := range relays {
		stop = append(stop, start(t, r))
	}
	eventually(t, "all packs are published", func() bool { return len(b.ids(false)) == 2*packs })
	for _, f := range stop {
		f()
	}
	if got := b.ids(true); !slices.Equal(got, want) {
		t.Errorf("%d messages published, want %d, each once", len(got), len(want))
	}
	first, second := relays[0].Stats(), relays[1].Stats()
	if first.Recovered+second.Recovered != packs {
		t.Errorf("relays took %d and %d packs of %d", first.Recovered, second.Recovered, packs)
	}
	if n := w.rows(t); n != 0 {
		t.Errorf("%d rows left after a clean stop", n)
	}
}

// A relay neither waits for another that is leasing packs at the same moment nor gets the same ones.
func TestLeasesAreDisjoint(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		w.enqueue(t, NewWriter("gone"), time.Minute)
	}
	w.abandon(t)
	tx, err := w.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), leasePacks, "engine-1", 15*time.Second, 10, []uuid.UUID{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id uuid.UUID, err error) {
		return id, row.Scan(&id, nil, nil, nil, nil, nil)
	})
	if err != nil || len(first) != 10 {
		t.Fatalf("leased %v, error %v", first, err)
	}
	second := w.relay(t, "engine-2", &broker{}, func(c *Config) { c.InFlight = 10 })
	if err := second.poll(t.Context(), []uuid.UUID{}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range second.desk.leased {
		if slices.Contains(first, p.id) {
			t.Errorf("pack %s leased twice", p.id)
		}
	}
	if n := len(second.desk.leased); n != 10 {
		t.Errorf("leased %d packs, want the ten that were left", n)
	}
}

func TestBrokerDown(t *testing.T) {
	w := newWorld(t)
	b := &broker{refuse: refuseAll(errDown)}
	r := w.relay(t, "engine-1", b, func(c *Config) { c.HandOver = 3 })
	stop := start(t, r)
	var want []string
	for range 12 {
		for _, m := range w.enqueue(t, r.Writer(), time.Minute, time.Minute) {
			want = append(want, m.Hints[0].ClaimID.String())
		}
	}
	slices.Sort(want)
	eventually(t, "the relay holds back", func() bool { return r.Stats().Holding })
	if s := r.Stats(); s.Held > 3+r.InFlight+2*r.InFlight {
		t.Errorf("%d packs in memory", s.Held)
	}
	if n := w.count(t, "SELECT sum(messages) FROM outbox"); n != len(want) {
		t.Errorf("the table has %d messages, want all %d", n, len(want))
	}
	b.set(nil)
	eventually(t, "everything is published", func() bool { return len(b.ids(false)) == len(want) })
	stop()
	if got := b.ids(false); !slices.Equal(got, want) {
		t.Errorf("published %v, want %v", got, want)
	}
	if r.Stats().Holding || w.rows(t) != 0 {
		t.Errorf("holding back: %v; %d rows left", r.Stats().Holding, w.rows(t))
	}
	for _, said := range []string{"takes no dispatches", "takes dispatches again"} {
		if !strings.Contains(w.log.String(), said) {
			t.Errorf("log lacks %q:\n%s", said, w.log)
		}
	}
}

// While a broker takes nothing, one pack at a time tries.
func TestHoldingBackAsksSeldom(t *testing.T) {
	w := newWorld(t)
	b := &broker{refuse: refuseAll(errDown)}
	r := w.relay(t, "engine-1", b)
	for range 20 {
		w.enqueue(t, r.Writer(), time.Minute)
	}
	before := time.Now()
	for range 20 {
		if _, _, err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// Two calls close the gate; of the pauses after them the n-th is at least 50 ms · 2ⁿ long.
	most := 2
	for pause := time.Since(before); pause > 0; pause -= firstBackoff / 2 << (most - 2) {
		most++
	}
	if n := b.asked(); n < 2 || n > most {
		t.Errorf("the broker was asked %d times, want 2 to %d", n, most)
	}
}

func TestErrorWithoutDetailsFailsTheWholePack(t *testing.T) {
	w := newWorld(t)
	b := &bluntBroker{}
	r := w.relay(t, "engine-1", b)
	w.enqueue(t, r.Writer(), time.Minute, time.Minute)
	step(t, r)
	if n := w.count(t, "SELECT messages FROM outbox WHERE attempts = 1 AND parked_at IS NULL"); n != 2 {
		t.Errorf("%d messages kept, want both", n)
	}
}

type bluntBroker struct{}

func (bluntBroker) Publish(string, ...*message.Message) error { return errors.New("no idea") }
func (bluntBroker) Close() error                              { return nil }

func TestSlowPackStopsNoOther(t *testing.T) {
	w := newWorld(t)
	b := &broker{}
	slow := make(chan struct{})
	gate := &slowLane{Publisher: b, lane: "stuck", until: slow}
	r := w.relay(t, "engine-1", gate)
	stop := start(t, r)
	w.enqueueTo(t, r.Writer(), "stuck")
	for range 20 {
		w.enqueue(t, r.Writer(), time.Minute)
	}
	eventually(t, "the others are published", func() bool { return len(b.ids(false)) == 20 })
	close(slow)
	eventually(t, "the slow one is published", func() bool { return len(b.ids(false)) == 21 })
	stop()
}

// slowLane holds calls for one queue until it is let go.
type slowLane struct {
	message.Publisher
	lane  string
	until chan struct{}
}

func (s *slowLane) Publish(topic string, messages ...*message.Message) error {
	if strings.Contains(topic, s.lane) {
		<-s.until
	}
	return s.Publisher.Publish(topic, messages...)
}

func TestLeaseOverIsDropped(t *testing.T) {
	w := newWorld(t)
	b := &broker{}
	r := w.relay(t, "engine-1", b)
	messages := w.enqueue(t, r.Writer(), 900*time.Millisecond, time.Hour, -time.Minute)
	drain(t, r)
	if got := b.ids(true); len(got) != 1 || got[0] != messages[1].Hints[0].ClaimID.String() {
		t.Errorf("published %v, want only the one whose lease lives: %v", got, messages[1])
	}
	if ttl, err := strconv.Atoi(b.sent[0].ttl); err != nil || ttl > 3599 || ttl < 3500 {
		t.Errorf("time to live is %s of an hour", b.sent[0].ttl)
	}
	if s := r.Stats(); s.Dropped != 2 || s.Published != 1 {
		t.Errorf("counted %+v", s)
	}
	w.enqueue(t, NewWriter("gone"), -time.Second)
	w.abandon(t)
	drain(t, r)
	if err := r.flush(t.Context(), true); err != nil || w.rows(t) != 0 || len(b.ids(true)) != 1 {
		t.Errorf("%d rows and %v published, error %v: a pack without a live lease goes unpublished", w.rows(t), b.ids(true), err)
	}
}

func TestMemoryFull(t *testing.T) {
	w := newWorld(t)
	b := &broker{}
	r := w.relay(t, "engine-1", b, func(c *Config) { c.HandOver = 2 })
	for range 5 {
		w.enqueue(t, r.Writer(), time.Minute)
	}
	if s := r.Stats(); s.Overflow != 3 || s.Held != 2 {
		t.Errorf("%+v: want two packs in memory and three left to the table", s)
	}
	start(t, r)
	eventually(t, "the packs left to the table are found there", func() bool { return len(b.ids(false)) == 5 })
}

func TestStopPublishesWhatIsInMemory(t *testing.T) {
	w := newWorld(t)
	b := &broker{hold: make(chan struct{})}
	r := w.relay(t, "engine-1", b, func(c *Config) { c.InFlight = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for range 3 {
		w.enqueue(t, r.Writer(), time.Minute)
	}
	eventually(t, "a pack is in flight and two wait", func() bool {
		r.desk.mu.Lock()
		defer r.desk.mu.Unlock()
		for _, p := range r.desk.fresh {
			p.until = p.until.Add(time.Hour) // however slow this machine is
		}
		return len(r.desk.flight) == 1 && len(r.desk.fresh) == 2
	})
	cancel()
	close(b.hold)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if published, left := len(b.ids(false)), w.rows(t); published != 3 || left != 0 {
		t.Errorf("%d packs published and %d in the table, want 3 and none", published, left)
	}
}

func TestDatabaseAway(t *testing.T) {
	w := newWorld(t)
	b := &broker{}
	r := w.relay(t, "engine-1", b)
	start(t, r)
	w.exec(t, "ALTER TABLE outbox RENAME TO elsewhere")
	eventually(t, "the relay says so", func() bool { return strings.Contains(w.log.String(), "cannot work with its table") })
	w.exec(t, "ALTER TABLE elsewhere RENAME TO outbox")
	eventually(t, "the relay goes on", func() bool { return strings.Contains(w.log.String(), "works with its table again") })
	w.enqueue(t, r.Writer(), time.Minute)
	eventually(t, "a pack is published", func() bool { return len(b.ids(false)) == 1 })
}

// enqueueTo commits one message to a queue.
func (w *world) enqueueTo(t *testing.T, out eventstore.Outbox, queue string) eventstore.Message {
	t.Helper()
	return w.enqueue(t, rewrite{out, func(m *eventstore.Message) { m.Queue = queue }}, time.Minute)[0]
}

// rewrite changes messages on their way in.
type rewrite struct {
	eventstore.Outbox
	edit func(*eventstore.Message)
}

func (r rewrite) Enqueue(b *pgx.Batch, now time.Time, messages []eventstore.Message) (func(), error) {
	for i := range messages {
		r.edit(&messages[i])
	}
	return r.Outbox.Enqueue(b, now, messages)
}

func TestConfigIsChecked(t *testing.T) {
	w := newWorld(t)
	for name, edit := range map[string]func(*Config){
		"no owner":       func(c *Config) { c.Owner = "" },
		"no publisher":   func(c *Config) { c.Publisher = nil },
		"no database":    func(c *Config) { c.DB = nil },
		"negative bound": func(c *Config) { c.HandOver = -1 },
	} {
		c := Config{DB: w.Pool(), Publisher: &broker{}, Owner: "engine-1"}
		edit(&c)
		if _, err := NewRelay(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Whatever time a publish may take by the lease budget, a pack is not anybody else's meanwhile.
func TestPackIsLeasedForLongerThanItsPublishMayTake(t *testing.T) {
	w := newWorld(t)
	for _, d := range []time.Duration{0, 20 * time.Second, time.Hour} {
		r := w.relay(t, "engine-1", &broker{}, func(c *Config) { c.PublishTimeout = d })
		if spare := r.leaseFor() - r.PublishTimeout - settleTimeout; spare < r.PublishTimeout {
			t.Errorf("publish %s: a lease of %s leaves %s", d, r.leaseFor(), spare)
		}
	}
}
