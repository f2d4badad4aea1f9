package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/worker/protocol"
)

// transport carries a request to an engine and brings the reply.
type transport interface {
	call(ctx context.Context, op string, request []byte) ([]byte, error)
}

const maxReply = 64 << 20

var (
	errNotConnected = errors.New("not connected to NATS")
	errNoRoute      = errors.New("no transport")
)

// natsTransport is request and reply over core NATS.
type natsTransport struct{ conn *nats.Conn }

func (t natsTransport) call(ctx context.Context, op string, request []byte) ([]byte, error) {
	if !t.conn.IsConnected() {
		return nil, errNotConnected
	}
	msg := nats.NewMsg(protocol.RPCSubject(op))
	msg.Header.Set(protocol.HeaderContentType, protocol.ContentTypeJSON)
	msg.Data = request
	reply, err := t.conn.RequestMsgWithContext(ctx, msg)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("no engine answers on %s: %w", msg.Subject, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, &protocol.Error{Code: protocol.CodeTooLarge, Message: fmt.Sprintf("request of %d bytes exceeds the payload limit of NATS", len(request))}
	case err != nil:
		return nil, fmt.Errorf("%s: %w", msg.Subject, err)
	}
	return reply.Data, nil
}

// httpTransport is POST to an engine's API.
type httpTransport struct {
	client *http.Client
	url    string // without a slash at the end
	token  string
	own    bool // the client was made here
}

func newHTTPTransport(client *http.Client, base, token string) *httpTransport {
	own := client == nil
	if own {
		// Not the default transport: its idle connections would be shared with the program and outlive the worker.
		tr := http.DefaultTransport.(*http.Transport).Clone()
		tr.MaxIdleConnsPerHost = 8
		client = &http.Client{Transport: tr}
	}
	return &httpTransport{client, strings.TrimRight(base, "/"), token, own}
}

func (t *httpTransport) call(ctx context.Context, op string, request []byte) ([]byte, error) {
	body, status, err := t.post(ctx, protocol.HTTPPath(op), request)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, httpError(op, status, body)
	}
	return body, nil
}

func (t *httpTransport) post(ctx context.Context, path string, request []byte) ([]byte, int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+path, bytes.NewReader(request))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", protocol.ContentTypeJSON)
	if t.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("POST %s: reading the reply: %w", path, err)
	case len(body) > maxReply:
		return nil, 0, fmt.Errorf("POST %s: the reply exceeds %d bytes", path, maxReply)
	}
	return body, resp.StatusCode, nil
}

func (t *httpTransport) close() {
	if t.own {
		t.client.CloseIdleConnections()
	}
}

// httpError reads an error reply, or makes one of the status: what answers may be a proxy.
func httpError(op string, status int, body []byte) error {
	var reply struct {
		Error         *protocol.Error `json:"error"`
		Title, Detail string          // of a problem document
	}
	if json.Unmarshal(body, &reply) == nil && reply.Error != nil {
		return reply.Error
	}
	code := protocol.CodeUnavailable
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		code = protocol.CodeUnauthorized
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		code = protocol.CodeInvalid
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		code = protocol.CodeUnknownOp
	case http.StatusConflict:
		code = protocol.CodeConflict
	case http.StatusRequestEntityTooLarge:
		code = protocol.CodeTooLarge
	}
	text := strings.TrimSpace(strings.Trim(reply.Title+": "+reply.Detail, ": "))
	if text == "" {
		text = http.StatusText(status)
	}
	return &protocol.Error{Code: code, Message: fmt.Sprintf("%s over HTTP: status %d: %s", op, status, text)}
}

// caller tries the transports in turn until one brings an answer.
type caller struct {
	nats   *natsRoute // nil without a NATS URL
	http   transport  // nil without a URL
	timing timing
}

// natsRoute remembers that a request over NATS was lost, so that not every request has to find out.
type natsRoute struct {
	transport
	suspectFor time.Duration

	mu      sync.Mutex
	suspect time.Time
}

func (r *natsRoute) suspected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.suspect)
}

func (r *natsRoute) heard(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.suspect = time.Time{}
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout):
		r.suspect = time.Now().Add(r.suspectFor)
	}
}

// do sends a request and decodes its reply. decode returns a *protocol.Error for an error reply; like a lost reply it
// sends the request over the other transport. sent is the time before the try that was answered. limit, if not 0,
// bounds a single try.
func (c *caller) do(ctx context.Context, op string, request []byte, limit time.Duration, decode func([]byte) error) (sent time.Time, err error) {
	var errs []error
	try := func(t transport, timeout time.Duration) bool {
		if limit > 0 {
			timeout = min(timeout, limit)
		}
		tryCtx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		sent = time.Now()
		reply, err := t.call(tryCtx, op, request)
		if r, ok := t.(*natsRoute); ok && ctx.Err() == nil {
			r.heard(err)
		}
		if err == nil {
			err = decode(reply)
		}
		if err != nil {
			errs = append(errs, err)
		}
		return err == nil
	}
	httpFirst := c.http != nil && c.nats != nil && c.nats.suspected()
	if httpFirst && try(c.http, c.timing.http) {
		return sent, nil
	}
	if c.nats != nil && ctx.Err() == nil && try(c.nats, c.timing.nats) {
		return sent, nil
	}
	if c.http != nil && !httpFirst && ctx.Err() == nil && try(c.http, c.timing.http) {
		return sent, nil
	}
	if len(errs) == 0 {
		errs = append(errs, errNoRoute)
	}
	return time.Time{}, errors.Join(errs...)
}

// close lets go of idle HTTP connections.
func (c *caller) close() {
	if t, ok := c.http.(*httpTransport); ok {
		t.close()
	}
}
