//go:build linux

package restoretest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/devpg"
	"github.com/daybookhq/daybook/internal/proctest"
)

// lost is the part of the history that the database will not have.
type lost struct {
	executed map[uuid.UUID]execution // in it, or before it and since forgotten
	asked    uuid.UUID               // a run by the key "answered", executed
	future   []uuid.UUID             // runs with messages in NATS that nobody has taken
}

// loseWork does work that will be lost, and leaves messages of it in NATS.
func (w *world) loseWork() lost {
	w.t.Helper()
	var l lost
	before := w.executed()
	l.asked = w.ask("answered", "--wait")
	w.awaitWork()
	w.worker.Kill() // it counts as alive for a while, and gets claims that it does not fetch
	for i := range 4 {
		l.future = append(l.future, w.ask(fmt.Sprint("unheard ", i)))
	}
	proctest.Await(w.t, "messages wait in NATS", w.engines, func() (bool, string) {
		n := query[int](w.t, w.primary, "SELECT count(*) FROM claims WHERE run_id = ANY($1) AND start_token IS NULL", l.future)
		return n == len(l.future) && w.messages() >= n, fmt.Sprint(n, " claims, ", w.messages(), " messages")
	})
	l.executed = w.executed()
	for id := range before {
		delete(l.executed, id)
	}
	proctest.Await(w.t, "subscribers heard it", w.engines, func() (bool, string) {
		heard := map[string]bool{}
		for _, e := range w.heard() {
			heard[e.Subject+e.Type] = true
		}
		for _, id := range l.future {
			if !heard[id.String()+"daybook.run.claimed.v1"] {
				return false, "run " + id.String()
			}
		}
		return true, ""
	})
	return l
}

// crash ends the primary for good.
func (w *world) crash() {
	w.t.Helper()
	if err := syscall.Kill(w.primary.PID(), syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	<-w.primary.Done()
}

// recover is what an operator does once the database s is up: look, raise the
// era, prove. Nobody touches the engines.
func (w *world) recover(s *devpg.Server, l lost) {
	w.t.Helper()
	env := []string{"DATABASE_URL=" + w.dsn, "MIGRATE_DATABASE_URL=" + s.DSN("daybook"), "SERVER_URL=" + s.DSN("postgres")}
	w.startWorker()
	w.awaitRefusal(s)
	w.checkLost(l, env)

	before := w.metric("daybook_unknown_claims_total")
	w.shell(w.backups, "raise", env...)
	for _, e := range w.engines {
		e.AwaitReady() // by itself
	}
	proctest.Await(w.t, "messages of the lost part are refused", w.engines, func() (bool, string) {
		n := w.metric("daybook_unknown_claims_total") - before
		return n >= float64(len(l.future)), fmt.Sprint(n)
	})
	w.awaitWork()
	if again := w.ask("answered", "--wait"); again == l.asked {
		w.t.Errorf("the key gives run %s as in the lost part: the page says otherwise", again)
	}
	w.drain(s)
	w.shell(w.backups, "prove", env...)
	w.checkRuns(s, l)
	w.checkEvents(s)
	w.worker.Stop()
	for _, e := range w.engines {
		e.Stop()
	}
}

// awaitRefusal waits until every engine has noticed, and sees that they write
// nothing meanwhile.
func (w *world) awaitRefusal(s *devpg.Server) {
	w.t.Helper()
	rows := func() string {
		return query[string](w.t, s, `SELECT concat_ws(' ', (SELECT count(*) FROM events), (SELECT count(*) FROM claims), (SELECT count(*) FROM run_slots),
			(SELECT count(*) FROM outbox), (SELECT max(updated_at) FROM checkpoints), (SELECT max(seen_at) FROM engines), (SELECT max(seen_at) FROM workers))`)
	}
	before, offsets := rows(), make([]int, len(w.engines))
	for i, e := range w.engines {
		offsets[i] = len(e.Output())
		proctest.Await(w.t, e.Name+" says what is wrong", w.engines, func() (bool, string) {
			status, body, err := proctest.Get(e.URL + "/readyz")
			return status == 503 && strings.Contains(body, "daybook era raise"), fmt.Sprint(status, body, err)
		})
	}
	// Each loop has met the wall at least one time more when another has passed.
	instant := query[string](w.t, s, "SELECT clock_timestamp()::text")
	proctest.Await(w.t, "instants pass", w.engines, func() (bool, string) {
		return query[bool](w.t, s, "SELECT clock_timestamp() > $1::timestamptz + interval '7 seconds'", instant), "" // longer than a loop's longest pause
	})
	if after := rows(); after != before {
		w.t.Errorf("engines wrote to a database of another history: %s, before %s", after, before)
	}
	refused := w.site().Engine(w.t, "engine-refused", "")
	proctest.Await(w.t, "an engine that is started now refuses", nil, func() (bool, string) { return refused.Ended(), refused.Tail() })
	if out := refused.Output(); !strings.Contains(out, "daybook era raise") {
		w.t.Errorf("it does not say what to do: %s", out)
	}
}

// checkLost holds what `daybook era lost` tells against what happened.
func (w *world) checkLost(l lost, env []string) {
	w.t.Helper()
	if out := w.shell(w.backups, "look", env...); !strings.Contains(out, "daybook era raise") {
		w.t.Error("doctor does not say what is to be done")
	}
	out := w.daybook("era", "lost", "-o", "json")
	var told struct{ Lost []client.Lost }
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &told); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	byID := map[uuid.UUID]client.Lost{}
	for _, r := range told.Lost {
		byID[r.StreamID] = r
	}
	for _, id := range l.future {
		if r := byID[id]; r.Known || r.Job != "ask" || !strings.HasPrefix(r.Key, "unheard") || r.Last != "run.claimed" || r.Events != 2 {
			w.t.Errorf("run %s, which was claimed in the lost part: %+v", id, r)
		}
	}
	if r := byID[l.asked]; r.Known || r.Last != "run.succeeded" || r.Key != "answered" {
		w.t.Errorf("run %s, which succeeded in the lost part: %+v", l.asked, r)
	}
	for id, e := range l.executed {
		if byID[id].StreamID != id {
			w.t.Errorf("run %s of %s was executed in the lost part and is not told of", id, e.job)
		}
	}
	w.t.Logf("%d runs executed in the lost part; %d runs and jobs are told of", len(l.executed), len(told.Lost))
}

// checkRuns finds every run that was ever executed: in the log, and finished, or
// one that only the lost part knew.
func (w *world) checkRuns(s *devpg.Server, l lost) {
	w.t.Helper()
	last, all := lastEvents(w.t, s), w.executed()
	outcome := map[string]int{}
	for id, e := range all {
		switch typ, known := last[id]; {
		case slices.Contains(l.future, id):
			w.t.Errorf("run %s was executed, which only a message of the lost part knew", id)
		case !known && id == l.asked:
			outcome["only in the lost part, and told of"]++
		case !known:
			w.t.Errorf("run %s of %s was executed and is not in the log", id, e.job)
		case typ != succeeded:
			w.t.Errorf("run %s of %s ended with %s", id, e.job, typ)
		case e.times > 1 && l.executed[id].times > 0:
			outcome["executed in both histories"]++
		case e.times > 1:
			outcome["executed again"]++ // its outcome is in the lost part, its start is not
		default:
			outcome["executed one time"]++
		}
	}
	for id, typ := range last {
		if typ == succeeded && all[id].times == 0 {
			w.t.Errorf("run %s succeeded, and nothing executed it", id)
		}
	}
	if outcome["executed in both histories"] == 0 {
		w.t.Error("no run was executed in both histories: nothing was lost, so nothing is proved")
	}
	w.t.Log(sorted(outcome))
}

// checkEvents reads what subscribers got: the histories must be told apart by
// the source alone, and of the new one nothing may be missing.
func (w *world) checkEvents(s *devpg.Server) {
	w.t.Helper()
	eras := query[int](w.t, s, "SELECT max(era) FROM eras")
	source := func(era int) string { return fmt.Sprintf("/daybook/default/%d", era) }
	count := func() (n, again int) {
		sources, seen := map[string]map[string]bool{}, map[string]bool{}
		for _, e := range w.heard() {
			if sources[e.ID] == nil {
				sources[e.ID] = map[string]bool{}
			}
			sources[e.ID][e.Source] = true
			if e.Source == source(eras) && !seen[e.ID] {
				seen[e.ID] = true
				n++
			}
		}
		for _, of := range sources {
			if len(of) > 1 {
				again++
			}
		}
		return n, again
	}
	want := query[int](w.t, s, "SELECT count(*) FROM events WHERE era = $1", eras)
	var again int
	proctest.Await(w.t, "subscribers have the events of the new era", w.engines, func() (bool, string) {
		var n int
		n, again = count()
		return n == want, fmt.Sprintf("%d of %d", n, want)
	})
	if again == 0 {
		w.t.Error("no id came again with another source: the histories do not meet, so nothing is proved")
	}
	w.t.Logf("%d events in era %d; %d ids stand for another event in each history", want, eras, again)
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
