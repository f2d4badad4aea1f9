package engine

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker"
)

// The materializer of another replica sleeps until the next instant that it
// knows of, for as long as it likes: a job that is applied begins at its instant.
func TestChangedJobWakesTheMaterializersOfOthers(t *testing.T) {
	c := newCluster(t)
	e := c.newEngine("engine-1", topology())
	e.firePoll = time.Hour
	if err := e.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.background("engine-1", e.Run)
	c.startWorker("w-1", 4, func(context.Context, worker.Run[json.RawMessage]) error { return nil })
	api := c.newEngine("engine-2", topology()) // takes commands, and runs no loops
	c.await(1, 30*time.Second, "SELECT least(count(*), 1) FROM workers")
	for _, name := range []string{"first", "second"} {
		s := noop(name)
		s.Schedules, s.Overlap = []string{"@every 1s"}, domain.OverlapAllow
		c.apply(s)
		api.JobsChanged()
		c.await(1, 30*time.Second, "SELECT least(count(*), 1) FROM events e JOIN run_slots s ON s.run_id = e.stream_id JOIN jobs j ON j.id = s.job_id WHERE e.type = 'RunSucceeded' AND j.name = '"+name+"'")
		if _, err := c.store.CommandJobs(t.Context(), []eventstore.JobCommand{{Name: name, Do: domain.PauseJob{}}}); err != nil {
			t.Fatal(err)
		}
	}
}
