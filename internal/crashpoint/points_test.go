package crashpoint_test

import (
	"os"
	"testing"

	"github.com/daybookhq/daybook/internal/crashpoint"
)

// allVar makes the tests go through every point, and not the sample alone.
const allVar = "DAYBOOK_CRASH_ALL"

// sample has a crash before and one after a commit, one on each side of a
// publication, one between commit and reply, and one while claims are closed.
var sample = map[crashpoint.Point]bool{
	crashpoint.MaterializePostCommit: true,
	crashpoint.ClaimPreCommit:        true,
	crashpoint.ClaimPostCommit:       true,
	crashpoint.RelayPostPublish:      true,
	crashpoint.StartPostCommit:       true,
	crashpoint.ReaperPreCommit:       true,
}

// Whatever point an engine dies at, another one brings all runs to their end.
func TestKilledAtEveryPoint(t *testing.T) {
	for _, point := range crashpoint.All() {
		if !sample[point] && os.Getenv(allVar) == "" {
			continue
		}
		t.Run(point.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			dying := w.startEngine(t, "dying", point.String()+":1:kill")
			dying.await(t, dying.ended, "the crash at "+point.String())
			select {
			case <-dying.reached:
			default:
				t.Fatalf("the engine ended (%v) without reaching the point", dying.err)
			}
			if dying.err == nil || dying.err.Error() != "signal: killed" {
				t.Fatalf("the engine ended with %v, want it killed", dying.err)
			}
			w.forgetProjectors(t)
			heir := w.startEngine(t, "heir", "")
			w.drain(t)
			w.stopWorker()
			heir.stop(t)
			w.check(t)
		})
	}
}

// An error at any point that can report one stops nothing.
func TestErrorAtEveryPoint(t *testing.T) {
	for _, point := range crashpoint.All() {
		if !point.Errs() || point != crashpoint.ClaimPostCommit && os.Getenv(allVar) == "" {
			continue
		}
		t.Run(point.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e := w.startEngine(t, "engine", point.String()+":1:error")
			e.await(t, e.reached, "the error at "+point.String())
			w.drain(t)
			w.stopWorker()
			e.stop(t)
			w.check(t)
		})
	}
}
