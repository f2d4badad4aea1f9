//go:build linux

package crashtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/internal/crashtest/judge"
	"github.com/daybookhq/daybook/worker/protocol"
)

// tap listens to what a worker says and hears, over NATS and over HTTP, without
// the worker's knowing, and notes it as acts.
type tap struct {
	worker string
	note   func(judge.Act)
	trap   *trap
	acks   atomic.Bool // what is being sent has one in it

	mu      sync.Mutex
	asked   map[string]question        // by reply subject
	mail    map[string][]protocol.Hint // unacknowledged, by the subject of their ack
	started map[attemptKey]uuid.UUID   // the claim of an attempt
}

type question struct {
	op    string
	items []protocol.StartItem // of them only the ids are read
	sent  time.Time
}

type attemptKey struct {
	run     uuid.UUID
	attempt int
}

func newTap(worker string, note func(judge.Act), tr *trap) *tap {
	return &tap{worker: worker, note: note, trap: tr, asked: map[string]question{}, mail: map[string][]protocol.Hint{}, started: map[attemptKey]uuid.UUID{}}
}

// claimOf is the claim that the worker was told an attempt belongs to.
func (t *tap) claimOf(run uuid.UUID, attempt int) uuid.UUID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.started[attemptKey{run, attempt}]
}

// judged are the operations whose answers are noted.
var judged = map[string]bool{
	protocol.OpStart: true, protocol.OpComplete: true, protocol.OpFail: true, protocol.OpSnooze: true, protocol.OpRelease: true,
}

func (t *tap) ask(op string, body []byte) (question, bool) {
	if !judged[op] {
		return question{}, false
	}
	switch op {
	case protocol.OpStart:
		t.trap.at("pre_start")
	case protocol.OpComplete:
		t.trap.at("pre_complete")
	}
	var q struct{ Items []protocol.StartItem }
	if err := json.Unmarshal(body, &q); err != nil {
		return question{}, false
	}
	return question{op, q.Items, time.Now()}, true
}

// answer notes what became of each item of a request.
func (t *tap) answer(q question, body []byte) {
	var reply protocol.Reply[struct {
		Status  protocol.Status
		Code    protocol.RefusalCode
		Next    protocol.Next
		Error   *protocol.Error
		Attempt int
	}]
	if err := json.Unmarshal(body, &reply); err != nil || reply.Error != nil {
		return // nothing was decided
	}
	now := time.Now()
	for i, r := range reply.Results {
		if r.Error != nil || i >= len(q.items) {
			continue
		}
		code := string(r.Status)
		switch {
		case r.Status == protocol.StatusRefused:
			code = string(r.Code)
		case r.Next != "":
			code = string(protocol.StatusRecorded)
		}
		it := q.items[i]
		if r.Status == protocol.StatusStarted {
			t.mu.Lock()
			t.started[attemptKey{it.RunID, r.Attempt}] = it.ClaimID
			t.mu.Unlock()
		}
		t.note(judge.Act{At: now, Sent: q.sent, Worker: t.worker, What: judge.Answered, Op: q.op, Code: code, Run: it.RunID, Claim: it.ClaimID, Attempt: r.Attempt})
	}
	switch q.op {
	case protocol.OpStart:
		t.trap.at("post_start")
	case protocol.OpComplete:
		t.trap.at("post_complete")
	}
}

// RoundTrip listens to HTTP.
func (t *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	op := strings.TrimPrefix(req.URL.Path, protocol.HTTPPath(""))
	var q question
	ok := false
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		_ = req.Body.Close()
		req.Body = io.NopCloser(bytes.NewReader(body))
		q, ok = t.ask(op, body)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK || !ok && op != protocol.OpPoll {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if ok {
		t.answer(q, body)
		return resp, nil
	}
	var poll protocol.PollReply
	if json.Unmarshal(body, &poll) == nil {
		for _, h := range poll.Dispatches {
			t.note(judge.Act{At: time.Now(), Worker: t.worker, What: judge.Received, Run: h.RunID, Claim: h.ClaimID})
		}
	}
	return resp, nil
}

// sent is a frame that the worker sends.
func (t *tap) sent(f frame) {
	switch {
	case f.verb != "PUB" && f.verb != "HPUB":
	case strings.HasPrefix(f.subject, "$JS.ACK."):
		t.mu.Lock()
		hints := t.mail[f.subject]
		verdict := string(f.body)
		if verdict == "+WPI" {
			hints = nil
		} else {
			delete(t.mail, f.subject)
		}
		t.mu.Unlock()
		if verdict == "" {
			verdict = "+ACK"
		}
		if verdict == "+ACK" {
			t.trap.at("pre_ack")
			t.acks.Store(true)
		}
		for _, h := range hints {
			t.note(judge.Act{At: time.Now(), Worker: t.worker, What: judge.Acked, Run: h.RunID, Claim: h.ClaimID, Code: verdict})
		}
	case f.reply != "":
		if q, ok := t.ask(strings.TrimPrefix(f.subject, protocol.RPCSubject("")), f.body); ok {
			t.mu.Lock()
			t.asked[f.reply] = q
			t.mu.Unlock()
		}
	}
}

// heard is a frame that the worker gets.
func (t *tap) heard(f frame) {
	if f.verb != "MSG" && f.verb != "HMSG" {
		return
	}
	t.mu.Lock()
	q, ok := t.asked[f.subject]
	delete(t.asked, f.subject)
	t.mu.Unlock()
	if ok {
		if len(f.body) > 0 { // else nobody is there to answer
			t.answer(q, f.body)
		}
		return
	}
	if !strings.HasPrefix(f.reply, "$JS.ACK.") {
		return
	}
	hints, err := protocol.DecodeHints(f.body)
	if err != nil {
		return
	}
	t.mu.Lock()
	t.mail[f.reply] = hints
	t.mu.Unlock()
	// $JS.ACK.stream.consumer.delivered.stream sequence.…
	part := strings.Split(f.reply, ".")
	if len(part) < 6 {
		return
	}
	consumer := strings.Split(part[3], "+")
	delivered, _ := strconv.Atoi(part[4])
	a := judge.Act{At: time.Now(), Worker: t.worker, What: judge.Received, Delivery: delivered, Message: part[3] + ":" + part[5], ID: f.header(protocol.HeaderMsgID), First: true}
	if len(consumer) == 3 {
		a.Queue, a.Kind = consumer[0], consumer[1]
	}
	for _, h := range hints {
		a.Run, a.Claim = h.RunID, h.ClaimID
		t.note(a)
		a.First = false
	}
	t.trap.at("post_fetch")
}

// Dial connects to NATS through the tap.
func (t *tap) Dial(network, address string) (net.Conn, error) {
	c, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &tapped{Conn: c, tap: t, out: frames{take: t.sent}, in: frames{take: t.heard}}, nil
}

type tapped struct {
	net.Conn
	tap     *tap
	out, in frames
}

func (c *tapped) Write(b []byte) (int, error) {
	c.out.feed(b)
	n, err := c.Conn.Write(b)
	if c.tap.acks.Swap(false) {
		c.tap.trap.at("post_ack")
	}
	return n, err
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.in.feed(b[:n])
	return n, err
}

// frame is a line of the NATS protocol with its payload.
type frame struct {
	verb, subject, reply string
	head, body           []byte
}

func (f frame) header(name string) string {
	for line := range strings.SplitSeq(string(f.head), "\r\n") {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// frames cuts a stream of bytes into frames.
type frames struct {
	rest []byte
	take func(frame)
}

func (p *frames) feed(b []byte) {
	p.rest = append(p.rest, b...)
	for {
		n, f := cut(p.rest)
		if n == 0 {
			return
		}
		if f.verb != "" {
			p.take(f)
		}
		p.rest = p.rest[n:]
		if len(p.rest) == 0 {
			p.rest = nil
		}
	}
}

// cut reads one frame and tells how long it is; 0: it is not all there.
func cut(b []byte) (int, frame) {
	line, _, ok := bytes.Cut(b, []byte("\r\n"))
	if !ok {
		return 0, frame{}
	}
	n := len(line) + 2
	word := strings.Fields(string(line))
	if len(word) == 0 {
		return n, frame{}
	}
	f := frame{verb: strings.ToUpper(word[0])}
	args := word[1:]
	headed := false
	switch f.verb {
	case "PUB":
	case "HPUB":
		headed = true
	case "MSG", "HMSG":
		headed = f.verb == "HMSG"
		if len(args) > 1 {
			args = append(args[:1:1], args[2:]...) // without the subscription's number
		}
	default:
		return n, frame{}
	}
	sizes := 1
	if headed {
		sizes = 2
	}
	if len(args) < 1+sizes {
		return n, frame{}
	}
	f.subject = args[0]
	if len(args) > 1+sizes {
		f.reply = args[1]
	}
	total, err1 := strconv.Atoi(args[len(args)-1])
	head := 0
	var err2 error
	if headed {
		head, err2 = strconv.Atoi(args[len(args)-2])
	}
	if err1 != nil || err2 != nil || head > total {
		panic(fmt.Sprintf("tap: %q", line))
	}
	if len(b) < n+total+2 {
		return 0, frame{}
	}
	f.head = bytes.Clone(b[n : n+head])
	f.body = bytes.Clone(b[n+head : n+total])
	return n + total + 2, f
}
