package main

import (
	"testing"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/pgtest"
)

// findings are the verdicts by check.
func (r result) findings() map[string]string {
	r.t.Helper()
	all := map[string]string{}
	v := r.json()
	hasKeys(r.t, v, "ok", "checks")
	for _, f := range v["checks"].([]any) {
		hasKeys(r.t, f, "check", "status", "detail")
		m := f.(map[string]any)
		all[m["check"].(string)] = m["status"].(string)
	}
	return all
}

func TestDoctor(t *testing.T) {
	c := besideDatabase(t)
	c.apply(twoJobs)
	r := c.run("doctor", "-o", "json").exits(exitFailed, "1 check failed")
	got := r.findings()
	for check, want := range map[string]string{
		"database": "ok", "schema": "ok", "era": "ok", "role settings": "ok", "clock": "ok", "engines": "fail", "workers": "warn", "kinds": "warn",
		"parked runs": "ok", "outbox": "ok", "read model": "warn", "nats": "warn", "data directory": "ok",
	} {
		if got[check] != want {
			t.Errorf("%s: %s, want %s", check, got[check], want)
		}
	}
	if _, err := c.store.SeeEngine(t.Context(), "engine-1", "engine,relay,projections,api", "1.0", "h"); err != nil {
		t.Fatal(err)
	}
	err := c.store.SeeWorker(t.Context(), eventstore.Worker{ID: "w-1", Slots: 4, Lanes: []eventstore.WorkerLane{{Queue: "default", Kind: "exec"}}})
	if err != nil {
		t.Fatal(err)
	}
	c.settle()
	c.exec(`INSERT INTO parked_runs (run_id, job_id, parked_at, reason, row) VALUES (gen_random_uuid(), gen_random_uuid(), now(), 'of the future', '{}')`)
	c.exec(`INSERT INTO outbox (id, owner, until, created_at, messages, pack) VALUES (gen_random_uuid(), 'x', now(), now() - interval '1 minute', 2, '')`)
	r = c.run("doctor").exits(exitOK)
	r.prints("of the future", "1 worker, 4 slots", "1 pack pending, the oldest for 1m", "every kind that jobs have is declared")
	c.exec(`UPDATE outbox SET parked_at = now(), last_error = 'maximum payload'`)
	c.run("doctor").exits(exitOK).prints("1 pack parked: maximum payload: see 'daybook outbox status'")
	c.env["NATS_URL"] = "nats://127.0.0.1:1"
	if got := c.run("doctor", "-o", "json").exits(exitFailed).findings(); got["nats"] != "fail" {
		t.Errorf("an unreachable NATS: %v", got)
	}
}

func TestDoctorFindsWhatTheDatabaseLacks(t *testing.T) {
	c := offline(t)
	c.run("doctor").exits(exitFailed).prints("no running 'daybook dev' found")

	c.env = map[string]string{"DATABASE_URL": "postgres://x@127.0.0.1:1/none"}
	r := c.run("doctor", "-o", "json").exits(exitFailed)
	if got := r.findings(); got["database"] != "fail" {
		t.Errorf("got %v", got)
	}
	empty := pgtest.Empty(t)
	c.env = map[string]string{"DATABASE_URL": empty.DSN}
	c.run("doctor").exits(exitFailed).prints("run 'daybook migrate up'")

	c.env = map[string]string{"DATABASE_URL": pgtest.New(t).DSN} // not the application's role
	c.run("doctor").exits(exitFailed).prints("role settings", "enable_seqscan: have on, want off")
}
