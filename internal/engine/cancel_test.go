package engine

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/worker"
	"github.com/daybookhq/daybook/worker/protocol"
)

// A run that a later instant replaces is asked to end, and the workers are told
// so: its place need not wait for the next heartbeat.
func TestWorkersAreToldOfReplacedRuns(t *testing.T) {
	c := newCluster(t)
	e, _ := c.startEngine("engine-1")
	told := make(chan *nats.Msg, 100)
	nc := c.nats.Conn(t)
	if _, err := nc.ChanSubscribe(protocol.CancelSubject, told); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c.startWorker("w-1", 4, func(ctx context.Context, _ worker.Run[json.RawMessage]) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	s := noop("tick")
	s.Schedules, s.Overlap = []string{"@every 1s"}, domain.OverlapReplace
	c.apply(s)
	e.JobsChanged()
	select {
	case m := <-told:
		var hint protocol.CancelHint
		if err := json.Unmarshal(m.Data, &hint); err != nil || len(hint.RunIDs) != 1 {
			t.Fatalf("told %q, %v", m.Data, err)
		}
		if n := c.count("SELECT count(*) FROM events WHERE stream_id = $1 AND type = 'RunCancelRequested'", hint.RunIDs[0]); n != 1 {
			t.Errorf("workers are told of run %s, which was not asked to end", hint.RunIDs[0])
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("no worker was told that a run is replaced\n%s", c.describe())
	}
}
