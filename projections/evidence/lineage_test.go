package evidence

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

// A lineage leads from the definition, and who made it, to the run and whoever
// asked for it, its attempts, and the retries before and after it.
func TestLineage(t *testing.T) {
	w := newWorld(t)
	s := hourly("report", domain.OverlapAllow)
	w.command(t, "report", domain.ApplyJob{Spec: s})
	s.Priority = 2
	w.command(t, "report", domain.ApplyJob{Spec: s, Reason: "it is urgent"})
	ask := func(r eventstore.RunRequest) uuid.UUID {
		t.Helper()
		r.Job, r.Meta.Actor = "report", "token:ops"
		made, err := w.Request(t.Context(), []eventstore.RunRequest{r})
		if err != nil || made[0].Err != nil {
			t.Fatal(err, made)
		}
		for _, c := range w.claim(t, 10) {
			w.execute(t, eventstore.Command{RunID: c.ID, Do: domain.StartRun{ClaimID: c.ClaimID, Token: uuid.New(), Worker: "w-9", ExecutionTerms: domain.ExecutionTerms{Lease: time.Minute}}},
				eventstore.Command{RunID: c.ID, Do: domain.FailRun{ClaimID: c.ClaimID, Error: domain.RunError{Type: "exit", Message: "disk full"}}})
		}
		return made[0].RunID
	}
	first := ask(eventstore.RunRequest{Key: "invoice-7", Reason: "by hand"})
	second := ask(eventstore.RunRequest{RetryOf: &first, Reason: "disk is back"})
	third := ask(eventstore.RunRequest{RetryOf: &second, Reason: "once more"})
	f := projections.New(w.Store, projections.Config{})
	for {
		if _, next, err := f.Step(t.Context()); err != nil {
			t.Fatal(err)
		} else if next > 0 {
			break
		}
	}
	l, err := w.Lineage(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	if d := l.Definition; d == nil || d.Version != 2 || d.Actor != "cli:operator" || d.Reason != "it is urgent" || len(d.Changed) != 1 || d.Changed[0] != "priority" {
		t.Errorf("definition %+v", d)
	}
	if len(l.Before) != 1 || l.Before[0].RunID != first || l.Before[0].Reason != "by hand" || l.Before[0].Key != "invoice-7" || l.Before[0].MadeBy != "token:ops" || l.Before[0].State != domain.Failed {
		t.Errorf("before it %+v", l.Before)
	}
	if r := l.Run; r.RunID != second || r.Reason != "disk is back" || r.Origin != domain.OriginRetry || r.MadeBy != "token:ops" {
		t.Errorf("the run %+v", r)
	}
	if len(l.Attempts) != 1 || l.Attempts[0].Worker != "w-9" || l.Attempts[0].Error == nil {
		t.Errorf("attempts %+v", l.Attempts)
	}
	if len(l.After) != 1 || l.After[0].RunID != third || l.After[0].Reason != "once more" {
		t.Errorf("after it %+v", l.After)
	}
	if l, err = w.Lineage(t.Context(), third); err != nil || len(l.Before) != 2 || l.Before[0].RunID != first || len(l.After) != 0 {
		t.Errorf("of the last one %+v, %v", l, err)
	}
	if _, err := w.Lineage(t.Context(), uuid.New()); !errors.Is(err, eventstore.ErrNotFound) {
		t.Errorf("of no run: %v", err)
	}
	var by, why string
	if err := w.admin.QueryRow(t.Context(), "SELECT defined_by, definition_reason FROM daybook_audit.lineage WHERE retry_of = $1", first).Scan(&by, &why); err != nil || by != "cli:operator" || why != "it is urgent" {
		t.Errorf("the view: %s %s %v", by, why, err)
	}

	// What the log has let go of, before or after, is named with where it is.
	w.exec(t, `INSERT INTO retired_months (month, sha256, file, directory, host, runs, events, bytes, newest_at, position, era, xid, seen_era, snapshot, exported_by, dropped_at)
		VALUES (date_trunc('month', now() AT TIME ZONE 'UTC'), 'x', 'runs-x.jsonl', 'd', 'h', 2, 8, 3, now(), 1, 1, '1', 1, pg_current_snapshot(), 'x', now())`)
	w.exec(t, "DELETE FROM events WHERE stream_id = ANY ($1)", []uuid.UUID{first, third})
	if l, err = w.Lineage(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	for where, r := range map[string][]Ancestor{"before": l.Before, "after": l.After} {
		if len(r) != 1 || r[0].RunID == second || !strings.Contains(r[0].Gone, "runs-x.jsonl") {
			t.Errorf("gone %s it: %+v", where, r)
		}
	}
	if l.Run.RunID != second || l.Run.Gone != "" {
		t.Errorf("the run itself %+v", l.Run)
	}
}
