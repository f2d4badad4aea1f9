package engine

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"context"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/builtin"
	"github.com/daybookhq/daybook/worker"
)

// Whatever a handler returns or a command writes is recorded, or is the recorded
// reason of a failure; the runs beside it, in the same requests and
// transactions, are not touched by it.
func TestWhatHandlersReturnIsRecordedOrRefused(t *testing.T) {
	const each = 20
	const mega = 1 << 20
	c := newCluster(t)
	c.startEngine("engine-1")
	w := worker.New(worker.Config{NATSURL: c.nats.URL(), URL: c.url, Slots: 8 * each, Name: "w-1", DrainTimeout: 5 * time.Second,
		NATSOptions: []nats.Option{nats.ReconnectWait(20 * time.Millisecond)}, Logger: slog.New(slog.DiscardHandler)})
	builtin.Register(w, builtin.Options{AllowExec: true})
	results := map[string]func(*worker.RawRun) (any, error){
		"fine":        func(*worker.RawRun) (any, error) { return map[string]int{"n": 1}, nil },
		"nul-result":  func(*worker.RawRun) (any, error) { return "a\x00b", nil },
		"huge-result": func(*worker.RawRun) (any, error) { return strings.Repeat("x", mega), nil },
		"no-json":     func(*worker.RawRun) (any, error) { return func() {}, nil },
		"nul-error":   func(*worker.RawRun) (any, error) { return nil, worker.Fatal(errors.New("a\x00b\xff")) },
		"huge-error":  func(*worker.RawRun) (any, error) { return nil, worker.Fatal(errors.New(strings.Repeat("x", mega))) },
		"panic":       func(*worker.RawRun) (any, error) { panic("a\x00b" + strings.Repeat("x", mega)) },
		"large-output": func(r *worker.RawRun) (any, error) {
			r.SetOutput(make([]byte, 32<<10), make([]byte, 32<<10), mega)
			return nil, nil
		},
	}
	for kind, f := range results {
		worker.HandleFunc(w, kind, func(_ context.Context, r *worker.RawRun) (any, error) { return f(r) })
	}
	c.background("w-1", w.Run)
	shell := domain.JobSpec{Name: "shell-output", TimeZone: "UTC", Queue: "default", Kind: domain.KindExec, Retry: domain.DefaultRetry(), Overlap: domain.OverlapAllow,
		Misfire: domain.MisfireLatest, CatchupWindow: domain.DefaultCatchupWindow, MaxCatchup: 100, Priority: 5,
		Target: json.RawMessage(`{"shell": "head -c 1048576 /dev/zero; echo; printf '\\377\\000end'"}`)}
	shell.Retry.MaxAttempts = 1
	c.apply(shell)
	c.request("shell-output", each)
	for kind := range results {
		s := noop(kind)
		s.Kind, s.Retry.MaxAttempts = kind, 1
		c.apply(s)
		c.request(kind, each)
	}
	c.await(each*(len(results)+1), 90*time.Second, "SELECT count(*) FROM events WHERE type IN ('RunSucceeded', 'RunFailed')")
	for job, want := range map[string]struct{ typ, kind string }{
		"fine": {"RunSucceeded", ""}, "large-output": {"RunSucceeded", ""}, "shell-output": {"RunSucceeded", ""},
		"nul-result": {"RunFailed", eventstore.ErrorUnstorable}, "huge-result": {"RunFailed", ""}, "no-json": {"RunFailed", ""},
		"nul-error": {"RunFailed", ""}, "huge-error": {"RunFailed", ""}, "panic": {"RunFailed", ""},
	} {
		n := c.count(`SELECT count(*) FROM events e JOIN events s ON s.stream_id = e.stream_id AND s.type = 'RunScheduled' AND s.data->>'job' = $1
			WHERE e.type = $2 AND ($3 = '' OR e.data->'error'->>'type' = $3) AND ($2 = 'RunSucceeded' OR e.data->'error'->>'message' <> '')`, job, want.typ, want.kind)
		if n != each {
			t.Errorf("%s: %d of %d runs ended with %s %s", job, n, each, want.typ, want.kind)
		}
	}
	if n := c.count("SELECT count(*) FROM run_outputs WHERE total_bytes > 1048576 AND octet_length(head) + octet_length(tail) BETWEEN 1 AND 65536"); n != 2*each {
		t.Errorf("%d outputs of more than a megabyte are kept by their ends, want %d", n, 2*each)
	}
	if n := c.count("SELECT max(pg_column_size(data)) FROM events"); n > 64<<10 {
		t.Errorf("an event of %d bytes in the log", n)
	}
	if n := c.count("SELECT (SELECT count(*) FROM claims) + (SELECT count(*) FROM due_runs) + (SELECT count(*) FROM parked_runs)"); n != 0 {
		t.Errorf("%d runs are stuck", n)
	}
}
