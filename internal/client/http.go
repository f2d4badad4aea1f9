package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// HTTPOptions say how to reach a deployment through an engine's API.
type HTTPOptions struct {
	URL   string // base, for example http://127.0.0.1:7788
	Token string // bearer token; empty: none

	// Actor is who gives the commands. It is believed only together with the
	// token that `daybook dev` leaves for the commands of its owner; otherwise the
	// token's name is on record.
	Actor string

	// Patience is how long a request is repeated whose reply was lost, or that the
	// server had no time for; a wait outlasts a server that is away for four times
	// as long. 0: 15 s.
	Patience time.Duration
}

// HTTP is a Client over an engine's API. It connects with the first request.
type HTTP struct {
	base     string
	token    string
	actor    string
	patience time.Duration
	client   *http.Client
	reached  atomic.Bool // it has answered before
}

var _ Client = (*HTTP)(nil)

const (
	patience       = 15 * time.Second
	answerTimeout  = 45 * time.Second // of one try; the server gives up after 30 s
	connectTimeout = 5 * time.Second
	maxAnswer      = 64 << 20
	waitAtATime    = 20 * time.Second
	// ActorHeader names who gives a command; see HTTPOptions.Actor.
	ActorHeader = "X-Daybook-Actor"
)

// OpenHTTP makes a client. The error tells what is wrong with the URL.
func OpenHTTP(o HTTPOptions) (*HTTP, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("%q is no base URL of an engine: want for example http://127.0.0.1:7788", o.URL)
	case u.User != nil:
		return nil, fmt.Errorf("the URL of the engine on %s holds a user name: a token is given with DAYBOOK_TOKEN", u.Host)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%q is no base URL of an engine: it has a query: want for example %s://%s", o.URL, u.Scheme, u.Host)
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token holds blanks or characters that no token has")
	}
	return &HTTP{
		base: strings.TrimSuffix(u.String(), "/"), token: o.Token, actor: o.Actor, patience: cmp.Or(o.Patience, patience),
		client: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connectTimeout}).DialContext,
				TLSHandshakeTimeout: connectTimeout, MaxIdleConns: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close implements [Client].
func (h *HTTP) Close() { h.client.CloseIdleConnections() }

// request is one request to the API.
type request struct {
	method, path string
	query        url.Values
	body         any // as JSON; nil: none

	// waits says that the answer may take long to come, and that a server that is
	// away is to be waited for.
	waits time.Duration

	about subject // what it is about, for errors
}

func get(path string, query url.Values) request {
	return request{method: http.MethodGet, path: path, query: query}
}

func post(path string, body any) request {
	return request{method: http.MethodPost, path: path, body: body}
}

// do sends the request, again if need be, and decodes the answer. Every change
// carries a key of its own, the same with each try: it is carried out one time
// at most, and the answer of the first try is found by the second.
func (h *HTTP) do(ctx context.Context, q request, out any) error {
	var body []byte
	if q.body != nil {
		var err error
		if body, err = json.Marshal(q.body); err != nil {
			return err
		}
	}
	key := ""
	if q.method != http.MethodGet {
		key = uuid.NewString()
	}
	tries := trying{began: time.Now(), patience: h.patience}
	if q.waits > 0 && h.reached.Load() {
		tries.patience, tries.sent = 4*h.patience, true
	}
	for {
		got, err := h.send(ctx, q, body, key)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var after time.Duration
		if err == nil {
			h.reached.Store(true)
			if err = h.judge(q, got); err == nil {
				return decode(got, out)
			}
			after = retryAfter(got)
		}
		if !tries.again(err) {
			return tries.failed(h.base, q, key != "", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(after, tries.pause())):
		}
	}
}

// answer is a response with its body read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (h *HTTP) send(ctx context.Context, q request, body []byte, key string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout+q.waits)
	defer cancel()
	req, err := h.newRequest(ctx, q, body, key)
	if err != nil {
		return nil, err
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("the answer to %s %s exceeds %d MiB: ask for less", q.method, q.path, maxAnswer>>20)
	}
	return &answer{resp.StatusCode, resp.Header, text}, nil
}

func (h *HTTP) newRequest(ctx context.Context, q request, body []byte, key string) (*http.Request, error) {
	target := h.base + q.path
	if len(q.query) > 0 {
		target += "?" + q.query.Encode()
	}
	var r io.Reader = http.NoBody
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, target, r)
	if err != nil {
		return nil, err
	}
	set := func(name, value string) {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	set("Accept", "application/json")
	set("Idempotency-Key", key)
	set(ActorHeader, h.actor)
	if body != nil {
		set("Content-Type", "application/json")
	}
	if h.token != "" {
		set("Authorization", "Bearer "+h.token)
	}
	return req, nil
}

func decode(a *answer, out any) error {
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(a.body, out); err != nil {
		return fmt.Errorf("the engine's answer cannot be read: %w: is it of another version?", err)
	}
	return nil
}

// media is the type of the body, without parameters.
func (a *answer) media() string {
	m, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	return m
}

// retryAfter is how long the server wants to be left alone, within reason.
func retryAfter(a *answer) time.Duration {
	seconds, _ := strconv.Atoi(a.header.Get("Retry-After"))
	return min(time.Duration(max(seconds, 0))*time.Second, 5*time.Second)
}

// trying decides how often a request is sent.
type trying struct {
	began, failing time.Time // failing: since when
	patience       time.Duration
	sent           bool // the server may have got it, or was there before
	n              int
}

// again reports whether to send it again: if the answer was lost or the server
// had no time, for as long as patience lasts. A server that was never there is
// not waited for.
func (t *trying) again(err error) bool {
	if t.n++; t.n == 1 {
		t.failing = time.Now()
	}
	if api, ok := errors.AsType[*APIError](err); ok {
		t.sent = true
		if !api.passes() {
			return false
		}
	} else if !lost(err) {
		return false
	} else if dial, ok := errors.AsType[*net.OpError](err); !ok || dial.Op != "dial" {
		t.sent = true
	}
	return t.sent && time.Since(t.failing) < t.patience
}

// lost reports whether an error means that no answer came.
func lost(err error) bool {
	_, transport := errors.AsType[*url.Error](err)
	_, network := errors.AsType[net.Error](err)
	return transport || network || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errSilent) || errors.Is(err, context.DeadlineExceeded)
}

const (
	pauseFirst = 100 * time.Millisecond
	pauseMax   = 2 * time.Second
)

// pause grows, and differs from client to client.
func (t *trying) pause() time.Duration {
	p := min(pauseFirst<<min(t.n-1, 10), pauseMax)
	return p/2 + rand.N(p)
}

// failed is the error to end with: a decision of the server's as it is.
func (t *trying) failed(base string, q request, change bool, err error) error {
	if api, ok := errors.AsType[*APIError](err); ok && !api.away() || !ok && !lost(err) {
		return err
	}
	return &UnreachableError{URL: base, Asked: q.method + " " + q.path, Tries: t.n, Took: time.Since(t.began), Unknown: change && t.sent, Err: err}
}
