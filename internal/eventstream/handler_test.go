package eventstream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/projections"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()...) }

type world struct {
	*eventstore.Store
	admin *pgxpool.Pool
	srv   *httptest.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := pgtest.New(t)
	s, err := eventstore.Open(t.Context(), eventstore.Config{DSN: db.DSNFor("daybook_engine"), Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	w := &world{Store: s, admin: db.Pool(t, "")}
	w.srv = httptest.NewServer(&Handler{Log: s, Deployment: "test", Done: make(chan struct{}), Problem: func(w http.ResponseWriter, status int, kind, detail string) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "%s: %s", kind, detail)
	}})
	t.Cleanup(w.srv.Close)
	return w
}

const insert = `INSERT INTO events (category, stream_id, version, era, type, at, actor, data) VALUES ('job', $1, 1, 1, 'JobPaused', now(), 'test', '{}')`

func (w *world) add(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, err := w.admin.Exec(t.Context(), insert, domain.JobID(n)); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) get(t *testing.T, query string) (p page[projections.CloudEvent], status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.srv.URL+"/v1/events"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var b strings.Builder
	_, _ = bufio.NewReader(resp.Body).WriteTo(&b)
	_ = json.Unmarshal([]byte(b.String()), &p)
	return p, resp.StatusCode, b.String()
}

func subjects(events []projections.CloudEvent) string {
	var out []string
	for _, e := range events {
		out = append(out, e.Subject)
	}
	return strings.Join(out, " ")
}

func ids(names ...string) string {
	var out []string
	for _, n := range names {
		out = append(out, domain.JobID(n).String())
	}
	return strings.Join(out, " ")
}

func TestPagesNeverMissALateCommit(t *testing.T) {
	w := newWorld(t)
	tx, err := w.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), insert, domain.JobID("early")); err != nil {
		t.Fatal(err)
	}
	w.add(t, "a", "b")
	p, _, _ := w.get(t, "?limit=1")
	if subjects(p.Events) != ids("a") || !p.More {
		t.Fatalf("first page %q", subjects(p.Events))
	}
	p, _, _ = w.get(t, "?after="+p.Next)
	if subjects(p.Events) != ids("b") || p.More {
		t.Fatalf("second page %q", subjects(p.Events))
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.add(t, "c")
	if p, _, _ = w.get(t, "?after="+p.Next); subjects(p.Events) != ids("early", "c") {
		t.Errorf("after the late commit: %q, want %q", subjects(p.Events), ids("early", "c"))
	}
}

func TestFilters(t *testing.T) {
	w := newWorld(t)
	w.add(t, "a", "b", "c")
	if p, _, _ := w.get(t, "?stream="+domain.JobID("b").String()); subjects(p.Events) != ids("b") {
		t.Errorf("by stream: %q", subjects(p.Events))
	}
	if p, _, _ := w.get(t, "?type=daybook.job.paused.v1&limit=2"); subjects(p.Events) != ids("a", "b") {
		t.Errorf("by type: %q", subjects(p.Events))
	}
	if p, _, _ := w.get(t, "?type=RunFailed"); len(p.Events) != 0 || p.Next == "" {
		t.Errorf("of no type there is: %+v", p)
	}
	if p, _, _ := w.get(t, "?after=now"); len(p.Events) != 0 {
		t.Errorf("after now: %q", subjects(p.Events))
	}
	for query, word := range map[string]string{
		"?limit=0": "limit", "?limit=501": "limit", "?after=rubbish": "after", "?after=-1": "after", "?stream=x": "stream", "?kind=x": "no parameter",
		"?after=eyJlcmEiOjEsInByZXYiOiJ4In0": "after",
	} {
		if _, status, text := w.get(t, query); status != http.StatusBadRequest || !strings.Contains(text, word) {
			t.Errorf("%s: %d %s", query, status, text)
		}
	}
}

// A client whose connection breaks goes on from the last id it saw and misses
// nothing, although an earlier transaction commits meanwhile.
func TestStreamGoesOnFromTheLastID(t *testing.T) {
	w := newWorld(t)
	w.add(t, "a", "b")
	tx, err := w.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), insert, domain.JobID("early")); err != nil {
		t.Fatal(err)
	}
	w.add(t, "c")
	first := w.listen(t, "")
	first.want(t, "a", "b", "c")
	w.add(t, "d")
	first.want(t, "d")
	first.close()
	w.add(t, "e")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := w.listen(t, first.last)
	second.want(t, "early", "e")
	w.add(t, "f")
	second.want(t, "f")
	second.close()
}

// listener reads a stream.
type listener struct {
	last  string
	close func()
	lines chan string
}

func (w *world) listen(t *testing.T, last string) *listener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.srv.URL+"/v1/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{lines: make(chan string, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		sc := bufio.NewScanner(resp.Body)
		for sc.Scan() {
			l.lines <- sc.Text()
		}
	}()
	l.close = func() { cancel(); _ = resp.Body.Close(); <-done }
	t.Cleanup(l.close)
	return l
}

func (l *listener) want(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		timeout := time.After(20 * time.Second)
		for found := false; !found; {
			select {
			case line := <-l.lines:
				if id, ok := strings.CutPrefix(line, "id: "); ok {
					l.last = id
				}
				data, ok := strings.CutPrefix(line, "data: ")
				if !ok {
					continue
				}
				var e projections.CloudEvent
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					t.Fatal(err)
				}
				if e.Subject != domain.JobID(name).String() {
					t.Fatalf("the stream brought %s, want %s", e.Subject, name)
				}
				found = true
			case <-timeout:
				t.Fatalf("%s did not come", name)
			}
		}
	}
}
