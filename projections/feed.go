package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/crashpoint"
	"github.com/daybookhq/daybook/worker/protocol"
)

// FeedName is the feed's checkpoint.
const FeedName = "event_feed"

// Feed publishes every event of the log to subscribers, from the log and not
// from the outbox: it is a tail that may lag and never slows a claim.
//
// One process owns it at a time, for all partitions. It reads windows and
// publishes in waves, at most one event of a stream in flight, so the first
// publication of a stream's events is in the order of their versions. A page is
// not left before all of it is out. Delivery is at least once: a new
// owner begins at the last checkpoint and may repeat events, which consumers
// recognise by source and id.
type Feed struct {
	c       FeedConfig
	store   *eventstore.Store
	lease   lease
	held    bool
	renewed time.Time // before the lease was last granted
	at      checkpoint
	pending []eventstore.Recorded // of the page after the checkpoint, not published yet
	next    *checkpoint           // where the page ends
	gone    []bool                // which of them are
	last    bool                  // the page ends where the log did
	events  *cloudEvents
}

// FeedConfig says what a feed works with. Publisher is needed.
type FeedConfig struct {
	Publisher  message.Publisher // publishes all messages of a call before it returns; see outbox.PartialError
	Failures   Failures          // takes the publisher's error apart
	Deployment string            // names this installation in the events' source; empty means "default"
	Owner      string            // names this process in the checkpoint
	Limit      int               // events a page; 0 means 5,000
	Tick       time.Duration     // between looks at the end of the log; 0 means 250 ms
	Lease      time.Duration     // how long a crashed owner holds the others up; 0 means 30 s, or six waves
	Wave       time.Duration     // longest a wave may take; 0 means 5 s
	Logger     *slog.Logger
}

// Failures tells which messages of a call failed, and whether for good.
type Failures interface {
	// Failed gives the failed messages by index. If the error says nothing about
	// single messages, all failed.
	Failed(err error, messages int) map[int]error
	// Permanent reports whether the same message would fail again.
	Permanent(err error) bool
}

// NewFeed makes a feed that runs when it gets hold of the checkpoint.
func NewFeed(store *eventstore.Store, c FeedConfig) *Feed {
	c.Deployment = cmp.Or(c.Deployment, "default")
	c.Limit, c.Tick = cmp.Or(c.Limit, 5000), cmp.Or(c.Tick, 250*time.Millisecond)
	c.Wave = cmp.Or(c.Wave, 5*time.Second)
	c.Lease = cmp.Or(c.Lease, max(30*time.Second, 6*c.Wave)) // a wave begins only if the lease outlasts two
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Feed{c: c, store: store, events: newCloudEvents(c.Deployment), lease: lease{name: FeedName, owner: c.Owner + "/" + uuid.NewString()[:8], term: c.Lease}}
}

// Run publishes until ctx ends and then gives the checkpoint back. It outlasts
// outages of broker and database.
func (f *Feed) Run(ctx context.Context) error {
	pause := f.c.Tick
	failing := false
	for ctx.Err() == nil {
		_, next, err := f.Step(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			if !failing {
				f.c.Logger.WarnContext(ctx, "event feed falls behind", "error", err)
			}
			failing = true
			next, pause = pause, min(2*pause, 5*time.Second)
		case err == nil:
			if failing {
				f.c.Logger.InfoContext(ctx, "event feed goes on")
			}
			failing, pause = false, f.c.Tick
		}
		sleep(ctx, next, nil)
	}
	if f.held {
		done, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = f.lease.release(done, f.store.Pool(), nil) // it lapses by itself otherwise
	}
	return nil
}

// Step publishes one page, or what an earlier step left of one.
func (f *Feed) Step(ctx context.Context) (did bool, next time.Duration, err error) {
	if !f.held {
		held, err := f.acquire(ctx)
		if err != nil || !f.held {
			return false, min(max(held, f.c.Tick), f.c.Lease), err
		}
	}
	if f.next == nil {
		if err := f.read(ctx); err != nil {
			return false, f.c.Tick, err
		}
		if err := crashpoint.Err(crashpoint.FeedPostRead); err != nil {
			return false, f.c.Tick, err
		}
	}
	moved := len(f.pending) > 0
	if err := f.publish(ctx); err != nil {
		return moved, f.c.Tick, errors.Join(err, f.save(ctx, f.at, false))
	}
	if moved {
		if err := crashpoint.Err(crashpoint.FeedPostPublish); err != nil {
			return moved, f.c.Tick, err
		}
	}
	if err := f.save(ctx, *f.next, moved); err != nil {
		return moved, 0, err
	}
	crashpoint.At(crashpoint.FeedPostSave)
	f.at, f.next = *f.next, nil
	if !f.last {
		return true, 0, nil
	}
	return moved, f.c.Tick, nil
}

func (f *Feed) acquire(ctx context.Context) (held time.Duration, err error) {
	asked := time.Now()
	at, _, held, err := f.lease.acquire(ctx, f.store.Pool())
	if err != nil || held > 0 {
		return held, err
	}
	f.held, f.renewed, f.at, f.next, f.pending = true, asked, at, nil, nil
	return 0, nil
}

func (f *Feed) read(ctx context.Context) error {
	page, cursor, end, err := f.store.ReadSome(ctx, f.at.Cursor, f.c.Limit)
	if err != nil {
		return err
	}
	f.pending, f.gone, f.last = page, make([]bool, len(page)), end
	f.next = &checkpoint{Cursor: cursor, Applied: f.at.Applied}
	for _, r := range page {
		f.next.Applied = max(f.next.Applied, r.Position)
	}
	return nil
}

// save saves the place if it has moved, and renews the lease in time.
func (f *Feed) save(ctx context.Context, at checkpoint, moved bool) error {
	if !f.held || !moved && time.Since(f.renewed) < f.c.Lease/3 {
		return nil
	}
	asked := time.Now()
	if _, err := f.lease.save(ctx, f.store.Pool(), at); err != nil {
		if errors.Is(err, errReplaced) {
			f.held = false
		}
		return err
	}
	f.renewed = asked
	return nil
}

// publish sends the page in waves. An event that fails holds back the later ones
// of its stream, and of this page no other.
func (f *Feed) publish(ctx context.Context) error {
	var first error
	stuck := map[uuid.UUID]bool{}
	for _, wave := range f.waves() {
		if len(stuck) > 0 {
			wave = slices.DeleteFunc(wave, func(i int) bool { return stuck[f.pending[i].StreamID] })
		}
		if len(wave) == 0 {
			continue
		}
		// A wave must be over before anybody else can own the feed.
		if f.c.Lease-time.Since(f.renewed) < 2*f.c.Wave {
			f.held = false
			return errReplaced
		}
		for i, err := range f.send(ctx, wave) {
			stuck[f.pending[i].StreamID] = true
			if first == nil {
				first = err
			}
		}
	}
	if first != nil {
		return fmt.Errorf("publish events: %w", first)
	}
	f.pending = nil
	return nil
}

// waves are the events of the page that are not published, by index: the first of
// every stream, then the second, and so on.
func (f *Feed) waves() [][]int {
	var waves [][]int
	turns := make(map[uuid.UUID]int, len(f.pending))
	for i, r := range f.pending {
		if f.gone[i] {
			continue
		}
		turn := turns[r.StreamID]
		turns[r.StreamID]++
		if turn == len(waves) {
			waves = append(waves, nil)
		}
		waves[turn] = append(waves[turn], i)
	}
	return waves
}

// send publishes the events and gives back those that failed, by index.
func (f *Feed) send(ctx context.Context, wave []int) map[int]error {
	ctx, cancel := context.WithTimeout(ctx, f.c.Wave)
	defer cancel()
	messages := make([]*message.Message, len(wave))
	for n, i := range wave {
		messages[n] = f.message(ctx, f.events.event(f.pending[i]), f.pending[i])
	}
	failed := map[int]error{}
	err := f.c.Publisher.Publish(protocol.EventSubjects, messages...)
	if err != nil {
		for n, why := range f.c.Failures.Failed(err, len(wave)) {
			failed[wave[n]] = why
		}
	}
	for _, i := range wave {
		if why := failed[i]; why != nil && f.c.Failures.Permanent(why) && f.sendBare(ctx, i, why) == nil {
			delete(failed, i)
		}
		if failed[i] == nil {
			f.gone[i] = true
		}
	}
	return failed
}

// sendBare publishes that an event exists which cannot be carried.
func (f *Feed) sendBare(ctx context.Context, i int, why error) error {
	r := f.pending[i]
	f.c.Logger.WarnContext(ctx, "event is published without its data", "stream_id", r.StreamID, "version", r.Version, "error", why)
	return f.c.Publisher.Publish(protocol.EventSubjects, f.message(ctx, f.events.event(r).withoutData("too_large"), r))
}

func (f *Feed) message(ctx context.Context, e CloudEvent, r eventstore.Recorded) *message.Message {
	m := message.NewMessage(e.ID, e.appendJSON(make([]byte, 0, 512+len(e.Data))))
	m.SetContext(ctx)
	m.Metadata["subject"] = protocol.EventSubject(partition(e.Subject, protocol.EventPartitions), f.events.names(r).token)
	m.Metadata[protocol.HeaderMsgID] = strconv.Itoa(r.Era) + ":" + e.ID
	m.Metadata[protocol.HeaderExpectedStream] = protocol.EventsStream
	m.Metadata[protocol.HeaderContentType] = protocol.ContentTypeCloudEvent
	return m
}
