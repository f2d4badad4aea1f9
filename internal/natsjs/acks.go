package natsjs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// acks hands out the server's answers to the waves that wait for them, by one subscription. The client's own
// PublishMsgAsync keeps a timer, two channels and a table entry for each message and decodes each answer by
// reflection, which was a quarter of what publishing an event costs broker and publisher together.
type acks struct {
	nc    *nats.Conn
	inbox string

	mu      sync.Mutex
	last    uint64
	flights map[uint64]*flight
}

// flight is a wave on its way.
type flight struct {
	acks       *acks
	id         uint64
	prefix     string // of the reply subjects, up to the message's number
	reconnects uint64 // of the connection when it left

	mu    sync.Mutex
	found []*answer // by message; nil: none yet, or not sent
	left  int
	done  chan struct{} // closed when nobody is awaited any more
}

// answer is what the server said to a message.
type answer struct {
	duplicate bool
	err       error
}

func newAcks(nc *nats.Conn) (*acks, error) {
	a := &acks{nc: nc, inbox: nc.NewInbox(), flights: map[uint64]*flight{}}
	sub, err := nc.Subscribe(a.inbox+".>", a.receive)
	if err != nil {
		return nil, err
	}
	// Each wave is bounded, and what is dropped here could only be reported as unknown.
	return a, sub.SetPendingLimits(-1, -1)
}

// depart begins a wave of so many messages.
func (a *acks) depart(messages int) *flight {
	f := &flight{acks: a, reconnects: a.nc.Stats().Reconnects, found: make([]*answer, messages), left: messages, done: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	f.id = a.last
	f.prefix = a.inbox + "." + strconv.FormatUint(f.id, 10) + "."
	a.flights[f.id] = f
	return f
}

func (f *flight) reply(message int) string { return f.prefix + strconv.Itoa(message) }

// settle notes how a message ended; a second answer changes nothing.
func (f *flight) settle(message int, a answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if message < 0 || message >= len(f.found) || f.found[message] != nil {
		return
	}
	f.found[message] = &a
	if f.left--; f.left == 0 {
		close(f.done)
	}
}

func (a *acks) receive(m *nats.Msg) {
	id, message, ok := strings.Cut(m.Subject[len(a.inbox)+1:], ".")
	n, err := strconv.ParseUint(id, 10, 64)
	i, err2 := strconv.Atoi(message)
	if !ok || err != nil || err2 != nil {
		return
	}
	a.mu.Lock()
	f := a.flights[n]
	a.mu.Unlock()
	if f != nil {
		f.settle(i, decodeAnswer(m))
	}
}

// connectionCheck is how soon a wave notices that its answers were lost with the connection.
const connectionCheck = 100 * time.Millisecond

// land waits for the answers and returns them. Those that have not come when ctx ends, or when the connection was
// lost meanwhile, are unknown.
func (f *flight) land(ctx context.Context) []*answer {
	check := time.NewTicker(connectionCheck)
	defer check.Stop()
	var missing error
	for missing == nil {
		select {
		case <-f.done:
			missing = ErrNoAck // of nobody
		case <-ctx.Done():
			missing = fmt.Errorf("%w: %w", ErrNoAck, context.Cause(ctx))
		case <-check.C:
			if !f.acks.nc.IsConnected() || f.acks.nc.Stats().Reconnects != f.reconnects {
				missing = nats.ErrDisconnected
			}
		}
	}
	f.acks.mu.Lock()
	delete(f.acks.flights, f.id)
	f.acks.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, a := range f.found {
		if a == nil {
			f.found[i] = &answer{err: missing}
		}
	}
	return f.found
}

func decodeAnswer(m *nats.Msg) answer {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return answer{err: jetstream.ErrNoStreamResponse}
	}
	if plainAck(m.Data) {
		return answer{}
	}
	var got struct {
		Error     *jetstream.APIError `json:"error"`
		Stream    string              `json:"stream"`
		Duplicate bool                `json:"duplicate"`
	}
	switch err := json.Unmarshal(m.Data, &got); {
	case err != nil:
		return answer{err: fmt.Errorf("%w: %w", jetstream.ErrInvalidJSAck, err)}
	case got.Error != nil:
		return answer{err: got.Error}
	case got.Stream == "":
		return answer{err: jetstream.ErrInvalidJSAck}
	}
	return answer{duplicate: got.Duplicate}
}

// plainAck recognises {"stream":"NAME","seq":N}, with or without spaces; anything more is decoded.
func plainAck(b []byte) bool {
	b, ok := bytes.CutPrefix(b, []byte(`{"stream":"`))
	name, b, closed := bytes.Cut(b, []byte(`"`))
	seq, stated := bytes.CutPrefix(bytes.TrimLeft(b, ", "), []byte(`"seq":`))
	seq, ended := bytes.CutSuffix(seq, []byte(`}`))
	if !ok || !closed || !stated || !ended || len(name) == 0 || bytes.IndexByte(name, '\\') >= 0 {
		return false
	}
	_, err := strconv.ParseUint(string(bytes.TrimSpace(seq)), 10, 64)
	return err == nil
}
