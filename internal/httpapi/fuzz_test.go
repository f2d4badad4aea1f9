package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/worker/protocol"
)

const someRun = "01890a5d-ac96-8000-8000-000000000000"

// fuzzed are the operations that take a body, each with one that it takes.
var fuzzed = []struct{ method, path, body string }{
	{"POST", "/v1/jobs", `{"name": "made", "kind": "noop", "schedule": "@every 1h", "retry": {"max_attempts": 3, "initial": "1s"}}`},
	{"PUT", "/v1/jobs/report", `{"name": "report", "kind": "noop", "args": {"a": [1, null]}, "concurrency": {"key": "a", "limit": 1}}`},
	{"POST", "/v1/jobs/report/pause", `{"reason": "r"}`},
	{"POST", "/v1/jobs/report/resume", `{"reason": "r"}`},
	{"POST", "/v1/jobs/hourly/backfill", `{"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z", "reason": "r"}`},
	{"POST", "/v1/jobs/report/runs", `{"key": "k", "at": "2027-01-01T00:00:00Z", "args": {"n": 1}, "reason": "r"}`},
	{"POST", "/v1/jobs/report/runs:batch", `{"runs": [{"key": "a"}, {"args": 1}]}`},
	{"POST", "/v1/runs/" + someRun + "/cancel", `{"reason": "r"}`},
	{"POST", "/v1/runs/" + someRun + "/retry", `{"key": "k"}`},
	{"POST", "/v1/work/start", `{"worker_id": "w", "items": [{"run_id": "` + someRun + `", "claim_id": "` + someRun + `", "token": "` + someRun + `"}]}`},
	{"POST", "/v1/work/heartbeat", `{"items": [{"run_id": "` + someRun + `", "claim_id": "` + someRun + `", "progress": 0.5, "message": "m"}]}`},
	{"POST", "/v1/work/complete", `{"items": [{"run_id": "` + someRun + `", "claim_id": "` + someRun + `", "result": {"a": 1}, "output": {"head": "h", "encoding": "base64"}}]}`},
	{"POST", "/v1/work/fail", `{"items": [{"run_id": "` + someRun + `", "claim_id": "` + someRun + `", "error": {"type": "t", "message": "m"}, "retryable": true, "retry_after": "1s"}]}`},
	{"POST", "/v1/work/snooze", `{"items": [{"run_id": "` + someRun + `", "claim_id": "` + someRun + `", "delay": "1s"}]}`},
	{"POST", "/v1/work/release", `{"items": [{"run_id": "` + someRun + `", "claim_id": "` + someRun + `", "reason": "r"}]}`},
	{"POST", "/v1/work/presence", `{"worker_id": "w", "lanes": [{"queue": "default", "kind": "noop"}], "slots": 4, "version": "1", "host": "h"}`},
	{"POST", "/v1/work/poll", `{"worker_id": "w", "lanes": [{"queue": "default", "kind": "none"}], "max": 1, "wait": "0s"}`},
	{"POST", "/v1/work/enqueue", `{"items": [{"job": "report", "key": "k", "args": {"n": 1}}]}`},
}

// FuzzBodies: whatever a body holds, the request is answered, and never with a
// fault of the server. What is refused says where and why.
func FuzzBodies(f *testing.F) {
	s := newSite(f)
	s.job("report")
	s.want(http.StatusCreated, "POST", "/v1/jobs", `{"name": "hourly", "kind": "noop", "schedule": "@hourly"}`)
	for i, op := range fuzzed {
		f.Add(byte(i), []byte(op.body))
	}
	for _, body := range []string{"", "null", "[]", `{"items": null}`, `{"items": [null]}`, `{"args": "\u0000"}`, `{"args": "\ud800"}`, `{"key": "\u0000"}`, `{"at": "9999-12-31T23:59:59Z"}`,
		`{"reason": "\u0000"}`, `{"runs": []}`, `{"items": [{"output": {"encoding": "x"}}]}`, strings.Repeat("[", 2000), "\xff", `{"worker_id": "\u0000", "lanes": [], "slots": -1}`} {
		for i := range fuzzed {
			f.Add(byte(i), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, n byte, body []byte) {
		op := fuzzed[int(n)%len(fuzzed)]
		if op.path == "/v1/work/poll" && bytes.Contains(body, []byte("wait")) && !bytes.Contains(body, []byte(`"0s"`)) {
			return // it would wait as it is asked to
		}
		req := httptest.NewRequestWithContext(t.Context(), op.method, "http://127.0.0.1"+op.path, bytes.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		s.api.ServeHTTP(rec, req)
		answer := rec.Body.Bytes()
		if rec.Code >= 500 || !json.Valid(answer) || len(answer) > 1<<20 {
			t.Fatalf("%s %s %q: %d %s", op.method, op.path, body, rec.Code, answer)
		}
		if strings.HasPrefix(op.path, "/v1/work/") {
			checkReply(t, op.path, body, answer)
			return
		}
		if rec.Code < 400 {
			return
		}
		var p Problem
		if err := json.Unmarshal(answer, &p); err != nil || p.Status != rec.Code || p.Detail == "" && len(p.Errors) == 0 {
			t.Fatalf("%s %s %q: %s", op.method, op.path, body, answer)
		}
		for _, v := range p.Errors {
			if v.Message == "" || v.Location == "" && v.Line == 0 && rec.Code == http.StatusUnprocessableEntity {
				t.Fatalf("%s %s %q: does not say where: %s", op.method, op.path, body, answer)
			}
		}
	})
}

// checkReply looks for faults of the server in a reply of the worker protocol:
// a worker would send the same again.
func checkReply(t *testing.T, path string, body, answer []byte) {
	t.Helper()
	var reply struct {
		Error   *protocol.Error
		Results []struct{ Error *protocol.Error }
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		t.Fatalf("%s %q: %v: %s", path, body, err, answer)
	}
	faults := []*protocol.Error{reply.Error}
	for _, r := range reply.Results {
		faults = append(faults, r.Error)
	}
	for _, e := range faults {
		if e != nil && (e.Temporary() || e.Message == "") {
			t.Fatalf("%s %q: %s", path, body, answer)
		}
	}
}
