package engine

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/daybookhq/daybook/worker"
	"github.com/daybookhq/daybook/worker/protocol"
)

// A message that the broker refuses for good is parked in sight, and its run is
// released with the reason and dispatched again once that is possible.
func TestUndeliverableDispatchIsParkedAndItsRunReleased(t *testing.T) {
	c := newCluster(t)
	c.startEngine("engine-1")
	js := c.nats.JetStream(t)
	stream, err := js.Stream(t.Context(), protocol.DispatchStream)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	small := config
	small.MaxMsgSize = 64
	if _, err := js.UpdateStream(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	c.startWorker("w-1", 4, func(context.Context, worker.Run[json.RawMessage]) error { return nil })
	c.apply(noop("report"))
	c.request("report", 1)
	c.await(1, 20*time.Second, "SELECT least(count(*), 1) FROM events WHERE type = 'RunReleased' AND actor = 'relay'")
	if n := c.count("SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL AND last_error <> ''"); n == 0 {
		t.Error("the refused message is not in sight")
	}
	dead, err := js.Stream(t.Context(), protocol.DeadStream)
	if err != nil {
		t.Fatal(err)
	}
	letter, err := dead.GetLastMsgForSubject(t.Context(), protocol.DeadSubject("default", "noop"))
	if err != nil {
		t.Fatalf("the dead-letter stream has no word of it: %v", err)
	}
	var d protocol.DeadDispatch
	if err := json.Unmarshal(letter.Data, &d); err != nil || d.Reason == "" || len(d.Dispatches) != 1 {
		t.Errorf("letter %s, %v", letter.Data, err)
	}
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	c.await(1, 60*time.Second, succeededRuns)
	c.checkLog(1)
}
