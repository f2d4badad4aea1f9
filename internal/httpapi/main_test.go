package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/engine"
	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()...) }

// site is an API over a database of its own and the engine's real service.
type site struct {
	t      testing.TB
	url    string
	token  string // sent with every request, if any
	db     *pgtest.DB
	store  *eventstore.Store
	api    *api
	client *http.Client
	woken  *woken
}

// woken remembers what the API told the engine.
type woken struct {
	mu     sync.Mutex
	queues []string
	jobs   int

	cancelled []uuid.UUID
}

func (w *woken) Due(queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues = append(w.queues, queue)
}

func (w *woken) Cancelled(runs ...uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancelled = append(w.cancelled, runs...)
}

func (w *woken) JobsChanged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs++
}

func newSite(t testing.TB) *site {
	t.Helper()
	db := pgtest.New(t)
	store, err := eventstore.Open(t.Context(), eventstore.Config{DSN: db.DSNFor("daybook_engine"), OpsConns: 4, LoopConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	registry := prometheus.NewRegistry()
	s := &site{t: t, db: db, store: store, woken: &woken{}}
	s.api = newAPI(Config{
		Store: store, Work: newService(t, store, registry), Wake: s.woken, Gather: registry,
		Ready: func(context.Context) error { return nil }, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Events: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "events") }),
	})
	s.api.tokens.ttl = 0
	server := httptest.NewServer(s.api)
	t.Cleanup(server.Close)
	s.url = server.URL
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s
}

// newService runs the part of an engine that answers workers.
func newService(t testing.TB, store *eventstore.Store, registry *prometheus.Registry) *engine.Service {
	t.Helper()
	nc, err := nats.Connect(natstest.New(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	e, err := engine.New(engine.Config{ID: "test", Store: store, NATS: nc, Topology: natsjs.EmbeddedTopology(), Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- e.Service().Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("service: %v", err)
		}
	})
	return e.Service()
}

// answer is a response with its body read.
type answer struct {
	*http.Response
	body []byte
}

func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
}

func (a answer) problem(t testing.TB) Problem {
	t.Helper()
	var p Problem
	a.into(t, &p)
	if a.Header.Get("Content-Type") != problemType || p.Status != a.StatusCode || p.RequestID == "" || p.RequestID != a.Header.Get(requestIDHeader) {
		t.Errorf("not a whole problem: %s %s %s", a.Status, a.Header, a.body)
	}
	return p
}

// do sends a request; headers come in pairs.
func (s *site) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(s.t.Context()), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	// The document says that lists are [] or absent.
	if resp.StatusCode < 300 && resp.Header.Get("Content-Type") == "application/json" && bytes.Contains(b, []byte(`:null`)) {
		s.t.Errorf("%s %s: null in %s", method, path, b)
	}
	return answer{resp, bytes.TrimSpace(b)}
}

// want sends a request that has to be answered with the status.
func (s *site) want(status int, method, path, body string, headers ...string) answer {
	s.t.Helper()
	a := s.do(method, path, body, headers...)
	if a.StatusCode != status {
		s.t.Fatalf("%s %s: %s, want %d\n%s", method, path, a.Status, status, a.body)
	}
	return a
}

// refused sends a request that has to be refused with the problem.
func (s *site) refused(k kind, method, path, body string, headers ...string) Problem {
	s.t.Helper()
	p := s.want(kinds[k].status, method, path, body, headers...).problem(s.t)
	if p.Type != "/problems/"+string(k) {
		s.t.Errorf("%s %s: problem %s, want %s: %+v", method, path, p.Type, k, p)
	}
	return p
}

// job makes a job that runs on request.
func (s *site) job(name string) {
	s.t.Helper()
	s.want(http.StatusCreated, "POST", "/v1/jobs", `{"name": "`+name+`", "kind": "noop"}`)
}

func (s *site) run(job string) uuid.UUID {
	s.t.Helper()
	var got struct {
		RunID uuid.UUID `json:"run_id"`
	}
	s.want(http.StatusCreated, "POST", "/v1/jobs/"+job+"/runs", "").into(s.t, &got)
	return got.RunID
}

// start has a worker begin what waits in the lane, over the worker protocol.
func (s *site) start(queue, kind string) (claims []string) {
	s.t.Helper()
	got, err := s.store.Claim(s.t.Context(), eventstore.ClaimRequest{Lane: eventstore.NewLane(queue, kind), Limit: 100, Lease: time.Minute}, nowhere{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range got.Runs {
		claim := `"run_id": "` + r.ID.String() + `", "claim_id": "` + r.ClaimID.String() + `"`
		s.want(http.StatusOK, "POST", "/v1/work/start", `{"worker_id": "w-1", "items": [{`+claim+`, "token": "`+uuid.NewString()+`"}]}`)
		claims = append(claims, claim)
	}
	return claims
}

// finish has a worker carry out what waits in the lane.
func (s *site) finish(queue, kind string) {
	s.t.Helper()
	for _, claim := range s.start(queue, kind) {
		done := s.want(http.StatusOK, "POST", "/v1/work/complete", `{"items": [{`+claim+`, "result": {"n": 12345678901234567890}}]}`)
		if !strings.Contains(string(done.body), `"recorded"`) {
			s.t.Fatalf("complete: %s", done.body)
		}
	}
}

// nowhere takes dispatches that nobody waits for.
type nowhere struct{}

func (nowhere) Enqueue(*pgx.Batch, time.Time, []eventstore.Message) (func(), error) {
	return func() {}, nil
}

// project brings the list of runs up to date.
func (s *site) project() {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	f := projections.New(s.store, projections.Config{Owner: "test"})
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	defer func() {
		stop()
		<-done
	}()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		lag, err := s.api.read.Lag(s.t.Context())
		if err == nil && lag.Events == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("list of runs is behind: %+v %v", lag, err)
		}
	}
}

// actors are those of a stream's events.
func (s *site) actors(category domain.Category, stream uuid.UUID) (out []string) {
	s.t.Helper()
	recs, err := s.store.ReadStream(s.t.Context(), category, stream)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range recs {
		out = append(out, r.Type+" "+r.Actor)
	}
	return out
}
