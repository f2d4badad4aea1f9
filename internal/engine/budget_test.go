package engine

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/worker"
	"github.com/daybookhq/daybook/worker/protocol"
)

// Every part goes by the budget it is given, also by one far from the built-in
// terms: claims, starts, consumers, relay and feed.
func TestConfiguredBudgetIsInForceEverywhere(t *testing.T) {
	c := newCluster(t)
	top := topology()
	top.Lease = domain.LeaseBudget{Publish: 25 * time.Second, QueueWait: 40 * time.Second, AckWait: 7 * time.Second, MaxDeliver: 3,
		Execution: 50 * time.Second, Complete: 4 * time.Second, DispatchLease: 100 * time.Second, ExecutionLease: 70 * time.Second}
	e := c.newEngine("engine-1", top)
	if err := e.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.background("engine-1", e.Run)
	release := make(chan struct{})
	c.startWorker("w-1", 2, func(ctx context.Context, r worker.Run[json.RawMessage]) error {
		if r.Job == "held" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return nil
	})
	free, timed := noop("free"), noop("timed")
	timed.Timeout = domain.Duration(3 * time.Second)
	c.apply(free)
	c.apply(timed)
	c.request("free", 1)
	c.request("timed", 1)
	c.await(2, 30*time.Second, succeededRuns)

	seconds := func(sql string) int { return c.count("SELECT round(extract(epoch FROM (" + sql + ")))::int") }
	if s := seconds("SELECT min((data->>'lease_until')::timestamptz - at) FROM events WHERE type = 'RunClaimed'"); s != 100 {
		t.Errorf("dispatch lease of %d s", s)
	}
	if s := seconds("SELECT max((data->>'lease_until')::timestamptz - at) FROM events WHERE type = 'RunStarted'"); s != 70 {
		t.Errorf("execution lease of %d s", s)
	}
	if s := seconds("SELECT min((data->>'lease_until')::timestamptz - (data->>'deadline')::timestamptz) FROM events WHERE type = 'RunStarted'"); s != 4 {
		t.Errorf("the outcome is awaited for %d s after the deadline", s)
	}
	c.apply(noop("held"))
	held := protocol.HeartbeatItem{RunID: c.request("held", 1)[0]}
	c.await(1, 30*time.Second, "SELECT count(*) FROM claims WHERE start_token IS NOT NULL")
	if err := c.admin.QueryRow(t.Context(), "SELECT claim_id FROM claims").Scan(&held.ClaimID); err != nil {
		t.Fatal(err)
	}
	beaten, err := e.Service().Heartbeat(t.Context(), protocol.HeartbeatRequest{Items: []protocol.HeartbeatItem{held}})
	if err != nil || beaten[0].LeaseRemaining.Std().Round(time.Second) != 70*time.Second {
		t.Errorf("renewed: %+v, %v", beaten, err)
	}
	close(release)
	c.await(3, 30*time.Second, succeededRuns)
	js := c.nats.JetStream(t)
	s, err := js.Stream(t.Context(), protocol.DispatchStream)
	if err != nil {
		t.Fatal(err)
	}
	for info := range s.ListConsumers(t.Context()).Info() {
		if info.Config.AckWait != 7*time.Second || info.Config.MaxDeliver != 3 {
			t.Errorf("consumer %s: ack wait %s, %d deliveries", info.Name, info.Config.AckWait, info.Config.MaxDeliver)
		}
	}
	facts, err := js.Stream(t.Context(), protocol.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		info, err := facts.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := c.count("SELECT count(*) FROM events"); int(info.State.Msgs) == want {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the feed has published %d of %d events", info.State.Msgs, want)
		}
	}
}
