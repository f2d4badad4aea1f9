package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/internal/client"
)

func TestIdempotencyKey(t *testing.T) {
	s := newSite(t)
	s.job("report")
	first := s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", `{"args": 1}`, idempotencyHeader, "k")
	second := s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", `{"args": 1}`, idempotencyHeader, "k")
	if string(first.body) != string(second.body) || first.Header.Get("Location") != second.Header.Get("Location") || second.Header.Get("Content-Type") != "application/json" {
		t.Errorf("answers differ:\n%v %s\n%v %s", first.Header, first.body, second.Header, second.body)
	}
	if first.Header.Get(replayedHeader) != "" || second.Header.Get(replayedHeader) != "true" {
		t.Errorf("replayed: %q, then %q", first.Header.Get(replayedHeader), second.Header.Get(replayedHeader))
	}
	s.refused(kindKeyReused, "POST", "/v1/jobs/report/runs", `{"args": 2}`, idempotencyHeader, "k")
	s.job("other")
	s.refused(kindKeyReused, "POST", "/v1/jobs/other/runs", `{"args": 1}`, idempotencyHeader, "k")
	s.refused(kindMalformed, "POST", "/v1/jobs/report/runs", "", idempotencyHeader, strings.Repeat("k", 256))
	if n := s.count("SELECT count(*) FROM due_runs"); n != 1 {
		t.Errorf("%d runs", n)
	}
	// A caller has keys of its own.
	s.token = s.newToken("ci", ScopeEnqueue)
	s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", `{"args": 2}`, idempotencyHeader, "k")
}

// The process dies after the commit and before the answer is kept: the
// repetition finds the run that is there.
func TestIdempotencyKeyWithoutAnAnswer(t *testing.T) {
	s := newSite(t)
	s.job("report")
	var first, second client.Triggered
	s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", `{}`, idempotencyHeader, "k").into(t, &first)
	s.exec("UPDATE idempotency_keys SET status = NULL, headers = NULL, body = NULL")
	p := s.refused(kindKeyBusy, "POST", "/v1/jobs/report/runs", `{}`, idempotencyHeader, "k")
	if p.Detail == "" {
		t.Error("no reason")
	}
	s.exec("UPDATE idempotency_keys SET busy_until = now()")
	s.refused(kindKeyReused, "POST", "/v1/jobs/report/runs", `{"args": 1}`, idempotencyHeader, "k")
	s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", `{}`, idempotencyHeader, "k").into(t, &second)
	if first != second {
		t.Errorf("first %+v, then %+v", first, second)
	}
	// The row is lost, too: still one run.
	s.exec("DELETE FROM idempotency_keys")
	s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", `{}`, idempotencyHeader, "k").into(t, &second)
	if n := s.count("SELECT count(*) FROM due_runs"); n != 1 || second != first {
		t.Errorf("%d runs, %+v", n, second)
	}
}

// The same for a definition: meanwhile somebody defines the job anew, and the
// repetition must not undo that.
func TestRepeatedDefinitionUndoesNothing(t *testing.T) {
	s := newSite(t)
	mine, theirs := `{"name": "report", "kind": "mine"}`, `{"name": "report", "kind": "theirs"}`
	for _, action := range []client.Action{client.ActionCreate, client.ActionUpdate} {
		var first, second appliedJob
		created := s.do("POST", "/v1/jobs", mine, idempotencyHeader, string(action))
		created.into(t, &first)
		s.want(http.StatusOK, "POST", "/v1/jobs", theirs)
		s.exec("DELETE FROM idempotency_keys")
		events := s.count("SELECT count(*) FROM events")
		repeated := s.do("POST", "/v1/jobs", mine, idempotencyHeader, string(action))
		repeated.into(t, &second)
		if repeated.StatusCode != created.StatusCode || first.Action != action || second.Action != action || !slices.Equal(first.Changed, second.Changed) {
			t.Errorf("first %s %+v, then %s %+v, want to hear of the same %s", created.Status, first, repeated.Status, second, action)
		}
		if n := s.count("SELECT count(*) FROM events"); n != events || second.Job.Spec.Kind != "theirs" {
			t.Errorf("the repetition made %d events; the job is of kind %s", n-events, second.Job.Spec.Kind)
		}
	}
}

// The same for several jobs at a time, of which one is as defined already when the
// request comes first, and for commands: whatever was done since stays.
func TestRepeatedChangesUndoNothing(t *testing.T) {
	s := newSite(t)
	s.job("a")
	s.job("b")
	spec := func(name string) string { return string(s.want(http.StatusOK, "GET", "/v1/jobs/"+name, "").spec(t)) }
	kind := func(name, kind string) { s.do("POST", "/v1/jobs", `{"name": "`+name+`", "kind": "`+kind+`"}`) }
	mine := func(kind string) string { return strings.Replace(spec("a"), `"kind":"noop"`, `"kind":"`+kind+`"`, 1) }
	change := `{"definitions": [{"spec": ` + mine("mine") + `}, {"spec": ` + spec("b") + `}, {"spec": ` + strings.Replace(spec("b"), `"name":"b"`, `"name":"c"`, 1) + `}], "owner": ""}`
	for _, c := range []struct {
		method, path, body string
		since              func()
	}{
		{"POST", "/v1/jobs:apply", change, func() { kind("a", "theirs"); kind("b", "theirs") }},
		{"POST", "/v1/jobs/a/pause", `{"reason": "enough"}`, func() { s.want(http.StatusOK, "POST", "/v1/jobs/a/resume", `{}`) }},
		{"POST", "/v1/jobs/a/resume", `{"reason": "early"}`, nil},
		{"DELETE", "/v1/jobs/c", "", func() { kind("c", "back") }},
	} {
		first := s.do(c.method, c.path, c.body, idempotencyHeader, c.path)
		if c.since != nil {
			c.since()
		}
		s.exec("DELETE FROM idempotency_keys")
		events := s.count("SELECT count(*) FROM events")
		again := s.do(c.method, c.path, c.body, idempotencyHeader, c.path)
		if first.StatusCode >= 300 || again.StatusCode != first.StatusCode {
			t.Errorf("%s: %s %s, again %s %s", c.path, first.Status, first.body, again.Status, again.body)
		}
		if n := s.count("SELECT count(*) FROM events"); n != events {
			t.Errorf("%s: the repetition made %d events", c.path, n-events)
		}
		if c.path == "/v1/jobs:apply" && string(again.body) != string(first.body) {
			t.Errorf("%s: first %s\nthen %s", c.path, first.body, again.body)
		}
	}
	if got := spec("b"); !strings.Contains(got, `"kind":"theirs"`) {
		t.Errorf("the repetition has undone what came after it: %s", got)
	}
}

func TestConcurrentDuplicates(t *testing.T) {
	s := newSite(t)
	s.job("report")
	var mu sync.Mutex
	runs := map[uuid.UUID]bool{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
				got := s.do("POST", "/v1/jobs/report/runs", `{"args": {"a": 1}}`, idempotencyHeader, "same")
				switch got.StatusCode {
				case http.StatusCreated:
					mu.Lock()
					defer mu.Unlock()
					runs[uuid.MustParse(strings.TrimPrefix(got.Header.Get("Location"), "/v1/runs/"))] = true
					return
				case http.StatusConflict: // the first is being carried out
				default:
					t.Errorf("%s %s", got.Status, got.body)
					return
				}
			}
			t.Error("never answered")
		})
	}
	wg.Wait()
	if n := s.count("SELECT count(*) FROM due_runs"); n != 1 || len(runs) != 1 {
		t.Errorf("%d runs, %d told", n, len(runs))
	}
}

func TestRefusedRequestGivesItsKeyBack(t *testing.T) {
	s := newSite(t)
	s.job("report")
	s.refused(kindInvalid, "POST", "/v1/jobs/report/runs", `{"arg": 1}`, idempotencyHeader, "k")
	s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", `{"args": 1}`, idempotencyHeader, "k")
}

func TestEveryCreationTakesAKey(t *testing.T) {
	s := newSite(t)
	s.want(http.StatusCreated, "POST", "/v1/jobs", `{"name": "report", "kind": "noop", "schedule": "0 * * * *"}`, idempotencyHeader, "job")
	s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", "", idempotencyHeader, "run")
	s.finish("default", "noop")
	run := "/v1/runs/" + strings.TrimPrefix(s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", "", idempotencyHeader, "run").Header.Get("Location"), "/v1/runs/")
	waiting := "/v1/runs/" + s.run("report").String()
	apply := `{"definitions": [{"spec": ` + string(s.want(http.StatusOK, "GET", "/v1/jobs/report", "").spec(t)) + `}], "owner": ""}`
	routes := map[string]string{
		"POST /v1/jobs":                   `{"name": "other", "kind": "noop"}`,
		"POST /v1/jobs:apply":             strings.Replace(apply, `"name":"report"`, `"name":"third"`, 1),
		"POST /v1/jobs/report/runs":       `{}`,
		"POST /v1/jobs/report/runs:batch": `{"runs": [{}, {}, {"key": "own"}]}`,
		"POST /v1/jobs/report/backfill":   `{"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T02:00:00Z"}`,
		"POST /v1/jobs/report/pause":      `{"reason": "enough"}`,
		"POST /v1/jobs/report/resume":     `{}`,
		"DELETE /v1/jobs/gone":            "",
		"POST " + run + "/retry":          `{"reason": "again"}`,
		"POST " + waiting + "/cancel":     `{"reason": "enough"}`,
		"POST " + waiting + "/unpark":     "",
		"POST /v1/outbox/replay":          `{"all": true}`,
	}
	s.job("gone")
	for route, body := range routes {
		method, path, _ := strings.Cut(route, " ")
		first := s.do(method, path, body, idempotencyHeader, path)
		events := s.count("SELECT count(*) FROM events")
		again := s.do(method, path, body, idempotencyHeader, path)
		if first.StatusCode >= 300 || again.StatusCode != first.StatusCode || string(again.body) != string(first.body) || again.Header.Get(replayedHeader) != "true" {
			t.Errorf("%s: %s %s, again %s %s", path, first.Status, first.body, again.Status, again.body)
		}
		// Without the kept answer, nothing is made anew either.
		s.exec("DELETE FROM idempotency_keys")
		if got := s.do(method, path, body, idempotencyHeader, path); got.StatusCode >= 300 {
			t.Errorf("%s: %s %s", path, got.Status, got.body)
		}
		if n := s.count("SELECT count(*) FROM events"); n != events {
			t.Errorf("%s: the repetition made %d events", path, n-events)
		}
	}
	s.newToken("old", ScopeRead)
	s.token = s.newToken("admin", ScopeAdmin)
	for range 2 {
		s.want(http.StatusOK, "DELETE", "/v1/tokens/old", "", idempotencyHeader, "revoke")
	}
	s.refused(kindNotFound, "DELETE", "/v1/tokens/old", "", idempotencyHeader, "another")
	creating := 0
	for _, r := range s.api.routes {
		if r.creates {
			creating++
		}
	}
	if creating != len(routes)+1 {
		t.Errorf("%d routes take a key: add the new one above", creating)
	}
}

// spec is the definition in a job's answer.
func (a answer) spec(t *testing.T) []byte {
	t.Helper()
	var job struct {
		Spec json.RawMessage `json:"spec"`
	}
	a.into(t, &job)
	return job.Spec
}

func TestExpiredKeysGo(t *testing.T) {
	s := newSite(t)
	s.job("report")
	s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", `{}`, idempotencyHeader, "old")
	s.exec("UPDATE idempotency_keys SET expires_at = now()")
	s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", `{"args": 2}`, idempotencyHeader, "old")
	s.exec("UPDATE idempotency_keys SET expires_at = now()")
	s.want(http.StatusCreated, "POST", "/v1/jobs/report/runs", `{}`, idempotencyHeader, "new")
	if n := s.count("SELECT count(*) FROM idempotency_keys"); n != 1 {
		t.Errorf("%d keys are kept, want the new one", n)
	}
}

func (s *site) count(sql string) (n int) {
	s.t.Helper()
	if err := s.store.Pool().QueryRow(s.t.Context(), sql).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *site) exec(sql string) {
	s.t.Helper()
	if _, err := s.store.Pool().Exec(s.t.Context(), sql); err != nil {
		s.t.Fatal(err)
	}
}
