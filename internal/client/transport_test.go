package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/httpapi"
	"github.com/daybookhq/daybook/projections"
)

// deaf carries requests out and breaks the connection instead of answering, the
// first times.
func deaf(h http.Handler, times int32) http.Handler {
	var left atomic.Int32
	left.Store(times)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if left.Add(-1) < 0 {
			h.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
}

// A reply that is lost is asked for again, and nothing is done twice.
func TestLostReplies(t *testing.T) {
	w := newWorld(t)
	define(t, w.http(), "a")
	count := func() (n int) {
		t.Helper()
		if err := w.admin.QueryRow(t.Context(), "SELECT count(*) FROM events").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	o := client.HTTPOptions{Token: "owner", Actor: actor}
	before := count()
	got := must[client.Triggered](t)(w.over(deaf(w.api, 3), o).Trigger(t.Context(), client.Trigger{Job: "a"}))
	if n := count() - before; n != 1 || !got.Created {
		t.Errorf("%d events, %+v", n, got)
	}
	if c, err := w.over(deaf(w.api, 2), o).CancelRun(t.Context(), got.RunID, ""); err != nil || c.Repeat {
		t.Errorf("cancel: %+v, %v", c, err)
	}
	if _, changed, err := w.over(deaf(w.api, 2), o).CommandJob(t.Context(), "a", client.Pause, "x"); err != nil || !changed {
		t.Errorf("pause: %v, %v", changed, err)
	}
	if n := count() - before; n != 3 {
		t.Errorf("%d events, want those of one run, its end and a pause", n)
	}
	o.Patience = 300 * time.Millisecond
	_, err := w.over(deaf(w.api, 1000), o).Trigger(t.Context(), client.Trigger{Job: "a"})
	if e := is[*client.UnreachableError](t, err); !e.Unknown || e.Tries < 2 || !errors.Is(err, eventstore.ErrUnknownOutcome) || !strings.Contains(err.Error(), "may have been carried out") {
		t.Errorf("never an answer: %v", err)
	}
	_, err = w.over(deaf(w.api, 1000), o).Job(t.Context(), "a")
	if e := is[*client.UnreachableError](t, err); e.Unknown {
		t.Errorf("a question changes nothing: %v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	c, err := client.OpenHTTP(client.HTTPOptions{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for what, err := range map[string]error{
		"a question": func() error { _, err := c.Queues(t.Context()); return err }(),
		"a change":   func() error { _, err := c.Trigger(t.Context(), client.Trigger{Job: "a"}); return err }(),
		"a wait":     func() error { _, err := c.Events(t.Context(), client.EventQuery{Wait: time.Hour}); return err }(),
		"a stream":   func() error { _, err := c.Verify(t.Context(), nil); return err }(),
	} {
		if e := is[*client.UnreachableError](t, err); e.Tries != 1 || e.Unknown || !strings.Contains(err.Error(), "http://127.0.0.1:1 cannot be reached") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A wait outlasts a server that is stopped and started again.
func TestWaitAcrossARestart(t *testing.T) {
	w := newWorld(t)
	define(t, w.http(), "a")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve := func(l net.Listener) *http.Server {
		s := &http.Server{Handler: w.api}
		go func() { _ = s.Serve(l) }()
		return s
	}
	first := serve(l)
	c, err := client.OpenHTTP(client.HTTPOptions{URL: "http://" + l.Addr().String(), Token: "owner", Actor: actor})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	run := must[client.Triggered](t)(c.Trigger(t.Context(), client.Trigger{Job: "a"}))
	ended := make(chan error, 1)
	go func() {
		got, err := c.AwaitRun(t.Context(), run.RunID)
		if err == nil && got.State != domain.Succeeded {
			err = errors.New(string(got.State))
		}
		ended <- err
	}()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	w.work()
	again, err := net.Listen("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	second := serve(again)
	defer func() { _ = second.Close() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(deadline):
		t.Fatal("the wait did not find the server again")
	}
}

// An engine that stops lets go of those who wait.
func TestStoppingEngineAnswersWaits(t *testing.T) {
	w := newWorld(t)
	define(t, w.http(), "a")
	run := must[client.Triggered](t)(w.http().Trigger(t.Context(), client.Trigger{Job: "a"}))
	w.stop()
	s := httptest.NewServer(w.api)
	defer s.Close()
	for _, path := range []string{"/v1/runs/" + run.RunID.String() + "/outcome?wait=25s", "/v1/events?after=now&wait=25s"} {
		began := time.Now()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer owner")
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if took := time.Since(began); resp.StatusCode != http.StatusOK || took > 20*time.Second {
			t.Errorf("%s: %s after %s", path, resp.Status, took)
		}
	}
}

func TestTokens(t *testing.T) {
	w := newWorld(t)
	tokens := httpapi.NewTokens(w.store.Pool())
	secret, _, err := tokens.Create(t.Context(), httpapi.NewToken{Name: "reader", Scopes: []httpapi.Scope{httpapi.ScopeRead}, By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	reader := w.over(w.api, client.HTTPOptions{Token: secret, Actor: "cli:mallory@host"})
	if _, err := reader.Queues(t.Context()); err != nil {
		t.Error(err)
	}
	_, err = reader.CancelRun(t.Context(), uuid.New(), "")
	if e := is[*client.AccessError](t, err); e.Status != http.StatusForbidden || e.Scope != "operate" || !strings.Contains(err.Error(), "DAYBOOK_TOKEN") || !strings.Contains(err.Error(), "reader") {
		t.Error(err)
	}
	_, err = w.over(w.api, client.HTTPOptions{}).Trigger(t.Context(), client.Trigger{Job: "a"})
	if e := is[*client.AccessError](t, err); e.Status != http.StatusUnauthorized || e.Given || e.Scope != "enqueue" || !strings.Contains(err.Error(), "DAYBOOK_TOKEN") {
		t.Error(err)
	}
	_, err = w.over(w.api, client.HTTPOptions{Token: "dbk_unknown"}).Queues(t.Context())
	if e := is[*client.AccessError](t, err); !e.Given || e.Scope != "read" {
		t.Error(err)
	}
	if _, err = w.over(w.api, client.HTTPOptions{Token: secret}).Verify(t.Context(), nil); is[*client.AccessError](t, err).Scope != "operate" {
		t.Error(err)
	}
	// Only the owner's token speaks in another name.
	admin, _, err := tokens.Create(t.Context(), httpapi.NewToken{Name: "admin", Scopes: []httpapi.Scope{httpapi.ScopeAdmin}, By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	named := w.over(w.api, client.HTTPOptions{Token: admin, Actor: "cli:mallory@host"})
	define(t, named, "a")
	if h := must[[]client.Event](t)(named.JobHistory(t.Context(), "a", 0, 1)); h[0].Actor != "token:admin" {
		t.Errorf("actor %s", h[0].Actor)
	}
	all, err := named.Tokens(t.Context())
	if err != nil || len(all) != 2 || !all[0].Live || all[1].Scopes[0] != "read" {
		t.Errorf("tokens %+v, %v", all, err)
	}
	if err := named.RevokeToken(t.Context(), "reader"); err != nil {
		t.Error(err)
	}
	if err := named.RevokeToken(t.Context(), "reader"); !errors.Is(err, eventstore.ErrNotFound) {
		t.Errorf("revoked twice: %v", err)
	}
}

// What answers but is no engine is named, and not taken for one.
func TestOtherServers(t *testing.T) {
	w := &world{t: t}
	answers := func(status int, kind, body string, header ...string) *client.HTTP {
		return w.over(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", kind)
			for i := 0; i < len(header); i += 2 {
				rw.Header().Set(header[i], header[i+1])
			}
			rw.WriteHeader(status)
			_, _ = rw.Write([]byte(body))
		}), client.HTTPOptions{Patience: 300 * time.Millisecond})
	}
	ask := func(c *client.HTTP) error { _, err := c.Queues(t.Context()); return err }
	problem := func(kind string, status int) string {
		b, _ := json.Marshal(map[string]any{"type": "/problems/" + kind, "status": status, "detail": "so it is", "request_id": "r-1"})
		return string(b)
	}
	const isProblem = "application/problem+json"
	for name, test := range map[string]struct {
		c    *client.HTTP
		said string
		away bool
	}{
		"a web page":    {answers(200, "text/html", "<html>"), "is it the base URL of an engine?", false},
		"a redirect":    {answers(301, "text/html", "", "Location", "https://elsewhere.example"), "leads elsewhere, to https://elsewhere.example", false},
		"not JSON":      {answers(200, "application/json", "{"), "cannot be read", false},
		"too much":      {answers(200, "application/json", strings.Repeat(" ", 65<<20)), "exceeds 64 MiB", false},
		"an old engine": {answers(404, isProblem, problem("unknown-path", 404)), "older than this command", false},
		"a fault":       {answers(500, isProblem, problem("internal", 500)), "so it is (request r-1)", false},
		"overloaded":    {answers(503, isProblem, problem("overloaded", 503)), "so it is", true},
		"a proxy":       {answers(502, "text/html", "<html>"), "502", true},
		"too slow":      {answers(504, isProblem, problem("timeout", 504)), "so it is", true},
	} {
		err := ask(test.c)
		_, away := errors.AsType[*client.UnreachableError](err)
		if err == nil || !strings.Contains(err.Error(), test.said) || away != test.away {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:7788", "ftp://x", "http://", "http://user:secret@x", "http://x?y"} {
		if _, err := client.OpenHTTP(client.HTTPOptions{URL: bad}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := client.OpenHTTP(client.HTTPOptions{URL: "http://x", Token: "a\nb"}); err == nil {
		t.Error("a token with a line break")
	}
}

// A long operation whose answer breaks off has no result.
func TestBrokenStream(t *testing.T) {
	w := &world{t: t}
	for name, text := range map[string]string{
		"no last line": `{"progress":{"events":1}}` + "\n",
		"half a line":  `{"done":true,"resu`,
	} {
		c := w.over(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/jsonl")
			_, _ = rw.Write([]byte(text))
		}), client.HTTPOptions{})
		seen := 0
		_, err := c.Verify(t.Context(), func(n int) { seen = n })
		is[*client.UnreachableError](t, err)
		if name == "no last line" && seen != 1 {
			t.Errorf("progress %d", seen)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := w.over(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/jsonl")
		rw.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(rw).Flush()
		cancel()
		<-r.Context().Done()
	}), client.HTTPOptions{})
	if err := c.RebuildProjection(ctx, projections.RunSummariesName, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}
