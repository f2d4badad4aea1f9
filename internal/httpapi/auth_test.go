package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/worker/protocol"
)

// wanted says what every route asks for. A route that is not here fails, so that
// its scope is decided by somebody.
var wanted = map[string][]Scope{
	"GET /livez": nil, "GET /readyz": nil, "GET /metrics": nil, "GET /docs": nil, "GET /openapi.json": nil, "GET /problems/{kind}": nil,

	"GET /v1/jobs": {ScopeRead}, "GET /v1/jobs/{name}": {ScopeRead}, "GET /v1/jobs/{name}/history": {ScopeRead}, "GET /v1/jobs/{name}/preview": {ScopeRead},
	"GET /v1/jobs/{name}/explain": {ScopeRead}, "GET /v1/jobs/{name}/coverage": {ScopeRead},
	"GET /v1/runs": {ScopeRead}, "GET /v1/runs/{id}": {ScopeRead}, "GET /v1/runs/{id}/events": {ScopeRead}, "GET /v1/runs/{id}/output": {ScopeRead},
	"GET /v1/runs/{id}/outcome": {ScopeRead}, "GET /v1/status": {ScopeRead}, "GET /v1/engines": {ScopeRead}, "GET /v1/eras": {ScopeRead},
	"GET /v1/parked-runs": {ScopeRead}, "GET /v1/outbox": {ScopeRead}, "GET /v1/projections": {ScopeRead}, "POST /v1/jobs:plan": {ScopeRead},
	"GET /v1/stats/queues": {ScopeRead}, "GET /v1/stats/rates": {ScopeRead}, "GET /v1/stats/durations": {ScopeRead},
	"GET /v1/queues": {ScopeRead}, "GET /v1/workers": {ScopeRead}, "GET /v1/retention": {ScopeRead}, "GET /v1/runs/{id}/lineage": {ScopeRead}, "GET /v1/events": {ScopeRead},

	"POST /v1/jobs:apply": {ScopeAdmin}, "GET /v1/tokens": {ScopeAdmin}, "DELETE /v1/tokens/{name}": {ScopeAdmin},
	"POST /v1/runs/{id}/unpark": {ScopeOperate}, "POST /v1/outbox/replay": {ScopeOperate}, "POST /v1/audit/verify": {ScopeOperate},
	"POST /v1/projections/{name}/check": {ScopeOperate}, "POST /v1/projections/{name}/rebuild": {ScopeOperate},
	"POST /v1/jobs": {ScopeAdmin}, "PUT /v1/jobs/{name}": {ScopeAdmin}, "DELETE /v1/jobs/{name}": {ScopeAdmin},
	"POST /v1/jobs/{name}/pause": {ScopeOperate}, "POST /v1/jobs/{name}/resume": {ScopeOperate}, "POST /v1/jobs/{name}/backfill": {ScopeOperate},
	"POST /v1/runs/{id}/cancel": {ScopeOperate}, "POST /v1/runs/{id}/retry": {ScopeOperate},
	"POST /v1/jobs/{name}/runs": {ScopeEnqueue}, "POST /v1/jobs/{name}/runs:batch": {ScopeEnqueue},

	"POST /v1/work/poll": {ScopeWork}, "POST /v1/work/start": {ScopeWork}, "POST /v1/work/heartbeat": {ScopeWork}, "POST /v1/work/complete": {ScopeWork},
	"POST /v1/work/fail": {ScopeWork}, "POST /v1/work/snooze": {ScopeWork}, "POST /v1/work/release": {ScopeWork}, "POST /v1/work/presence": {ScopeWork},
	"POST /v1/work/enqueue": {ScopeWork, ScopeEnqueue},
}

// newToken makes a token and gives its secret.
func (s *site) newToken(name string, scopes ...Scope) string {
	s.t.Helper()
	secret, _, err := s.api.tokens.Create(s.t.Context(), NewToken{Name: name, Scopes: scopes, By: "test"})
	if err != nil {
		s.t.Fatal(err)
	}
	return secret
}

func TestEveryRouteIsGuarded(t *testing.T) {
	s := newSite(t)
	tokens := map[Scope]string{}
	for _, scope := range Scopes {
		tokens[scope] = s.newToken(string(scope), scope)
	}
	expired, _, err := s.api.tokens.Create(t.Context(), NewToken{Name: "expired", Scopes: Scopes, Life: time.Microsecond, By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	revoked := s.newToken("revoked", Scopes...)
	if err := s.api.tokens.Revoke(t.Context(), "revoked", "test"); err != nil {
		t.Fatal(err)
	}
	for pattern := range wanted {
		if s.api.routes[pattern] == nil {
			t.Errorf("%s is expected and not served", pattern)
		}
	}
	for pattern := range s.api.routes {
		scopes, ok := wanted[pattern]
		if !ok {
			t.Errorf("%s is served, and nobody has said who may: add it to the table", pattern)
			continue
		}
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.NewReplacer("{name}", "none", "{id}", "00000000-0000-7000-8000-000000000000", "{kind}", "invalid").Replace(path)
		status := func(header string) int { return s.do(method, path, "", "Authorization", header).StatusCode }
		if len(scopes) == 0 {
			if got := s.do(method, path, "").StatusCode; got != http.StatusOK {
				t.Errorf("%s without a token: %d", pattern, got)
			}
			continue
		}
		if p := s.want(http.StatusUnauthorized, method, path, ""); p.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s without a token: no challenge", pattern)
		}
		for what, header := range map[string]string{
			"garbage": "Bearer dbk_garbage", "an expired token": "Bearer " + expired, "a revoked token": "Bearer " + revoked, "no secret": "Bearer ",
			"another scheme": "Basic " + tokens[ScopeAdmin], "the hash": "Bearer admin", "an empty header": " ",
		} {
			if got := status(header); got != http.StatusUnauthorized {
				t.Errorf("%s with %s: %d, want 401", pattern, what, got)
			}
		}
		for _, scope := range Scopes {
			enough := scope == ScopeAdmin
			for _, want := range scopes {
				enough = enough || scope == want
			}
			switch got := status("Bearer " + tokens[scope]); {
			case enough && (got == http.StatusUnauthorized || got == http.StatusForbidden):
				t.Errorf("%s with scope %s: %d, though that is enough", pattern, scope, got)
			case !enough && got != http.StatusForbidden:
				t.Errorf("%s with scope %s: %d, want 403", pattern, scope, got)
			}
		}
	}
}

func TestWithoutTokensOnlyThisMachine(t *testing.T) {
	s := newSite(t)
	s.want(http.StatusOK, "GET", "/v1/jobs", "")
	s.want(http.StatusOK, "GET", "/v1/jobs", "", "Host", "localhost:7788")
	s.want(http.StatusOK, "GET", "/v1/jobs", "", "Host", "[::1]:7788")
	for _, host := range []string{"daybook.example", "127.0.0.1.nip.example:80", "localhost.example"} {
		s.refused(kindHost, "GET", "/v1/jobs", "", "Host", host)
	}
	s.refused(kindUnauthorized, "GET", "/v1/jobs", "", "Authorization", "Bearer dbk_unknown")
	// From another machine, as the request would say.
	r := httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:7788/v1/jobs", nil)
	r.RemoteAddr = "192.0.2.7:50000"
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("another machine without a token: %d", w.Code)
	}
	// What was shut does not fall open.
	secret := s.newToken("one", ScopeRead)
	if err := s.api.tokens.Revoke(t.Context(), "one", "test"); err != nil {
		t.Fatal(err)
	}
	s.refused(kindUnauthorized, "GET", "/v1/jobs", "")
	s.refused(kindUnauthorized, "GET", "/v1/jobs", "", "Authorization", "Bearer "+secret)
}

func TestEventsNameTheToken(t *testing.T) {
	s := newSite(t)
	s.token = s.newToken("ci", ScopeAdmin)
	correlation := "01890000-0000-7000-8000-000000000001"
	s.want(http.StatusCreated, "POST", "/v1/jobs", `{"name": "report", "kind": "noop"}`, requestIDHeader, correlation)
	id := s.run("report")
	s.finish("default", "noop")
	s.want(http.StatusCreated, "POST", "/v1/runs/"+id.String()+"/retry", "")
	recs, err := s.store.ReadStream(t.Context(), domain.CategoryJob, domain.JobID("report"))
	if err != nil {
		t.Fatal(err)
	}
	if recs[0].Actor != "token:ci" || recs[0].Correlation == nil || recs[0].Correlation.String() != correlation {
		t.Errorf("created by %s, correlation %v", recs[0].Actor, recs[0].Correlation)
	}
	for _, a := range s.actors(domain.CategoryRun, id) {
		if !strings.HasSuffix(a, " token:ci") && !strings.HasPrefix(a, "RunClaimed ") {
			t.Errorf("event without the token's name: %s", a)
		}
	}
}

func TestLocalTokenWorksAndNoMore(t *testing.T) {
	s := newSite(t)
	s.newToken("some", ScopeRead)
	s.api.LocalToken = "local-secret"
	s.token = "local-secret"
	s.want(http.StatusOK, "POST", protocol.HTTPPath(protocol.OpPoll), `{"worker_id": "w-1", "lanes": [{"queue": "default", "kind": "noop"}], "max": 1}`)
	s.refused(kindForbidden, "GET", "/v1/jobs", "")
}

func TestTokens(t *testing.T) {
	s := newSite(t)
	tokens := s.api.tokens
	secret := s.newToken("ci", ScopeEnqueue, ScopeRead, ScopeRead)
	if len(secret) < 40 {
		t.Errorf("a secret of %d characters", len(secret))
	}
	for what, q := range map[string]NewToken{
		"a name twice": {Name: "ci", Scopes: Scopes}, "no name": {Scopes: Scopes}, "no scope": {Name: "a"}, "an unknown scope": {Name: "a", Scopes: []Scope{"root"}},
		"a negative life": {Name: "a", Scopes: Scopes, Life: -1},
	} {
		if _, _, err := tokens.Create(t.Context(), q); err == nil {
			t.Errorf("%s was accepted", what)
		} else if _, ok := err.(*TokenError); !ok {
			t.Errorf("%s: %T %v", what, err, err)
		}
	}
	all, err := tokens.List(t.Context())
	if err != nil || len(all) != 1 || len(all[0].Scopes) != 2 || !all[0].Live {
		t.Errorf("list %+v %v", all, err)
	}
	// An answer is believed for a while, and no longer.
	tokens.ttl = time.Hour
	s.want(http.StatusOK, "GET", "/v1/jobs", "", "Authorization", "Bearer "+secret)
	if err := tokens.Revoke(t.Context(), "ci", "test"); err != nil {
		t.Fatal(err)
	}
	s.want(http.StatusOK, "GET", "/v1/jobs", "", "Authorization", "Bearer "+secret)
	clear(tokens.known)
	s.refused(kindUnauthorized, "GET", "/v1/jobs", "", "Authorization", "Bearer "+secret)
	if err := tokens.Revoke(t.Context(), "ci", "test"); err == nil {
		t.Error("revoked twice")
	}
}
