package engine

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/daybookhq/daybook/worker"
	"github.com/daybookhq/daybook/worker/protocol"
)

// The broker's stream is full of messages that nobody fetches: what it refuses
// waits in the outbox, nothing more is claimed than workers have slots for, and no
// run pays for it. It heals as soon as somebody fetches, though it is no larger.
func TestFullStream(t *testing.T) {
	const slots, runs = 30, 60
	c := newCluster(t)
	e, _ := c.startEngine("engine-1")
	js := c.nats.JetStream(t)
	stream, err := js.Stream(t.Context(), protocol.DispatchStream)
	if err != nil {
		t.Fatal(err)
	}
	small := stream.CachedInfo().Config
	small.MaxBytes = 2048
	if _, err := js.UpdateStream(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	c.apply(noop("report"))
	if err := e.Service().Presence(t.Context(), protocol.PresenceRequest{WorkerID: "quiet", Slots: slots, Lanes: []protocol.Lane{{Queue: "default", Kind: "noop"}}}); err != nil {
		t.Fatal(err)
	}
	c.request("report", runs)
	c.await(1, 20*time.Second, "SELECT count(*) FROM (SELECT FROM outbox WHERE attempts > 1 AND last_error LIKE '%maximum bytes%' LIMIT 1) full_stream")
	info, err := stream.Info(t.Context())
	if err != nil || info.State.Msgs == 0 || info.State.Msgs >= slots {
		t.Fatalf("%d messages are in a stream that is full, %v", info.State.Msgs, err)
	}
	for sql, want := range map[string]int{
		"SELECT count(*) FROM claims":                                            slots,
		"SELECT count(*) FROM due_runs":                                          runs - slots,
		"SELECT sum(messages) FROM outbox":                                       slots - int(info.State.Msgs),
		"SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL":                0,
		"SELECT count(*) FROM events WHERE type = 'RunReleased'":                 0,
		"SELECT count(DISTINCT stream_id) FROM events WHERE type = 'RunClaimed'": slots,
	} {
		if n := c.count(sql); n != want {
			t.Errorf("%s: %d, want %d", sql, n, want)
		}
	}
	c.startWorker("w-1", slots, func(context.Context, worker.Run[json.RawMessage]) error { return nil })
	c.await(runs, 60*time.Second, succeededRuns)
	c.await(0, 20*time.Second, "SELECT count(*) FROM outbox")
	c.checkLog(1)
}
