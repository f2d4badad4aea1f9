package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker/protocol"
)

// Claims, requests and everything else that the loops do have every connection
// of theirs, and more workers poll and speak of themselves than there are
// connections: all that stands still. What workers report gets through.
func TestReportsHaveConnectionsOfTheirOwn(t *testing.T) {
	c := newCluster(t)
	// Whoever waits here waits until the test lets it go.
	if _, err := c.admin.Exec(t.Context(), fmt.Sprintf("ALTER ROLE daybook_engine IN DATABASE %q SET lock_timeout = 0", c.db.Name)); err != nil {
		t.Fatal(err)
	}
	store, err := eventstore.Open(t.Context(), eventstore.Config{DSN: c.db.DSNFor("daybook_engine"), OpsConns: OpsConns, LoopConns: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	e := c.newEngine("engine-1", topology())
	e.c.Store = store
	v := newService(store, e.budget.ExecutionTerms(), e.metrics, e.c.Logger)
	c.background("service", v.Run)
	c.apply(noop("report"))
	runs := c.request("report", 2)
	got, err := c.store.Claim(t.Context(), eventstore.ClaimRequest{Lane: eventstore.NewLane("default", "noop"), Limit: 10, Lease: time.Minute}, e.relayWriter())
	if err != nil || len(got.Runs) != len(runs) {
		t.Fatal(got, err)
	}

	// The loops' connections are all in use.
	for range store.Pool().Config().MaxConns {
		conn, err := store.Pool().Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	// Presence waits for a lock.
	locked, err := c.admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locked.Exec(t.Context(), "LOCK TABLE workers"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = locked.Rollback(context.WithoutCancel(t.Context())) }() // also when the test gives up
	const workers = 10 * OpsConns
	answered, standing := make(chan error, workers), make(chan struct{})
	for i := range workers {
		go func() {
			if i%2 == 1 {
				<-standing
				_, err := v.Poll(context.WithoutCancel(t.Context()), protocol.PollRequest{WorkerID: fmt.Sprint("w-", i), Max: 1,
					Lanes: []protocol.Lane{{Queue: "default", Kind: "none"}}})
				answered <- err
				return
			}
			answered <- v.Presence(context.WithoutCancel(t.Context()), protocol.PresenceRequest{WorkerID: fmt.Sprint("w-", i)})
		}()
	}
	c.await(asideConns, 30*time.Second, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
	close(standing)

	report := func(op, body, want string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if got := string(v.Handle(ctx, op, "", []byte(body))); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", op, got, want)
		}
	}
	for _, r := range got.Runs {
		claim := fmt.Sprintf(`{"run_id": %q, "claim_id": %q`, r.ID, r.ClaimID)
		report("start", `{"worker_id": "w-1", "items": [`+claim+`, "token": "`+uuid.NewString()+`"}]}`, `"started"`)
		report("heartbeat", `{"items": [`+claim+`, "progress": 0.5}]}`, `"lease_remaining"`)
		report("complete", `{"items": [`+claim+`}]}`, `"recorded"`)
	}
	if n := len(answered); n != 0 {
		t.Errorf("%d calls that were to stand still got through: nothing is proved", n)
	}
	if err := locked.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range workers {
		if err := <-answered; err != nil {
			t.Errorf("presence or poll: %v", err)
		}
	}
}
