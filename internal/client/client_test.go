package client

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()...) }

const deadline = 30 * time.Second

func open(t *testing.T, db *pgtest.DB, o Options) *Database {
	t.Helper()
	o.DSN = db.DSNFor("daybook_engine")
	o.Actor = "cli:test@host"
	d, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func definition(name, source string) Definition {
	return Definition{Spec: domain.JobSpec{
		Name: name, Schedules: []string{"0 2 * * *"}, TimeZone: "UTC", Queue: "default", Kind: "noop", Args: json.RawMessage(`{}`),
		Retry: domain.DefaultRetry(), Overlap: domain.OverlapAllow, Misfire: domain.MisfireLatest,
		CatchupWindow: domain.DefaultCatchupWindow, MaxCatchup: domain.DefaultMaxCatchup, Priority: domain.DefaultPriority, Source: source,
	}}
}

func actions(p Plan) map[string]Action {
	all := map[string]Action{}
	for _, s := range p.Steps {
		all[s.Name] = s.Action
	}
	return all
}

func TestOwnerArchivesWhatIsGone(t *testing.T) {
	d := open(t, pgtest.New(t), Options{})
	apply := func(c Change) map[string]Action {
		t.Helper()
		plan, err := d.Plan(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		done, err := d.Apply(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for name, a := range actions(plan) {
			if actions(done)[name] != a {
				t.Errorf("%s: planned %s, done %s", name, a, actions(done)[name])
			}
		}
		return actions(done)
	}
	apply(Change{Definitions: []Definition{definition("mine", "")}})
	apply(Change{Owner: "crontab:/a", Definitions: []Definition{definition("a1", "crontab:/a"), definition("a2", "crontab:/a")}})
	apply(Change{Owner: "crontab:/b", Definitions: []Definition{definition("b1", "crontab:/b")}})
	got := apply(Change{Owner: "crontab:/a", Definitions: []Definition{definition("a1", "crontab:/a")}})
	if len(got) != 2 || got["a1"] != ActionUnchanged || got["a2"] != ActionArchive {
		t.Errorf("got %v: other owners' jobs are none of its business", got)
	}
	if got := apply(Change{Owner: "crontab:/a"}); got["a1"] != ActionArchive || len(got) != 1 {
		t.Errorf("an empty file: %v", got)
	}
	page, err := d.ListJobs(t.Context(), JobFilter{})
	jobs := page.Jobs
	if err != nil || len(jobs) != 2 || jobs[0].Name != "b1" || jobs[1].Name != "mine" {
		t.Errorf("left are %v, %v", jobs, err)
	}
}

func TestConflictChangesNothing(t *testing.T) {
	d := open(t, pgtest.New(t), Options{})
	if _, err := d.Apply(t.Context(), Change{Definitions: []Definition{definition("mine", "")}}); err != nil {
		t.Fatal(err)
	}
	plan, err := d.Apply(t.Context(), Change{Owner: "crontab:/a", Definitions: []Definition{definition("new", "crontab:/a"), definition("mine", "crontab:/a")}})
	conflict, ok := errors.AsType[*ConflictError](err)
	if !ok || len(conflict.Conflicts) != 1 || conflict.Conflicts[0].Name != "mine" || actions(plan)["mine"] != ActionConflict {
		t.Fatalf("got %v, %v", plan, err)
	}
	if _, err := d.Job(t.Context(), "new"); !errors.Is(err, eventstore.ErrNotFound) {
		t.Errorf("half of a refused change was made: %v", err)
	}
}

// Whoever comes second finds the job made and says so.
func TestTheSameChangeByManyAtOnce(t *testing.T) {
	db := pgtest.New(t)
	const clients = 4
	plans := make([]Plan, clients)
	errs := make([]error, clients)
	var all sync.WaitGroup
	c := Change{Owner: "crontab:/a"}
	for i := range 20 {
		c.Definitions = append(c.Definitions, definition("job-"+string(rune('a'+i)), "crontab:/a"))
	}
	for i := range clients {
		d := open(t, db, Options{})
		all.Go(func() { plans[i], errs[i] = d.Apply(t.Context(), c) })
	}
	all.Wait()
	created := map[string]int{}
	for i, p := range plans {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		for name, a := range actions(p) {
			if a == ActionCreate {
				created[name]++
			}
		}
	}
	for _, def := range c.Definitions {
		if created[def.Spec.Name] != 1 {
			t.Errorf("%s was created %d times", def.Spec.Name, created[def.Spec.Name])
		}
	}
}

func TestChangesAndTriggersWakeTheEngines(t *testing.T) {
	ns := natstest.New(t)
	engine := natsjs.NewWaker(ns.Conn(t))
	t.Cleanup(engine.Close)
	woken, jobs := make(chan string, 16), make(chan struct{}, 16)
	stop, err := engine.Subscribe(natsjs.Woken{Queue: func(queue string) { woken <- queue }, Jobs: func() { jobs <- struct{}{} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	d := open(t, pgtest.New(t), Options{NATS: ns.URL()})
	if _, err := d.Apply(t.Context(), Change{Definitions: []Definition{definition("mine", "")}}); err != nil {
		t.Fatal(err)
	}
	changed := func(what string) {
		t.Helper()
		select {
		case <-jobs:
		case <-time.After(deadline):
			t.Fatal("nobody was told that a job was " + what)
		}
	}
	changed("made")
	for _, do := range []JobAction{Pause, Resume} {
		if _, _, err := d.CommandJob(t.Context(), "mine", do, ""); err != nil {
			t.Fatal(err)
		}
		changed(string(do))
	}
	if _, err := d.Trigger(t.Context(), Trigger{Job: "mine", At: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	got, err := d.Trigger(t.Context(), Trigger{Job: "mine", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case queue := <-woken:
		if queue != "default" {
			t.Errorf("woke queue %q", queue)
		}
	case <-time.After(deadline):
		t.Fatal("nobody was told that the run is due")
	}
	if len(woken)+len(jobs) > 0 {
		t.Error("a run that is not due woke somebody")
	}

	ns.Stop()
	again, err := d.Trigger(t.Context(), Trigger{Job: "mine"})
	if err != nil || again.RunID == got.RunID {
		t.Errorf("without NATS: %v, %v", again, err)
	}
}

func TestEventsPageByPage(t *testing.T) {
	d := open(t, pgtest.New(t), Options{})
	c := Change{Definitions: []Definition{definition("a", ""), definition("b", ""), definition("c", "")}}
	if _, err := d.Apply(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var all []Event
	q := EventQuery{Limit: 2}
	for {
		page, err := d.Events(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		all, q.From = append(all, page.Events...), page.Next
		if !page.More {
			break
		}
	}
	if len(all) != 3 {
		t.Fatalf("%d events", len(all))
	}
	for _, e := range all {
		if e.Actor != "cli:test@host" || e.Type != "JobCreated" || e.Category != domain.CategoryJob {
			t.Errorf("got %+v", e)
		}
	}
	if _, err := d.Trigger(t.Context(), Trigger{Job: "a"}); err != nil {
		t.Fatal(err)
	}
	page, err := d.Events(t.Context(), q)
	if err != nil || len(page.Events) != 1 || page.Events[0].Type != "RunScheduled" {
		t.Errorf("what came later: %v, %v", page, err)
	}
	if _, err := d.CancelRun(t.Context(), uuid.New(), ""); err == nil {
		t.Error("a run that does not exist was cancelled")
	}
}
