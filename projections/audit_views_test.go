package projections

import (
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

// The questions of docs/audit.md are asked as they stand there.
func TestQuestionsOfTheAuditPage(t *testing.T) {
	w := newWorld(t)
	w.happens(t, "billing", 3)
	w.retried(t)
	w.follow(t)
	if err := Rebuild(t.Context(), w.Store, RunSummariesName, nil, nil); err != nil { // the views survive it
		t.Fatal(err)
	}

	page, err := os.ReadFile("../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), w.db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), "SET ROLE daybook_auditor"); err != nil {
		t.Fatal(err)
	}
	questions := strings.Split(string(page), "\n## ")[1:]
	if len(questions) != 10 {
		t.Errorf("the page asks %d questions, want ten", len(questions))
	}
	answers := map[string]int{"2.": 7, "5.": 4, "6.": 2, "7.": 0, "9.": 0, "10.": 0}
	for _, q := range questions {
		title, rest, _ := strings.Cut(q, "\n")
		_, sql, ok := strings.Cut(rest, "```sql\n")
		sql, _, end := strings.Cut(sql, "```")
		if !ok || !end {
			t.Errorf("%s: no SQL", title)
			continue
		}
		rows, err := conn.Query(t.Context(), sql)
		if err != nil {
			t.Errorf("%s: %v", title, err)
			continue
		}
		n := 0
		for rows.Next() {
			n++
		}
		if err := rows.Err(); err != nil {
			t.Errorf("%s: %v", title, err)
		}
		number, _, _ := strings.Cut(title, " ")
		if want, known := answers[number]; known && n != want {
			t.Errorf("%s: %d rows, want %d", title, n, want)
		}
	}
	if _, err := conn.Exec(t.Context(), "SELECT 1 FROM events LIMIT 1"); sqlState(err) != "42501" {
		t.Errorf("the auditor reads tables: %v", err)
	}
}

// retried makes a run that fails once and then succeeds.
func (w *world) retried(t *testing.T) {
	t.Helper()
	got, err := w.Request(t.Context(), []eventstore.RunRequest{{Job: "billing"}})
	if err != nil || got[0].Err != nil {
		t.Fatal(err, got)
	}
	for attempt := range 2 {
		c, err := w.Claim(t.Context(), eventstore.ClaimRequest{Lane: w.lane, Limit: 1, Lease: 60e9}, noOutbox{})
		if err != nil || len(c.Runs) != 1 {
			t.Fatalf("claimed %d, %v", len(c.Runs), err)
		}
		r := c.Runs[0]
		var end domain.RunCommand = domain.FailRun{ClaimID: r.ClaimID, Retryable: true, RetryAfter: 1, Error: domain.RunError{Type: "x", Message: "no"}}
		if attempt == 1 {
			end = domain.SucceedRun{ClaimID: r.ClaimID}
		}
		if _, err := w.Execute(t.Context(), []eventstore.Command{
			{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: uuid.New(), Worker: "w", ExecutionTerms: domain.ExecutionTerms{Lease: 60e9}}}, {RunID: r.ID, Do: end},
		}); err != nil {
			t.Fatal(err)
		}
	}
}
