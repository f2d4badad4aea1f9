package client

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/worker/protocol"
)

// A cancel that only asks a run to end is told to whoever executes it; one that
// ends a waiting run concerns no worker.
func TestCancelOfARunInHandIsToldToItsWorker(t *testing.T) {
	ns := natstest.New(t)
	nc := ns.Conn(t)
	told := make(chan *nats.Msg, 16)
	if _, err := nc.ChanSubscribe(protocol.CancelSubject, told); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	d := open(t, pgtest.New(t), Options{NATS: ns.URL()})
	if _, err := d.Apply(t.Context(), Change{Definitions: []Definition{definition("mine", "")}}); err != nil {
		t.Fatal(err)
	}
	running, err := d.Trigger(t.Context(), Trigger{Job: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.store.Claim(t.Context(), eventstore.ClaimRequest{Lane: eventstore.NewLane("default", "noop"), Limit: 10, Lease: time.Minute}, outbox.NewWriter("test"))
	if err != nil || len(got.Runs) != 1 {
		t.Fatal(got, err)
	}
	start := domain.StartRun{ClaimID: got.Runs[0].ClaimID, Token: uuid.New(), Worker: "w-1"}
	if a, err := d.store.Execute(t.Context(), []eventstore.Command{{RunID: running.RunID, Do: start}}); err != nil || a[0].Err != nil {
		t.Fatal(a, err)
	}
	waiting, err := d.Trigger(t.Context(), Trigger{Job: "mine", At: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range []uuid.UUID{waiting.RunID, running.RunID} {
		if _, err := d.CancelRun(t.Context(), run, "enough"); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case m := <-told: // in the order of the cancels
		var hint protocol.CancelHint
		if err := json.Unmarshal(m.Data, &hint); err != nil || len(hint.RunIDs) != 1 || hint.RunIDs[0] != running.RunID {
			t.Errorf("told %q (%v), want the run that is executed, %s", m.Data, err, running.RunID)
		}
	case <-time.After(deadline):
		t.Fatal("no worker was told of the cancel")
	}
}
