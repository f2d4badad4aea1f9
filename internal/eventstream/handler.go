// Package eventstream serves the log over HTTP: pages to catch up with, and
// Server-Sent Events to follow.
//
// A place in the log is a cursor, not a position: positions are drawn before
// they are committed, and a reader that only remembers the highest one it saw
// misses what commits later below it. Cursors are opaque. Delivery is at least
// once; a CloudEvent's source and id say what came twice.
package eventstream

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

// Log is what is read. *eventstore.Store has it.
type Log interface {
	Read(ctx context.Context, c eventstore.Cursor, limit int) ([]eventstore.Recorded, eventstore.Cursor, error)
	After(ctx context.Context, position int64) (eventstore.Cursor, error)
	End(ctx context.Context) (eventstore.Cursor, error)
	LowMark(ctx context.Context) (eventstore.LowMark, error)
}

// Handler answers GET /v1/events.
//
//	after   a cursor from an earlier answer, or a position; "now" for the end
//	type    only events of this type, such as RunFailed or daybook.run.failed.v1 (repeatable)
//	stream  only events of this run or job (repeatable)
//	limit   at most this many events a page (1 to 500, default 100)
//
// With Accept: text/event-stream it goes on as the log grows, from Last-Event-ID
// if that is given.
type Handler struct {
	Log        Log
	Deployment string                                                       // as in the events of the feed
	Problem    func(w http.ResponseWriter, status int, kind, detail string) // writes an error
	Done       <-chan struct{}                                              // closed when the server stops: streams end
}

const (
	maxLimit     = 500
	defaultLimit = 100
	tick         = 250 * time.Millisecond
	heartbeat    = 15 * time.Second
	writeTimeout = 10 * time.Second
)

// page is the answer to a request for a page.
type page struct {
	Events []projections.CloudEvent `json:"events"`
	Next   string                   `json:"next"` // the cursor to go on from
	More   bool                     `json:"more"` // there was more when the page was read

	// LowMark is there when the log has let go of events: up to this position some
	// are missing from what begins at the beginning.
	LowMark int64 `json:"low_mark,omitempty"`
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := h.parse(r)
	if err != nil {
		h.refuse(w, err)
		return
	}
	// A stream begins with a page, too: what is wrong is said before it begins.
	recs, next, err := h.Log.Read(r.Context(), q.from, q.limit)
	if err != nil {
		h.refuse(w, err)
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		h.follow(w, r, q, recs, next)
		return
	}
	low, err := h.Log.LowMark(r.Context())
	if err != nil {
		h.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(page{Events: q.filter(h.Deployment, recs), Next: encodeCursor(next), More: len(recs) == q.limit, LowMark: low.Position})
}

// refuse says what is wrong with a request or with the log.
func (h *Handler) refuse(w http.ResponseWriter, err error) {
	if bad, ok := errors.AsType[*queryError](err); ok {
		h.Problem(w, http.StatusBadRequest, "malformed", bad.Error())
		return
	}
	if gone, ok := errors.AsType[*eventstore.RetiredError](err); ok {
		h.Problem(w, http.StatusGone, "retired", gone.Error())
		return
	}
	h.Problem(w, http.StatusServiceUnavailable, "unavailable", err.Error())
}

// follow streams until the client or the server goes away. The id comes with the
// last event of a page: a client that reconnects gets the rest of that page
// again rather than a gap.
func (h *Handler) follow(w http.ResponseWriter, r *http.Request, q query, recs []eventstore.Recorded, next eventstore.Cursor) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &stream{w: w, out: out}
	_ = out.SetReadDeadline(time.Time{}) // the request is over; the connection stays
	s.write("retry: 2000\n: follow the log; go on from the last id with Last-Event-ID\n\n")
	for s.err == nil {
		events := q.filter(h.Deployment, recs)
		for i, e := range events {
			id := ""
			if i == len(events)-1 {
				id = encodeCursor(next)
			}
			s.event(id, e)
		}
		s.beat()
		if len(recs) < q.limit {
			select {
			case <-r.Context().Done():
				return
			case <-h.Done:
				return
			case <-time.After(tick):
			}
		}
		var err error
		if recs, next, err = h.Log.Read(r.Context(), next, q.limit); err != nil {
			return // the client reconnects and goes on where it was
		}
	}
}

// stream writes Server-Sent Events. Each write has a deadline of its own: a
// client that does not read is let go and holds nothing up.
type stream struct {
	w    http.ResponseWriter
	out  *http.ResponseController
	last time.Time
	err  error
}

func (s *stream) write(text string) {
	if s.err != nil {
		return
	}
	_ = s.out.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, s.err = s.w.Write([]byte(text)); s.err == nil {
		s.err = s.out.Flush()
	}
	s.last = time.Now()
}

func (s *stream) event(id string, e projections.CloudEvent) {
	body, err := json.Marshal(e)
	if err != nil {
		s.err = err
		return
	}
	text := "event: " + e.Type + "\ndata: " + string(body) + "\n\n"
	if id != "" {
		text = "id: " + id + "\n" + text
	}
	s.write(text)
}

func (s *stream) beat() {
	if time.Since(s.last) > heartbeat {
		s.write(": still here\n\n")
	}
}

// query is what was asked for.
type query struct {
	from    eventstore.Cursor
	types   []string
	streams []uuid.UUID
	limit   int
}

type queryError struct{ field, why string }

func (e *queryError) Error() string { return e.field + ": " + e.why }

func (h *Handler) parse(r *http.Request) (q query, err error) {
	v := r.URL.Query()
	q.limit, q.types = defaultLimit, v["type"]
	for name := range v {
		if !slices.Contains([]string{"after", "type", "stream", "limit"}, name) {
			return q, &queryError{name, "is no parameter: want after, type, stream or limit"}
		}
	}
	if s := v.Get("limit"); s != "" {
		if q.limit, err = strconv.Atoi(s); err != nil || q.limit < 1 || q.limit > maxLimit {
			return q, &queryError{"limit", fmt.Sprintf("%q: want a number from 1 to %d", s, maxLimit)}
		}
	}
	for _, s := range v["stream"] {
		id, err := uuid.Parse(s)
		if err != nil {
			return q, &queryError{"stream", fmt.Sprintf("%q: want the id of a run or job", s)}
		}
		q.streams = append(q.streams, id)
	}
	after := v.Get("after")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		after = last
	}
	q.from, err = h.place(r.Context(), after)
	return q, err
}

// place reads where to begin.
func (h *Handler) place(ctx context.Context, after string) (eventstore.Cursor, error) {
	switch after {
	case "":
		return eventstore.Cursor{}, nil
	case "now":
		return h.Log.End(ctx)
	}
	if position, err := strconv.ParseInt(after, 10, 64); err == nil {
		if position < 0 {
			return eventstore.Cursor{}, &queryError{"after", "a position is not negative"}
		}
		if position == 0 { // which says that all is wanted, as no parameter does not
			low, err := h.Log.LowMark(ctx)
			if err == nil && low.Position > 0 {
				err = &eventstore.RetiredError{Low: low}
			}
			return eventstore.Cursor{}, err
		}
		return h.Log.After(ctx, position)
	}
	c, err := decodeCursor(after)
	if err != nil {
		return c, &queryError{"after", "is neither a cursor of an earlier answer nor a position"}
	}
	return c, nil
}

func encodeCursor(c eventstore.Cursor) string {
	b, err := json.Marshal(c)
	if err != nil {
		return "" // a Cursor holds numbers and text
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodeCursor(s string) (c eventstore.Cursor, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, err
	}
	return c, c.Validate()
}

// filter makes events of the records that were asked for.
func (q query) filter(deployment string, recs []eventstore.Recorded) []projections.CloudEvent {
	events := make([]projections.CloudEvent, 0, len(recs))
	for _, r := range recs {
		if len(q.streams) > 0 && !slices.Contains(q.streams, r.StreamID) {
			continue
		}
		e := projections.NewCloudEvent(deployment, r)
		if len(q.types) > 0 && !slices.Contains(q.types, r.Type) && !slices.Contains(q.types, e.Type) {
			continue
		}
		events = append(events, e)
	}
	return events
}
