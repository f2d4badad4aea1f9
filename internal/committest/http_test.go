package committest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/engine"
	"github.com/daybookhq/daybook/internal/httpapi"
	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
)

// silence is told that work came due, and does nothing.
type silence struct{}

func (silence) Due(string)             {}
func (silence) JobsChanged()           {}
func (silence) Cancelled(...uuid.UUID) {}

// api serves the HTTP API over the store that is cut.
func (w *world) api() string {
	w.t.Helper()
	registry := prometheus.NewRegistry()
	e, err := engine.New(engine.Config{ID: "test", Store: w.cut, NATS: natstest.New(w.t).Conn(w.t), Topology: natsjs.EmbeddedTopology(), Registry: registry})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	done := make(chan error, 1)
	go func() { done <- e.Service().Run(ctx) }()
	w.t.Cleanup(func() { stop(); <-done })
	h := httpapi.Handler(httpapi.Config{Store: w.cut, Work: e.Service(), Wake: silence{}, Gather: registry, Logger: slog.New(slog.NewTextHandler(w.t.Output(), nil))})
	server := httptest.NewServer(h)
	w.t.Cleanup(server.Close)
	return server.URL
}

func post(t *testing.T, url, body string, headers ...string) (status int, answer string, header http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

// The worker protocol gives the answer that was lost, over any transport: it is
// Handle that every transport calls.
func TestWorkerProtocol(t *testing.T) {
	w := newWorld(t)
	url := w.api()
	r := w.claimed(time.Minute)
	claim := fmt.Sprintf(`"run_id": %q, "claim_id": %q`, r.ID, r.ClaimID)
	for _, c := range []struct{ op, body, again string }{
		{"start", `{"worker_id": "w", "items": [{` + claim + `, "token": "` + uuid.NewString() + `"}]}`, `"attempt":1`},
		{"fail", `{"items": [{` + claim + `, "error": {"type": "t", "message": "m"}, "retryable": true}]}`, `"next":"retry"`},
	} {
		call := func() (int, string) {
			status, answer, _ := post(t, url+"/v1/work/"+c.op, c.body)
			return status, answer
		}
		w.cutter.arm("COMMIT")
		status, answer := call()
		if cut := w.cutter.fired(); len(cut) != 1 || status != http.StatusServiceUnavailable {
			t.Fatalf("%s: cut %v, answered %d %s", c.op, cut, status, answer)
		}
		if status, answer = call(); status != http.StatusOK || !strings.Contains(answer, c.again) {
			t.Errorf("%s: the repeat is answered %d %s", c.op, status, answer)
		}
	}
	if got := w.history(domain.CategoryRun, r.ID); got != "Scheduled Claimed Started RetryScheduled" {
		t.Errorf("history %s", got)
	}
}

// A caller that repeats its request with the same Idempotency-Key gets the run
// that the lost answer was about, wherever the answer was lost: at the commit of
// the run, or when the answer was put by.
func TestIdempotencyKey(t *testing.T) {
	for name, c := range map[string]struct {
		tag    string
		status int // of the first answer
	}{
		"the run's commit": {"COMMIT", http.StatusServiceUnavailable},
		"the key's claim":  {"INSERT 0 1", http.StatusServiceUnavailable},
		"the answer kept":  {"UPDATE 1", http.StatusCreated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			url := w.api()
			ask := func() (int, string, http.Header) {
				return post(t, url+"/v1/jobs/report/runs", `{"args": {"n": 1}}`, "Idempotency-Key", "one")
			}
			w.cutter.arm(c.tag)
			status, first, _ := ask()
			if cut := w.cutter.fired(); len(cut) != 1 || status != c.status {
				t.Fatalf("cut %v, first answer %d %s", cut, status, first)
			}
			var got struct {
				RunID uuid.UUID `json:"run_id"`
			}
			// The key may be another's for as long as a request lasts: the caller
			// is told when to come again.
			status, again, header := ask()
			if status == http.StatusConflict && header.Get("Retry-After") != "" && name == "the key's claim" {
				w.exec("UPDATE idempotency_keys SET busy_until = now() - interval '1 second'") // the wait
				status, again, _ = ask()
			}
			if err := json.Unmarshal([]byte(again), &got); err != nil || status != http.StatusCreated {
				t.Fatalf("the repeat is answered %d %s", status, again)
			}
			if n := w.count("SELECT count(*) FROM events WHERE type = 'RunScheduled'"); n != 1 || w.history(domain.CategoryRun, got.RunID) != "Scheduled" {
				t.Errorf("%d runs, answered with %s", n, got.RunID)
			}
			if c.status == http.StatusCreated && first != again {
				t.Errorf("answered with %s, then with %s", first, again)
			}
			if _, third, _ := ask(); third != again {
				t.Errorf("answered with %s, then with %s", again, third)
			}
		})
	}
}
