package eventstream

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// A place in front of what the log has let go of is refused and the low mark
// named, on pages and on streams; a reader without a place gets what is kept.
func TestAPlaceBelowTheLowMarkIsGone(t *testing.T) {
	w := newWorld(t)
	w.add(t, "a", "b", "c", "d")
	first, _, _ := w.get(t, "?limit=1")
	if _, err := w.admin.Exec(t.Context(), `
INSERT INTO retired_months (month, sha256, file, directory, host, runs, events, bytes, newest_at, position, era, xid, seen_era, snapshot, exported_by, dropped_at)
SELECT '2020-01-01', 'x', 'f', 'd', 'h', 1, 2, 3, now(), position, era, xid, era, pg_current_snapshot(), 'x', now() FROM events WHERE stream_id = $1`, id("b")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.Exec(t.Context(), "DELETE FROM events WHERE stream_id = ANY($1)", []uuid.UUID{id("a"), id("b")}); err != nil {
		t.Fatal(err)
	}
	low, err := w.LowMark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	behind := strconv.FormatInt(low.Position, 10)
	for _, after := range []string{"0", "1", first.Next} {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			status, text := w.ask(t, "?after="+after, accept)
			if status != http.StatusGone || !strings.HasPrefix(text, "retired: ") || !strings.Contains(text, behind) {
				t.Errorf("after %s, %s: %d %s", after, accept, status, text)
			}
		}
	}
	p, status, text := w.get(t, "?limit=1")
	if status != http.StatusOK || subjects(p.Events) != ids("c") || p.LowMark != low.Position {
		t.Fatalf("without a place: %d %s", status, text)
	}
	if p, status, text = w.get(t, "?after="+p.Next); status != http.StatusOK || subjects(p.Events) != ids("d") {
		t.Errorf("and on from there: %d %s", status, text)
	}
	if p, status, text = w.get(t, "?after="+behind); status != http.StatusOK || subjects(p.Events) != ids("c", "d") {
		t.Errorf("from the low mark: %d %s", status, text)
	}
	if _, status, text = w.get(t, "?after=now"); status != http.StatusOK {
		t.Errorf("from the end: %d %s", status, text)
	}
}

func id(name string) uuid.UUID { return domain.JobID(name) }

func (w *world) ask(t *testing.T, query, accept string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.srv.URL+"/v1/events"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusOK {
		return resp.StatusCode, ""
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
