package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/worker"
	"github.com/daybookhq/daybook/worker/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a condition may take on a loaded machine.
const patience = 20 * time.Second

// engine answers the worker protocol as a real one would, from memory, and notes everything that happens in order.
type engine struct {
	t     testing.TB
	nats  *natstest.Server
	conn  *nats.Conn
	js    jetstream.JetStream
	http  *httptest.Server
	lease time.Duration
	ack   time.Duration

	// intercept may answer instead of the engine (via is "nats" or "http"). A nil reply is lost.
	intercept func(via, op string, body []byte) (reply []byte, handled bool)
	// answered may change a reply the engine made; nil loses it after the fact.
	answered func(via, op string, body, reply []byte) []byte

	mu       sync.Mutex
	runs     map[uuid.UUID]*fakeRun // by claim
	order    []*fakeRun
	keys     map[string]uuid.UUID
	log      []string
	presence []protocol.PresenceRequest
	starts   []protocol.StartItem

	startedVia []string // of each start
	token      string   // wanted over HTTP
	changed    chan struct{}
}

type fakeRun struct {
	claim   protocol.Claim
	lane    protocol.Lane
	name    string
	args    string
	timeout time.Duration

	token   uuid.UUID
	started bool
	until   time.Time
	cancel  bool
	end     string // "complete", …, "closed"
	fail    protocol.FailItem
	done    protocol.CompleteItem
	snooze  protocol.SnoozeItem
	release protocol.ReleaseItem
	beats   []protocol.HeartbeatItem
}

const queue, kind = "q", "k"

func newEngine(t testing.TB) *engine {
	e := &engine{
		t: t, lease: 30 * time.Second, ack: 5 * time.Second,
		runs: map[uuid.UUID]*fakeRun{}, keys: map[string]uuid.UUID{}, changed: make(chan struct{}),
	}
	return e
}

// serveNATS starts a server with the dispatch stream and answers on it, noting the acks of messages too.
func (e *engine) serveNATS(lanes ...protocol.Lane) *engine {
	e.nats = natstest.New(e.t)
	e.js = e.nats.JetStream(e.t)
	if len(lanes) == 0 {
		lanes = []protocol.Lane{{Queue: queue, Kind: kind}}
	}
	e.createStream(lanes...)
	nc := e.nats.Conn(e.t)
	e.conn = nc
	e.subscribe(nc, protocol.RPCSubjects, func(m *nats.Msg) {
		if reply := e.call("nats", strings.TrimPrefix(m.Subject, protocol.RPCSubject("")), m.Data); reply != nil {
			_ = m.Respond(reply)
		}
	})
	e.subscribe(nc, "$JS.ACK."+protocol.DispatchStream+".>", func(m *nats.Msg) {
		e.note("msg %s", m.Data)
	})
	if err := nc.Flush(); err != nil {
		e.t.Fatal(err)
	}
	return e
}

func (e *engine) subscribe(nc *nats.Conn, subject string, f func(*nats.Msg)) {
	if _, err := nc.Subscribe(subject, f); err != nil {
		e.t.Fatal(err)
	}
}

func (e *engine) createStream(lanes ...protocol.Lane) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	s, err := e.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: protocol.DispatchStream, Subjects: []string{protocol.DispatchSubjects}, Retention: jetstream.WorkQueuePolicy,
		Discard: jetstream.DiscardNew, AllowMsgTTL: true, Storage: jetstream.FileStorage,
	})
	if err != nil {
		e.t.Fatal(err)
	}
	for _, l := range lanes {
		e.createConsumer(s, l)
	}
}

func (e *engine) createConsumer(s jetstream.Stream, l protocol.Lane) string {
	e.t.Helper()
	name := protocol.ConsumerName(l.Queue, l.Kind, s.CachedInfo().Created)
	if _, err := s.CreateConsumer(e.t.Context(), jetstream.ConsumerConfig{
		Durable: name, FilterSubject: protocol.DispatchSubject(l.Queue, l.Kind), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: e.ack, MaxDeliver: 5, MaxAckPending: 10_000,
	}); err != nil {
		e.t.Fatal(err)
	}
	return name
}

// serveHTTP answers over HTTP too.
func (e *engine) serveHTTP() *engine {
	e.http = httptest.NewServer(http.HandlerFunc(e.handle))
	e.t.Cleanup(e.http.Close)
	return e
}

func (e *engine) handle(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if e.token != "" && r.Header.Get("Authorization") != "Bearer "+e.token {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"type":"unauthorized","title":"token lacks the scope work"}`)
		return
	}
	op := strings.TrimPrefix(r.URL.Path, "/v1/work/")
	if op == protocol.OpPoll {
		e.handlePoll(w, r, body)
		return
	}
	reply := e.call("http", op, body)
	if reply == nil {
		panic(http.ErrAbortHandler)
	}
	w.Write(reply)
}

func (e *engine) handlePoll(w http.ResponseWriter, r *http.Request, body []byte) {
	var req protocol.PollRequest
	if err := json.Unmarshal(body, &req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	timeout := time.After(req.Wait.Std())
	for {
		e.mu.Lock()
		changed := e.changed
		var reply protocol.PollReply
		for _, run := range e.order {
			if !run.started && run.end == "" && slices.Contains(req.Lanes, run.lane) && len(reply.Dispatches) < req.Max {
				reply.Dispatches = append(reply.Dispatches, run.hint())
			}
		}
		e.mu.Unlock()
		if len(reply.Dispatches) > 0 {
			e.note("poll")
			json.NewEncoder(w).Encode(reply)
			return
		}
		select {
		case <-changed:
		case <-timeout:
			json.NewEncoder(w).Encode(reply)
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (r *fakeRun) hint() protocol.Hint {
	return protocol.Hint{RunID: r.claim.RunID, ClaimID: r.claim.ClaimID, LeaseUntil: protocol.At(time.Now().Add(time.Minute))}
}

// claim makes a claimed run that nobody was told of.
func (e *engine) claim(l protocol.Lane, name, args string) *fakeRun {
	r := &fakeRun{claim: protocol.Claim{RunID: uuid.New(), ClaimID: uuid.New()}, lane: l, name: name, args: args}
	e.mu.Lock()
	e.runs[r.claim.ClaimID] = r
	e.order = append(e.order, r)
	e.mu.Unlock()
	return r
}

// wakePolls answers waiting polls.
func (e *engine) wakePolls() {
	e.mu.Lock()
	close(e.changed)
	e.changed = make(chan struct{})
	e.mu.Unlock()
}

// dispatch publishes one message with the runs.
func (e *engine) dispatch(runs ...*fakeRun) {
	e.t.Helper()
	var hints []protocol.Hint
	for _, r := range runs {
		hints = append(hints, r.hint())
	}
	e.publish(runs[0].lane, protocol.AppendHints(nil, hints))
}

func (e *engine) publish(l protocol.Lane, body []byte) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	if _, err := e.js.Publish(ctx, protocol.DispatchSubject(l.Queue, l.Kind), body); err != nil {
		e.t.Fatal(err)
	}
}

// run claims and dispatches one run of the usual lane.
func (e *engine) run(name, args string) *fakeRun {
	e.t.Helper()
	r := e.claim(protocol.Lane{Queue: queue, Kind: kind}, name, args)
	e.dispatch(r)
	return r
}

func (e *engine) note(format string, args ...any) {
	e.mu.Lock()
	e.log = append(e.log, fmt.Sprintf(format, args...))
	e.mu.Unlock()
}

func (e *engine) noted() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.log)
}

// sync waits until every acknowledgement that has reached the server is noted.
func (e *engine) sync() {
	e.t.Helper()
	mark := uuid.NewString()
	if err := e.conn.Publish("$JS.ACK."+protocol.DispatchStream+".sync", []byte(mark)); err != nil {
		e.t.Fatal(err)
	}
	e.awaitNote("msg " + mark)
}

// count is how many notes begin with prefix.
func (e *engine) count(prefix string) (n int) {
	for _, l := range e.noted() {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

func (e *engine) await(what string, cond func() bool) {
	e.t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			e.t.Fatalf("timed out waiting: %s\nlog: %s", what, strings.Join(e.noted(), "\n     "))
		}
	}
}

func (e *engine) awaitNote(prefix string) {
	e.t.Helper()
	e.await("note "+prefix, func() bool { return e.count(prefix) > 0 })
}

// ended waits for the run's end and says which.
func (e *engine) ended(r *fakeRun) string {
	e.t.Helper()
	var end string
	e.await("end of "+r.name, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		end = r.end
		return end != ""
	})
	return end
}

func (e *engine) stored() uint64 {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	s, err := e.js.Stream(ctx, protocol.DispatchStream)
	if err != nil {
		e.t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// awaitStored waits until so many messages are left in the stream.
func (e *engine) awaitStored(n uint64) {
	e.t.Helper()
	e.await(fmt.Sprintf("%d messages left in the stream", n), func() bool { return e.stored() == n })
}

// worker makes a worker for the engine.
func (e *engine) worker(change func(*worker.Config)) *worker.Worker {
	cfg := worker.Config{Queue: queue, Slots: 4, Name: "w", Logger: natstest.Quiet(), DrainTimeout: patience, StopTimeout: patience, NATSOptions: []nats.Option{nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0)}}
	if os.Getenv("WORKER_TEST_LOG") != "" {
		cfg.Logger = nil
	}
	if e.nats != nil {
		cfg.NATSURL = e.nats.URL()
	}
	if e.http != nil {
		cfg.URL = e.http.URL
	}
	if change != nil {
		change(&cfg)
	}
	w := worker.New(cfg)
	worker.Hurry(w)
	return w
}

// start runs w; stop ends it and returns what Run returned.
func (e *engine) start(w *worker.Worker) (stop func() error) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case err = <-done:
			case <-time.After(3 * patience):
				e.t.Error("Run did not return")
			}
		})
		return err
	}
	e.t.Cleanup(func() {
		if err := stop(); err != nil && !e.t.Failed() {
			e.t.Logf("Run returned %v", err)
		}
	})
	return stop
}
