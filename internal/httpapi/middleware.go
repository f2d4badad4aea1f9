package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
)

// call is what is known of the request in hand.
type call struct {
	id    string
	url   *url.URL
	who   principal
	keyed *keyedRequest // given an Idempotency-Key
}

type callKey struct{}

// callOf never gives nil, so that a problem can be written at any time.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{url: &url.URL{}}
}

const requestIDHeader = "X-Request-Id"

// ServeHTTP guards every request in one place: what passes has an id, comes from
// where it may, is known to be allowed, and is bounded in size and time.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{id: requestID(r), url: r.URL}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	h := w.Header()
	h.Set(requestIDHeader, c.id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	defer a.rescue(w, r)

	_, pattern := a.mux.Handler(r)
	known := a.routes[pattern]
	if known == nil {
		a.unrouted(w, r)
		return
	}
	if err := a.cross.Check(r); err != nil {
		a.refuse(w, r, newProblem(kindCrossOrigin, err.Error()))
		return
	}
	who, p := a.admit(r, known.scopes)
	if p != nil {
		a.refuse(w, r, p)
		return
	}
	c.who = who
	if known.timeout == 0 {
		a.mux.ServeHTTP(w, r)
		return
	}
	a.bounded(w, r, known)
}

// bounded serves a request that has to come to an end.
func (a *api) bounded(w http.ResponseWriter, r *http.Request, known *route) {
	if len(known.scopes) > 0 && known.scopes[0] != ScopeWork && !known.waits {
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
		default:
			a.refuse(w, r, newProblem(kindOverloaded, fmt.Sprintf("%d requests are being served", cap(a.slots))).header("Retry-After", "1"))
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), known.timeout)
	defer cancel()
	r = r.WithContext(ctx)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(known.timeout + 5*time.Second))
	_ = control.SetWriteDeadline(time.Now().Add(known.timeout + 30*time.Second)) // the answer has to be taken, too
	r.Body = http.MaxBytesReader(w, r.Body, known.limit+1)                       // the one more tells huma that it is too much
	if known.creates && r.Header.Get(idempotencyHeader) != "" {
		a.serveKeyed(w, r, known)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// unrouted answers for paths and methods that there are not, where the mux has
// only text.
func (a *api) unrouted(w http.ResponseWriter, r *http.Request) {
	rec := &statusOnly{header: http.Header{}}
	a.mux.ServeHTTP(rec, r)
	switch rec.status {
	case http.StatusMethodNotAllowed:
		allow := rec.header.Get("Allow")
		a.refuse(w, r, newProblem(kindMethod, fmt.Sprintf("%s is not among the methods of this path: %s", r.Method, allow)).header("Allow", allow))
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		a.refuse(w, r, newProblem(kindNoPath, "there is no such path; perhaps "+rec.header.Get("Location")))
	default:
		a.refuse(w, r, newProblem(kindNoPath, "there is no such path: /docs lists them"))
	}
}

// statusOnly keeps the head of an answer.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) Write(b []byte) (int, error) { s.WriteHeader(http.StatusOK); return len(b), nil }
func (s *statusOnly) WriteHeader(code int) {
	if s.status == 0 {
		s.status = code
	}
}

// rescue answers for a handler that panicked. If it had begun to answer the
// connection has to break, so that nobody takes half an answer for a whole one.
func (a *api) rescue(w http.ResponseWriter, r *http.Request) {
	switch v := recover(); v {
	case nil:
	case http.ErrAbortHandler:
		panic(v)
	default:
		a.Logger.ErrorContext(r.Context(), "handler panicked", "path", r.URL.Path, "request_id", callOf(r.Context()).id, "panic", v, "stack", string(debug.Stack()))
		if w.Header().Get("Content-Type") != "" {
			panic(http.ErrAbortHandler)
		}
		a.refuse(w, r, newProblem(kindInternal, "the server failed; its log tells more"))
	}
}

// requestID takes the caller's id if it is one that can stand in a log.
func requestID(r *http.Request) string {
	id := r.Header.Get(requestIDHeader)
	if 0 < len(id) && len(id) <= 64 && !strings.ContainsFunc(id, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_.:", c))
	}) {
		return id
	}
	return uuid.Must(uuid.NewV7()).String()
}

// correlation is the request's id for the events that it causes, where it has
// the form that they keep.
func (c *call) correlation() *uuid.UUID {
	id, err := uuid.Parse(c.id)
	if err != nil {
		return nil
	}
	return &id
}

// readAll reads a body that is already bounded.
func readAll(r *http.Request, limit int64) ([]byte, *Problem) {
	body, err := io.ReadAll(r.Body)
	switch {
	case int64(len(body)) > limit || isTooLarge(err):
		return nil, newProblem(kindTooLarge, fmt.Sprintf("the body exceeds %d bytes", limit))
	case isTimeout(err):
		return nil, newProblem(kindSlowBody, "the body did not arrive in time")
	case err != nil:
		return nil, newProblem(kindMalformed, "the body cannot be read: "+err.Error())
	}
	return body, nil
}
