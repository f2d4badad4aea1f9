package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/worker/protocol"
)

const (
	verifyEvery = time.Minute // configuration on the server may change under us
	bindTimeout = 5 * time.Second
)

// lane pulls the messages of one (queue, kind) from its consumer.
type lane struct {
	protocol.Lane
	s   *session
	log *slog.Logger

	puller     *puller
	name       string // of the consumer
	verified   time.Time
	connection uint64    // the reconnect count it was verified on
	perMessage int       // runs in recent messages
	late       []*parcel // came while draining, to be given back once nothing is pulled

	bound   atomic.Bool
	lost    atomic.Int64 // when it was unbound, Unix ns
	heard   atomic.Int64 // when it was bound, brought a message, or was polled in vain, Unix ns
	ackWait atomic.Int64 // of the consumer, ns
	parcels parcels
}

func newLane(s *session, l protocol.Lane) *lane {
	ln := &lane{Lane: l, s: s, perMessage: 1, log: s.log.With("queue", l.Queue, "kind", l.Kind)}
	ln.lost.Store(time.Now().UnixNano())
	return ln
}

// run pulls until ctx ends. Everything that was delivered is in hand, or given back, when it returns.
func (l *lane) run(ctx context.Context) {
	defer l.close()
	var retry backoff
	hot := false
	for ctx.Err() == nil {
		if err := l.bind(ctx); err != nil {
			l.unbind(err)
			retry.sleep(ctx)
			continue
		}
		// A lane that has all slots to itself asks for as much as it can take, once, and is sent what comes. With others
		// beside it, it asks for one message, and when that has come for what else there is.
		alone := l.s.slots.alone()
		want := 1
		if hot || alone {
			want = min(l.s.cfg.Slots, maxPull*l.perMessage)
		}
		units := l.s.slots.reserve(ctx, want, hot)
		if units == 0 {
			return
		}
		var wait time.Duration
		if !hot || alone {
			wait = l.s.slots.wait()
		}
		got, err := l.puller.pull(ctx, protocol.DispatchStream, l.name, max(1, units/l.perMessage), wait, l.receive)
		l.s.slots.unreserve(units)
		hot = got > 0
		if err != nil {
			l.unbind(err)
			retry.sleep(ctx)
			continue
		}
		retry.reset()
	}
}

// bind makes sure that the consumer is that of the stream's present incarnation.
func (l *lane) bind(ctx context.Context) error {
	if !l.s.conn.IsConnected() {
		return errNotConnected
	}
	connection := l.s.conn.Stats().Reconnects
	if l.bound.Load() && connection == l.connection && time.Since(l.verified) < verifyEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	stream, err := l.s.js.Stream(ctx, protocol.DispatchStream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", protocol.DispatchStream, err)
	}
	name := protocol.ConsumerName(l.Queue, l.Kind, stream.CachedInfo().Created)
	consumer, err := stream.Consumer(ctx, name)
	if err != nil {
		return fmt.Errorf("consumer %s: %w", name, err)
	}
	l.ackWait.Store(int64(consumer.CachedInfo().Config.AckWait))
	if l.name != name || !l.bound.Load() {
		l.log.Info("pulling", "consumer", name)
	}
	if l.puller == nil {
		if l.puller, err = newPuller(l.s.conn); err != nil {
			return err
		}
		l.s.group.start(func() { l.extend(l.s.rpc) })
	}
	l.name, l.verified, l.connection = name, time.Now(), connection
	if !l.bound.Swap(true) {
		l.heard.Store(time.Now().UnixNano())
		l.s.slots.join()
		l.s.laneChanged()
	}
	return nil
}

// unbind gives the consumer up; the lane is polled over HTTP, if at all, until it is bound again.
func (l *lane) unbind(why error) {
	if !l.bound.Swap(false) {
		return
	}
	l.lost.Store(time.Now().UnixNano())
	l.s.slots.leave()
	l.s.laneChanged()
	if why != nil {
		l.log.Warn("cannot pull; trying again", "error", why)
	}
}

func (l *lane) close() {
	l.unbind(nil)
	if l.puller != nil {
		l.puller.close(l.receive)
	}
	for _, p := range l.late {
		p.giveBack()
	}
}

func (l *lane) receive(msg *nats.Msg) {
	l.heard.Store(time.Now().UnixNano())
	hints, err := decodeMessage(msg)
	if err != nil {
		l.log.Error("dispatch message terminated", "subject", msg.Subject, "error", err)
		if err := l.s.conn.Publish(msg.Reply, []byte(termPayload+clip(err.Error(), 200))); err != nil {
			l.log.Warn("message not terminated", "error", err)
		}
		return
	}
	l.perMessage = len(hints)
	p := &parcel{msg: msg, lane: l, size: len(hints), left: len(hints), extended: time.Now()}
	l.parcels.add(p)
	tasks := make([]*task, len(hints))
	for i, h := range hints {
		tasks[i] = newTask(h, p)
	}
	if !l.s.take(tasks) {
		l.late = append(l.late, p)
	}
}

func decodeMessage(msg *nats.Msg) ([]protocol.Hint, error) {
	if v := msg.Header.Get(protocol.HeaderProtocol); v != "" && v != protocol.ProtocolVersion {
		return nil, fmt.Errorf("dispatch message: protocol version %s, this worker speaks %s", strconv.Quote(v), protocol.ProtocolVersion)
	}
	return protocol.DecodeHints(msg.Data)
}

// extend keeps the messages in hand from being redelivered: none goes longer than a third of the ack wait without word.
func (l *lane) extend(ctx context.Context) {
	for {
		tick := max(time.Duration(l.ackWait.Load())/6, 10*time.Millisecond)
		select {
		case <-ctx.Done():
			return
		case now := <-time.After(tick):
			l.parcels.extend(now, now.Add(-tick))
		}
	}
}
