package engine

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker"
)

func TestCreditNeverRunsAheadOfTheWorkers(t *testing.T) {
	mail, web := eventstore.WorkerLane{Queue: "mail", Kind: "send"}, eventstore.WorkerLane{Queue: "web", Kind: "fetch"}
	both := eventstore.Worker{ID: "both", Slots: 10, Lanes: []eventstore.WorkerLane{mail, web}}
	only := eventstore.Worker{ID: "only", Slots: 4, Lanes: []eventstore.WorkerLane{mail}}
	load := func(lane eventstore.WorkerLane, worker string, n int) eventstore.Load {
		return eventstore.Load{Queue: lane.Queue, Kind: lane.Kind, Worker: worker, Claims: n}
	}
	for name, c := range map[string]struct {
		workers   []eventstore.Worker
		loads     []eventstore.Load
		lane      eventstore.WorkerLane
		credit    int
		share     int // of one of two engines
		laneShare int // of a single engine
	}{
		"no worker":                            {nil, nil, mail, 0, 0, 0},
		"all free":                             {[]eventstore.Worker{both, only}, nil, mail, 14, 4, 7},
		"started runs take slots, any lane's":  {[]eventstore.Worker{both, only}, []eventstore.Load{load(web, "both", 9), load(mail, "only", 1)}, mail, 4, 1, 2},
		"unstarted ones of a sharing lane":     {[]eventstore.Worker{both}, []eventstore.Load{load(web, "", 7)}, mail, 3, 1, 2},
		"nothing left":                         {[]eventstore.Worker{only}, []eventstore.Load{load(mail, "", 3), load(mail, "only", 2)}, mail, 0, 0, 0},
		"a crashed worker's runs are nobody's": {[]eventstore.Worker{only}, []eventstore.Load{load(mail, "gone", 50)}, mail, 4, 2, 4},
		"a lane nobody declares":               {[]eventstore.Worker{only}, nil, web, 0, 0, 0},
	} {
		book := newLedger(c.workers, c.loads)
		if got := book.credit(c.lane); got != c.credit {
			t.Errorf("%s: credit %d, want %d", name, got, c.credit)
		}
		if got := book.share(c.lane, 2); got != c.share {
			t.Errorf("%s: share of one of two engines %d, want %d", name, got, c.share)
		}
		if got := book.share(c.lane, 1); got != c.laneShare {
			t.Errorf("%s: share of a single engine %d, want %d", name, got, c.laneShare)
		}
		if c.credit > 0 {
			book.take(c.lane, c.credit)
			if got := book.credit(c.lane); got != 0 {
				t.Errorf("%s: credit %d after it was used up", name, got)
			}
		}
	}
}

// One slot and runs that take long: what waits, waits in the database, and no
// claim is released for having waited.
func TestOneSlotAndLongRuns(t *testing.T) {
	c := newCluster(t)
	c.startEngine("engine-1")
	next := make(chan struct{})
	c.startWorker("w-1", 1, func(ctx context.Context, _ worker.Run[json.RawMessage]) error {
		select {
		case <-next:
		case <-ctx.Done():
		}
		return nil
	})
	c.apply(noop("report"))
	c.request("report", 50)
	for done := range 5 {
		c.await(1, 20*time.Second, "SELECT count(*) FROM claims WHERE start_token IS NOT NULL")
		for range 20 { // engines and relay have every chance to run ahead
			if n := c.count("SELECT count(*) FROM claims"); n > 2 {
				t.Fatalf("%d runs in hand for one slot", n)
			}
			time.Sleep(20 * time.Millisecond)
		}
		next <- struct{}{}
		c.await(done+1, 20*time.Second, succeededRuns)
	}
	if n := c.count("SELECT count(*) FROM events WHERE type = 'RunReleased'"); n != 0 {
		t.Errorf("%d claims were released for waiting", n)
	}
	close(next)
	c.await(50, 60*time.Second, succeededRuns)
	c.checkLog(1)
}
