// Package httpapi is the HTTP surface of an engine: the API for people and
// programs, the worker protocol, health and metrics.
//
// What is served is described by an OpenAPI document that is made from the same
// registrations. A route is served only if it was registered with the scope that
// it needs: there is no way to add one without.
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/projections"
	"github.com/daybookhq/daybook/projections/evidence"
	"github.com/daybookhq/daybook/worker/protocol"
)

// Worker answers calls of the worker protocol, and asks for runs.
type Worker interface {
	Handle(ctx context.Context, op, actor string, body []byte) []byte
	Enqueue(ctx context.Context, actor string, items []protocol.EnqueueItem) ([]protocol.EnqueueResult, error)
}

// Waker is told that there is something to do.
type Waker interface {
	Due(queue string)            // runs of the queue may have come due
	JobsChanged()                // instants may have come due or moved
	Cancelled(runs ...uuid.UUID) // they were asked to end
}

// Config says what is served. Without a Store that is health and metrics only.
type Config struct {
	// Store is the API's own: what people ask for must not take connections
	// from the engine's loops.
	Store  *eventstore.Store
	Work   Worker
	Wake   Waker
	Broker client.Broker // nil: nobody asks it
	Events http.Handler  // GET /v1/events, a stream without end; nil: there is none

	// LocalToken is a bearer token of this process's own worker, that no
	// database knows; empty: there is none.
	LocalToken string

	// OwnerToken is a bearer token of whoever started this process, that no
	// database knows: it may do everything, in the name that the request gives.
	OwnerToken string

	Version string                          // of this process
	Done    <-chan struct{}                 // closed when the server stops: what waits is answered; nil: never
	Ready   func(ctx context.Context) error // why the process is not ready; nil if it is
	Gather  prometheus.Gatherer
	Logger  *slog.Logger
}

// api is the routes and what they use.
type api struct {
	Config
	read   *projections.Reader
	audit  *evidence.Auditor
	tokens *Tokens
	keys   *idempotencyKeys
	huma   huma.API
	mux    *http.ServeMux
	routes map[string]*route // by pattern
	slots  chan struct{}
	ended  *endings
	longs  longOperations
	cross  *http.CrossOriginProtection
}

// route is what the middleware has to know of a pattern.
type route struct {
	scopes  []Scope       // any of them is enough; none: open to all
	creates bool          // takes an Idempotency-Key
	limit   int64         // of the body, in bytes
	timeout time.Duration // 0: none, for what has a time of its own
	waits   bool          // most of the time: takes no place from requests that are served
}

const (
	requestTimeout = 30 * time.Second
	maxJSON        = 1 << 20
	maxBatch       = 8 << 20
	// maxServed is how many requests are served at a time, without those of
	// workers: enough for the pool of the API to be the limit, and little enough
	// for memory.
	maxServed = 256
)

// Handler is the HTTP surface. It has a mux of its own: libraries register
// debugging handlers on the default one.
func Handler(c Config) http.Handler {
	a := newAPI(c)
	return a
}

func newAPI(c Config) *api {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := &api{Config: c, mux: http.NewServeMux(), routes: map[string]*route{}, slots: make(chan struct{}, maxServed), cross: http.NewCrossOriginProtection()}
	if c.Store == nil {
		a.health()
		return a
	}
	a.tokens = NewTokens(c.Store.Pool())
	a.keys = &idempotencyKeys{pool: c.Store.Pool(), busy: requestTimeout + 10*time.Second}
	a.read = projections.NewReader(c.Store)
	a.audit = evidence.New(c.Store)
	a.ended = newEndings(c.Store)
	a.build()
	return a
}

// build adds all routes and the document made from them.
func (a *api) build() {
	a.huma = humago.New(a.mux, a.humaConfig())
	a.health()
	a.jobRoutes()
	a.jobChangeRoutes()
	a.jobAnswerRoutes()
	a.runRoutes()
	a.runChangeRoutes()
	a.operationRoutes()
	a.statsRoutes()
	a.applyRoutes()
	a.outcomeRoutes()
	a.outboxRoutes()
	a.evidenceRoutes()
	a.tokenRoutes()
	a.workRoutes()
	if a.Events != nil {
		a.plain("GET /v1/events", &route{scopes: []Scope{ScopeRead}}, a.Events.ServeHTTP)
	}
	a.document()
}

// plain adds a route that huma does not know.
func (a *api) plain(pattern string, r *route, h http.HandlerFunc) {
	a.routes[pattern] = r
	a.mux.HandleFunc(pattern, h)
}

func (a *api) health() {
	open := func() *route { return &route{timeout: requestTimeout, limit: maxJSON} }
	a.plain("GET /livez", open(), func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	a.plain("GET /readyz", open(), func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := a.Ready(ctx); err != nil {
			a.refuse(w, r, newProblem(kindNotReady, err.Error()))
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	a.plain("GET /metrics", open(), promhttp.HandlerFor(a.Gather, promhttp.HandlerOpts{}).ServeHTTP)
}

// refuse answers with a problem.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, p *Problem) {
	p = a.complete(r.Context(), p)
	maps.Copy(w.Header(), p.headers)
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// complete adds what the request says, and logs what is the server's fault.
func (a *api) complete(ctx context.Context, p *Problem) *Problem {
	c := callOf(ctx)
	p.Instance, p.RequestID = c.url.Path, c.id
	if p.cause != nil {
		a.Logger.ErrorContext(ctx, "request failed", "path", p.Instance, "request_id", p.RequestID, "status", p.Status, "error", p.cause)
	}
	return p
}

// Serve serves until ctx ends, then lets requests finish for a few seconds. What
// takes longer to answer than a request may sets its own write deadline.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 60 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err := s.Shutdown(grace)
		if err != nil {
			err = s.Close()
		}
		stopped <- err
	}()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
