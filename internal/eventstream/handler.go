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

// Handler answers GET /v1/events.
//
//	after   a cursor from an earlier answer, or a position; "now" for the end
//	type    only events of this type, such as RunFailed or daybook.run.failed.v1 (repeatable)
//	stream  only events of this run or job (repeatable)
//	job     only events of the job of this name and of its runs
//	since   only events of this instant or later
//	until   only events of this instant or earlier
//	limit   at most this many events a page (1 to 500, default 100)
//	wait    how long a page waits for an event where there is none (up to 25s)
//	format  cloudevent, or record for events as they stand in the log
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
	defaultLimit = 100
	tick         = 250 * time.Millisecond
	heartbeat    = 15 * time.Second
	writeTimeout = 10 * time.Second
	maxWait      = 25 * time.Second
)

// page is the answer to a request for a page.
type page[E any] struct {
	Events []E    `json:"events"`
	Next   string `json:"next"` // the cursor to go on from
	More   bool   `json:"more"` // there was more when the page was read

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
	follows := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	if follows {
		q.Wait = 0 // it waits itself
	}
	// A stream begins with a page, too: what is wrong is said before it begins.
	found, err := q.Page(r.Context(), h.Log, h.Done)
	if err != nil {
		h.refuse(w, err)
		return
	}
	if follows {
		h.follow(w, r, q, found)
		return
	}
	low, err := h.Log.LowMark(r.Context())
	if err != nil {
		h.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageTimeout))
	var answer any = pageOf(found, low, func(r eventstore.Recorded) projections.CloudEvent { return projections.NewCloudEvent(h.Deployment, r) })
	if q.records {
		answer = pageOf(found, low, NewEvent)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// refuse says what is wrong with a request or with the log.
func (h *Handler) refuse(w http.ResponseWriter, err error) {
	if bad, ok := errors.AsType[*queryError](err); ok {
		kind := "malformed"
		if bad.field == "after" {
			kind = "invalid-cursor"
		}
		h.Problem(w, http.StatusBadRequest, kind, bad.Error())
		return
	}
	if gone, ok := errors.AsType[*eventstore.RetiredError](err); ok {
		h.Problem(w, http.StatusGone, "retired", gone.Error())
		return
	}
	h.Problem(w, http.StatusServiceUnavailable, "unavailable", err.Error())
}

func pageOf[E any](p Page, low eventstore.LowMark, form func(eventstore.Recorded) E) page[E] {
	events := make([]E, len(p.Records))
	for i, r := range p.Records {
		events[i] = form(r)
	}
	return page[E]{Events: events, Next: p.Next.Encode(), More: p.More, LowMark: low.Position}
}

// pageTimeout is how long a client may take to take a page.
const pageTimeout = time.Minute

// follow streams until the client or the server goes away. The id comes with the
// last event of a page: a client that reconnects gets the rest of that page
// again rather than a gap.
func (h *Handler) follow(w http.ResponseWriter, r *http.Request, q request, found Page) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &stream{w: w, out: out}
	_ = out.SetReadDeadline(time.Time{}) // the request is over; the connection stays
	s.write("retry: 2000\n: follow the log; go on from the last id with Last-Event-ID\n\n")
	for s.err == nil {
		for i, rec := range found.Records {
			id := ""
			if i == len(found.Records)-1 {
				id = found.Next.Encode()
			}
			s.event(id, rec, q, h.Deployment)
		}
		s.beat()
		if !found.More {
			select {
			case <-r.Context().Done():
				return
			case <-h.Done:
				return
			case <-time.After(tick):
			}
		}
		var err error
		q.From = found.Next
		if found, err = q.Page(r.Context(), h.Log, h.Done); err != nil {
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

func (s *stream) event(id string, rec eventstore.Recorded, q request, deployment string) {
	e := projections.NewCloudEvent(deployment, rec)
	var form any = e
	if q.records {
		form = NewEvent(rec)
	}
	body, err := json.Marshal(form)
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

// request is what was asked for.
type request struct {
	Query
	records bool // format=record
}

type queryError struct{ field, why string }

func (e *queryError) Error() string { return e.field + ": " + e.why }

var parameters = []string{"after", "type", "stream", "job", "since", "until", "limit", "wait", "format"}

func (h *Handler) parse(r *http.Request) (q request, err error) {
	v := r.URL.Query()
	q.Limit, q.Types, q.Job = defaultLimit, v["type"], v.Get("job")
	for name := range v {
		if !slices.Contains(parameters, name) {
			return q, &queryError{name, "is no parameter: want one of " + strings.Join(parameters, ", ")}
		}
	}
	if s := v.Get("limit"); s != "" {
		if q.Limit, err = strconv.Atoi(s); err != nil || q.Limit < 1 || q.Limit > MaxLimit {
			return q, &queryError{"limit", fmt.Sprintf("%q: want a number from 1 to %d", s, MaxLimit)}
		}
	}
	if s := v.Get("wait"); s != "" {
		if q.Wait, err = time.ParseDuration(s); err != nil || q.Wait < 0 || q.Wait > maxWait {
			return q, &queryError{"wait", fmt.Sprintf("%q: want a duration up to %s", s, maxWait)}
		}
	}
	switch s := v.Get("format"); s {
	case "", "cloudevent":
	case "record":
		q.records = true
	default:
		return q, &queryError{"format", fmt.Sprintf("%q: want cloudevent or record", s)}
	}
	for field, at := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if s := v.Get(field); s != "" {
			if *at, err = time.Parse(time.RFC3339Nano, s); err != nil {
				return q, &queryError{field, fmt.Sprintf("%q: want an instant such as 2026-03-08T07:30:00Z", s)}
			}
		}
	}
	for _, s := range v["stream"] {
		id, err := uuid.Parse(s)
		if err != nil {
			return q, &queryError{"stream", fmt.Sprintf("%q: want the id of a run or job", s)}
		}
		q.Streams = append(q.Streams, id)
	}
	after := v.Get("after")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		after = last
	}
	q.From, err = h.place(r.Context(), after)
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
	c, err := eventstore.ParseCursor(after)
	if err != nil {
		return c, &queryError{"after", "is neither a cursor of an earlier answer nor a position"}
	}
	return c, nil
}
