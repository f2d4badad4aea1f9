package outbox

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// Rows that are named must be found by the key, on a table that was empty when it was analyzed and on a large one.
func TestPlans(t *testing.T) {
	w := newWorld(t)
	id, now := uuid.New(), time.Now()
	fence := []any{id, "engine-1", now}
	statements := map[string]struct {
		sql  string
		args []any
	}{
		"deletePacks": {deletePacks, []any{[]uuid.UUID{id}}},
		"deleteIdle":  {deleteIdle, []any{[]uuid.UUID{id}}},
		"keepFailed":  {keepFailed, append(fence, 1, []byte{1}, "why", time.Second)},
		"keepParked":  {keepParked, append(fence, 1, []byte{1}, "why")},
		"splitParked": {splitParked, append(fence, uuid.New(), "why", 1, []byte{1})},
		"parkWhole":   {parkWhole, append(fence, "why")},
		"leasePacks":  {leasePacks, []any{"engine-1", time.Second, 8, []uuid.UUID{id}}},
	}
	check := func(size string) {
		for name, s := range statements {
			plan := w.explain(t, s.sql, s.args...)
			scans := strings.Count(plan, "Seq Scan on outbox")
			if name == "leasePacks" { // searches, and updates what it found by the key
				scans--
			}
			if scans != 0 || !strings.Contains(plan, "Index Scan using outbox_pkey") {
				t.Errorf("%s on %s:\n%s", name, size, plan)
			}
		}
	}
	w.exec(t, "VACUUM ANALYZE outbox")
	check("an empty table")
	w.exec(t, `INSERT INTO outbox (id, owner, until, created_at, messages, pack)
		SELECT gen_random_uuid(), 'gone', now() + interval '1 hour', now(), 1, '\x01' FROM generate_series(1, 20000)`)
	check("a table that was empty when analyzed")
	w.exec(t, "VACUUM ANALYZE outbox")
	check("a large table")
}

// explain gives the plan that the engine's role gets.
func (w *world) explain(t *testing.T, sql string, args ...any) string {
	t.Helper()
	rows, err := w.Pool().Query(t.Context(), "EXPLAIN "+sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
