package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

func TestBodiesAreBounded(t *testing.T) {
	s := newSite(t)
	s.job("report")
	fill := func(n int) string { return `{"args": "` + strings.Repeat("x", n-len(`{"args": ""}`)) + `"}` }
	s.refused(kindTooLarge, "POST", "/v1/jobs/report/runs", fill(maxJSON+1))
	s.refused(kindTooLarge, "POST", "/v1/jobs/report/runs", fill(maxJSON+1), idempotencyHeader, "k")
	s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", fill(maxJSON/8))
	s.refused(kindTooLarge, "POST", "/v1/jobs", strings.Repeat(" ", maxJSON+1))
	s.refused(kindTooLarge, "POST", "/v1/work/start", strings.Repeat(" ", maxBatch+1))
	if p := s.refused(kindDefinition, "POST", "/v1/jobs", strings.Repeat(" ", maxJSON)); len(p.Errors) == 0 {
		t.Error("no violation")
	}
}

func TestWhatIsNotKnownIsRefused(t *testing.T) {
	s := newSite(t)
	s.job("report")
	for path, body := range map[string]string{
		"/v1/jobs/report/runs":                                 `{"argz": 1}`,
		"/v1/jobs/report/runs:batch":                           `{"runs": [{"argz": 1}]}`,
		"/v1/jobs/report/pause":                                `{"why": 1}`,
		"/v1/jobs/report/resume":                               `{"why": 1}`,
		"/v1/jobs/report/backfill":                             `{"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z", "x": 1}`,
		"/v1/runs/00000000-0000-7000-8000-000000000000/cancel": `{"x": 1}`,
		"/v1/runs/00000000-0000-7000-8000-000000000000/retry":  `{"x": 1}`,
	} {
		if p := s.refused(kindInvalid, "POST", path, body); len(p.Errors) != 1 || !strings.HasPrefix(p.Errors[0].Location, "body") {
			t.Errorf("%s: %+v", path, p.Errors)
		}
		s.refused(kindMalformed, "POST", path, `{"x"`)
		s.refused(kindMediaType, "POST", path, `x=1`, "Content-Type", "application/x-www-form-urlencoded")
	}
	for pattern, r := range s.api.routes {
		method, path, _ := strings.Cut(pattern, " ")
		if len(r.scopes) == 0 || strings.HasPrefix(path, "/v1/work") || path == "/v1/events" {
			continue
		}
		path = strings.NewReplacer("{name}", "report", "{id}", "00000000-0000-7000-8000-000000000000").Replace(path)
		s.refused(kindInvalid, method, path+"?nobody=knows", "")
	}
	s.refused(kindNoPath, "GET", "/v2/jobs", "")
	s.refused(kindNoPath, "GET", "/v1/jobs/report/nothing", "")
	s.refused(kindNoPath, "POST", "/v1/work/nothing", "{}")
	if p := s.want(http.StatusMethodNotAllowed, "PATCH", "/v1/jobs/report", "{}"); !strings.Contains(p.Header.Get("Allow"), "PUT") {
		t.Errorf("Allow: %s", p.Header.Get("Allow"))
	}
}

func TestOtherOriginsAreRefused(t *testing.T) {
	s := newSite(t)
	s.job("report")
	s.refused(kindCrossOrigin, "POST", "/v1/jobs/report/pause", "", "Origin", "https://evil.example")
	s.refused(kindCrossOrigin, "POST", "/v1/jobs/report/pause", "", "Sec-Fetch-Site", "cross-site")
	s.want(http.StatusOK, "POST", "/v1/jobs/report/pause", "", "Sec-Fetch-Site", "same-origin")
}

func TestRequestIDs(t *testing.T) {
	s := newSite(t)
	if got := s.want(http.StatusOK, "GET", "/v1/jobs", "", requestIDHeader, "mine-1").Header.Get(requestIDHeader); got != "mine-1" {
		t.Errorf("id %q", got)
	}
	a := s.want(http.StatusOK, "GET", "/v1/jobs", "", requestIDHeader, `x"},{`).Header.Get(requestIDHeader)
	b := s.want(http.StatusOK, "GET", "/v1/jobs", "").Header.Get(requestIDHeader)
	if a == "" || a == b || strings.Contains(a, `"`) {
		t.Errorf("ids %q, %q", a, b)
	}
}

func TestNoMoreThanCanBeServed(t *testing.T) {
	s := newSite(t)
	for range cap(s.api.slots) {
		s.api.slots <- struct{}{}
	}
	if p := s.want(http.StatusServiceUnavailable, "GET", "/v1/jobs", ""); p.Header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %s", p.body)
	}
	s.want(http.StatusOK, "GET", "/livez", "")
	s.want(http.StatusOK, "POST", "/v1/work/poll", `{"worker_id": "w-1", "lanes": [{"queue": "default", "kind": "noop"}], "max": 1}`)
	<-s.api.slots
	s.want(http.StatusOK, "GET", "/v1/jobs", "")
}

// Without a database people are told so, and not what went wrong inside.
func TestDatabaseIsAway(t *testing.T) {
	s := newSite(t)
	s.want(http.StatusOK, "GET", "/v1/jobs", "")
	elsewhere, err := url.Parse(s.db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere.Path = "/postgres"
	conn, err := pgx.Connect(t.Context(), elsewhere.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, sql := range []string{
		"ALTER DATABASE " + s.db.Name + " WITH ALLOW_CONNECTIONS false",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + s.db.Name + "'",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/v1/jobs", "/v1/runs", "/v1/queues"} {
		got := s.do("GET", path, "")
		p := got.problem(t)
		if got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" || strings.Contains(p.Detail, s.db.Name) {
			t.Errorf("%s: %s %s", path, got.Status, got.body)
		}
	}
}

func TestHealthWithoutTheAPI(t *testing.T) {
	why := errors.New("no NATS")
	h := Handler(Config{Gather: prometheus.NewRegistry(), Ready: func(context.Context) error { return why }})
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		return w
	}
	if w := get("/readyz"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "no NATS") {
		t.Errorf("readyz: %d %s", w.Code, w.Body)
	}
	if w := get("/livez"); w.Code != http.StatusOK {
		t.Errorf("livez: %d", w.Code)
	}
	if w := get("/v1/jobs"); w.Code != http.StatusNotFound {
		t.Errorf("jobs: %d", w.Code)
	}
}

func TestPanicIsAnswered(t *testing.T) {
	s := newSite(t)
	s.api.plain("GET /v1/panic", &route{timeout: requestTimeout, limit: 1}, func(http.ResponseWriter, *http.Request) { panic("boom") })
	got := s.refused(kindInternal, "GET", "/v1/panic", "")
	if strings.Contains(got.Detail, "boom") {
		t.Errorf("detail %s", got.Detail)
	}
}
