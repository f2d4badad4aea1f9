package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/projections"
	"github.com/daybookhq/daybook/projections/evidence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()...) }

// most is how many rows a request may look at: a search looks at so many one by
// one, and everything else at far fewer.
const most = 12_000

// seeded is a small world in a database of its own.
func seeded(t *testing.T) (w *world, db *pgtest.DB, store *eventstore.Store, seen *tracer) {
	t.Helper()
	db, seen = pgtest.New(t), &tracer{}
	w = newWorld(30_000, 60, time.Now())
	conn, err := pgx.Connect(t.Context(), db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if err := (&seeder{world: w, conn: conn, say: t.Logf}).seed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if store, err = open(t.Context(), db.DSN, seen); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	if err := follow(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if err := w.attend(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	return w, db, store, seen
}

func TestEveryListAndDetailGoesByAnIndex(t *testing.T) {
	w, db, store, seen := seeded(t)
	t.Run("the world is a legal one", func(t *testing.T) {
		report, err := projections.Check(t.Context(), store, projections.RunSummariesName, 0)
		if err != nil || len(report.Drift) > 0 {
			t.Errorf("%+v, %v", report, err)
		}
		c, err := evidence.New(store).Coverage(t.Context(), "job-00007", w.began(), w.now)
		if err != nil || !c.Proven() || c.Ran != w.instants() {
			t.Errorf("%+v, %v", c, err)
		}
	})
	base, stop, err := serve(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer func() {
		transport.CloseIdleConnections()
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := pgx.Connect(t.Context(), db.DSNFor("daybook_engine"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	all, err := (&caller{base: base, client: &http.Client{Transport: transport}}).planned(t.Context(), conn, seen, w)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if tables := p.plan.scansAll(); len(tables) > 0 {
			t.Errorf("%s: reads all of %v:\n%s\n%s", p.request, tables, p.sql, p.plan)
		}
		if n := p.plan.visited(); n > most {
			t.Errorf("%s: looks at %d rows, want at most %d:\n%s\n%s", p.request, n, most, p.sql, p.plan)
		}
	}
	if len(all) < len(w.requests()) {
		t.Errorf("%d statements of %d requests", len(all), len(w.requests()))
	}
}
