package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/engine"
	"github.com/daybookhq/daybook/internal/eventstream"
	"github.com/daybookhq/daybook/internal/httpapi"
	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/projections"
)

const deadline = 30 * time.Second

// world is a deployment: a database, the part of an engine that answers over
// HTTP, and a store that plays the rest of it and the workers.
type world struct {
	t     *testing.T
	db    *pgtest.DB
	store *eventstore.Store
	admin *pgxpool.Pool
	api   http.Handler
	stop  func() // ends what waits in the API, as a server that stops does
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, db: pgtest.New(t)}
	var err error
	w.store, err = eventstore.Open(t.Context(), eventstore.Config{DSN: w.db.DSNFor("daybook_engine"), OpsConns: 4, LoopConns: 8, Actor: "engine-1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	w.admin = w.db.Pool(t, "")
	registry := prometheus.NewRegistry()
	e, err := engine.New(engine.Config{ID: "engine-1", Store: w.store, NATS: natstest.New(t).Conn(t), Topology: natsjs.EmbeddedTopology(), Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- e.Service().Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("service: %v", err)
		}
	})
	stopping := make(chan struct{})
	w.stop = func() { close(stopping) }
	w.api = httpapi.Handler(httpapi.Config{
		Store: w.store, Work: e.Service(), Gather: registry, Ready: func(context.Context) error { return nil }, Version: "1.2.3", Done: stopping,
		OwnerToken: "owner", Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
		Events: &eventstream.Handler{Log: w.store, Deployment: engine.Deployment, Problem: httpapi.WriteProblem, Done: stopping},
	})
	return w
}

const actor = "cli:test@host"

func (w *world) database() *client.Database {
	w.t.Helper()
	d, err := client.Open(w.t.Context(), client.Options{DSN: w.db.DSNFor("daybook_engine"), Actor: actor})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(d.Close)
	return d
}

// over is a client of the handler.
func (w *world) over(h http.Handler, o client.HTTPOptions) *client.HTTP {
	w.t.Helper()
	s := httptest.NewServer(h)
	w.t.Cleanup(s.Close)
	o.URL = s.URL
	c, err := client.OpenHTTP(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

func (w *world) http() *client.HTTP {
	w.t.Helper()
	return w.over(w.api, client.HTTPOptions{Token: "owner", Actor: actor, Patience: 2 * time.Second})
}

// each runs the test with either implementation, on a deployment of its own.
func each(t *testing.T, test func(t *testing.T, w *world, c client.Client)) {
	t.Run("database", func(t *testing.T) {
		w := newWorld(t)
		test(t, w, w.database())
	})
	t.Run("http", func(t *testing.T) {
		w := newWorld(t)
		test(t, w, w.http())
	})
}

// is fails the test unless the error is of the type, which it gives.
func is[E error](t *testing.T, err error) E {
	t.Helper()
	e, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("error %T %v, want a %T", err, err, e)
	}
	return e
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func definition(name, source string) client.Definition {
	return client.Definition{Spec: domain.JobSpec{
		Name: name, Schedules: []string{"0 2 * * *"}, TimeZone: "UTC", Queue: "default", Kind: "noop", Args: json.RawMessage(`{"n":12345678901234567890}`),
		Retry: domain.DefaultRetry(), Overlap: domain.OverlapAllow, Misfire: domain.MisfireLatest,
		CatchupWindow: domain.DefaultCatchupWindow, MaxCatchup: domain.DefaultMaxCatchup, Priority: domain.DefaultPriority, Source: source,
	}}
}

func define(t *testing.T, c client.Client, names ...string) {
	t.Helper()
	change := client.Change{Reason: "for a test"}
	for _, n := range names {
		change.Definitions = append(change.Definitions, definition(n, ""))
	}
	must[client.Plan](t)(c.Apply(t.Context(), change))
}

func actionsOf(p client.Plan) string {
	var words []string
	for _, s := range p.Steps {
		words = append(words, s.Name+" "+string(s.Action))
	}
	return strings.Join(words, ", ")
}

// nowhere takes dispatches that nobody waits for.
type nowhere struct{}

func (nowhere) Enqueue(*pgx.Batch, time.Time, []eventstore.Message) (func(), error) {
	return func() {}, nil
}

// claim takes what is due in hand and starts it.
func (w *world) claim() []domain.Run {
	w.t.Helper()
	got, err := w.store.Claim(w.t.Context(), eventstore.ClaimRequest{Lane: eventstore.NewLane("default", "noop"), Limit: 100, Lease: time.Minute}, nowhere{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range got.Runs {
		w.execute(eventstore.Command{RunID: r.ID, Do: domain.StartRun{ClaimID: r.ClaimID, Token: uuid.New(), Worker: "w-1"}})
	}
	return got.Runs
}

func (w *world) execute(c eventstore.Command) {
	w.t.Helper()
	answers, err := w.store.Execute(w.t.Context(), []eventstore.Command{c})
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// work carries out what is due.
func (w *world) work() []domain.Run {
	w.t.Helper()
	runs := w.claim()
	for _, r := range runs {
		w.execute(eventstore.Command{RunID: r.ID, Do: domain.SucceedRun{ClaimID: r.ClaimID},
			Output: &eventstore.Output{Head: []byte("begin \xff"), Tail: []byte("end"), TotalBytes: 1000, Result: json.RawMessage(`{"n":12345678901234567890}`)}})
	}
	return runs
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.admin.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

// project brings read models up to date.
func (w *world) project() {
	w.t.Helper()
	f := projections.New(w.store, projections.Config{})
	for {
		_, next, err := f.Step(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if next > 0 {
			return
		}
	}
}

func TestChangeJobs(t *testing.T) {
	each(t, func(t *testing.T, _ *world, c client.Client) {
		ctx, plan := t.Context(), must[client.Plan](t)
		change := client.Change{Definitions: []client.Definition{definition("a", ""), definition("b", "")}, Reason: "first"}
		if p := plan(c.Plan(ctx, change)); actionsOf(p) != "a create, b create" {
			t.Errorf("planned %s", actionsOf(p))
		}
		_, err := c.Job(ctx, "a")
		if !errors.Is(err, eventstore.ErrNotFound) {
			t.Errorf("after a plan: %v", err)
		}
		if p := plan(c.Apply(ctx, change)); actionsOf(p) != "a create, b create" || p.Steps[0].Spec.Name != "a" {
			t.Errorf("applied %s", actionsOf(p))
		}
		change.Definitions[1].Spec.Queue, change.Definitions[1].Spec.Timeout = "other", domain.Duration(time.Minute)
		if p := plan(c.Plan(ctx, change)); actionsOf(p) != "a unchanged, b update" || strings.Join(p.Steps[1].Changed, " ") != "queue timeout" {
			t.Errorf("planned %+v", p.Steps)
		}
		plan(c.Apply(ctx, change))
		if p := plan(c.Apply(ctx, change)); actionsOf(p) != "a unchanged, b unchanged" {
			t.Errorf("again: %s", actionsOf(p))
		}

		owned := client.Change{Owner: "crontab:/a", Definitions: []client.Definition{definition("c", "crontab:/a"), definition("d", "crontab:/a")}}
		plan(c.Apply(ctx, owned))
		owned.Definitions = append(owned.Definitions[:1], definition("b", "crontab:/a"))
		p, err := c.Apply(ctx, owned)
		if e := is[*client.ConflictError](t, err); !reflect.DeepEqual(e.Conflicts, []client.Conflict{{Name: "b"}}) || actionsOf(p) != "c unchanged, b conflict, d archive" {
			t.Errorf("conflict %+v, %s", e, actionsOf(p))
		}
		owned.Definitions = owned.Definitions[:1]
		if p = plan(c.Apply(ctx, owned)); actionsOf(p) != "c unchanged, d archive" || p.Steps[1].Spec.Source != "crontab:/a" {
			t.Errorf("what is gone from the file: %+v", p.Steps)
		}
		if _, err := c.Apply(ctx, client.Change{Definitions: []client.Definition{definition("c", "")}}); is[*client.ConflictError](t, err).Conflicts[0].Owner != "crontab:/a" {
			t.Errorf("an owned job: %v", err)
		}
	})
}

func TestLookAtAndCommandJobs(t *testing.T) {
	each(t, func(t *testing.T, w *world, c client.Client) {
		ctx := t.Context()
		define(t, c, "a", "b")
		for i := range client.MaxJobs {
			w.exec(`INSERT INTO jobs SELECT (jsonb_populate_record(j, jsonb_build_object('id', gen_random_uuid(), 'name', $1::text, 'spec', jsonb_set(j.spec, '{name}', to_jsonb($1::text))))).* FROM jobs j WHERE name = 'a'`, fmt.Sprintf("x%03d", i))
		}
		first := must[client.JobPage](t)(c.ListJobs(ctx, client.JobFilter{}))
		second := must[client.JobPage](t)(c.ListJobs(ctx, client.JobFilter{Cursor: first.Next}))
		if len(first.Jobs) != client.MaxJobs || len(second.Jobs) != 2 || second.Next != "" || first.Jobs[0].Name != "a" || second.Jobs[1].State != client.Active {
			t.Errorf("pages of %d and %d jobs", len(first.Jobs), len(second.Jobs))
		}
		for _, step := range []struct {
			do      client.JobAction
			changed bool
			state   client.JobState
		}{
			{client.Pause, true, client.Paused}, {client.Pause, false, client.Paused}, {client.Resume, true, client.Active},
			{client.Archive, true, client.Archived}, {client.Archive, false, client.Archived},
		} {
			job, changed, err := c.CommandJob(ctx, "a", step.do, "because")
			if err != nil || changed != step.changed || job.State != step.state {
				t.Errorf("%s: %v %s %v", step.do, changed, job.State, err)
			}
		}
		history := must[[]client.Event](t)(c.JobHistory(ctx, "a", 0, 2))
		if len(history) != 2 || history[0].Type != "JobArchived" || history[0].Actor != actor || history[0].Era != 1 || !bytes.Contains(history[0].Data, []byte("because")) {
			t.Errorf("history %+v", history)
		}
		if before := must[[]client.Event](t)(c.JobHistory(ctx, "a", history[1].Version, 100)); len(before) != history[1].Version-1 {
			t.Errorf("before version %d: %d events", history[1].Version, len(before))
		}
		_, _, err := c.CommandJob(ctx, "a", client.Pause, "")
		if is[*domain.JobRefusal](t, err).Code != domain.JobIsGone {
			t.Error(err)
		}
		_, _, err = c.CommandJob(ctx, "none", client.Pause, "")
		if r := is[*domain.JobRefusal](t, err); r.Code != domain.JobUnknown || r.Name != "none" {
			t.Error(err)
		}
		if _, err = c.JobHistory(ctx, "none", 0, 10); !errors.Is(err, eventstore.ErrNotFound) {
			t.Error(err)
		}

		fill := client.Backfill{Job: "b", From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 1, 4, 0, 0, 0, 0, time.UTC), Limit: 2}
		got := must[client.Backfilled](t)(c.Backfill(ctx, fill))
		if got.Created != 2 || got.Done || got.Through.IsZero() {
			t.Errorf("backfilled %+v", got)
		}
		fill.Limit = 100
		if got = must[client.Backfilled](t)(c.Backfill(ctx, fill)); got.Seen != 3 || got.Created != 1 || !got.Done {
			t.Errorf("the rest: %+v", got)
		}
		fill.To = fill.From.Add(-time.Hour)
		if _, err = c.Backfill(ctx, fill); is[*eventstore.BackfillError](t, err).Why == "" {
			t.Error(err)
		}
	})
}

func TestAskForRuns(t *testing.T) {
	each(t, func(t *testing.T, w *world, c client.Client) {
		ctx, triggered := t.Context(), must[client.Triggered](t)
		define(t, c, "a", "gone")
		first := triggered(c.Trigger(ctx, client.Trigger{Job: "a", Key: "k", Args: json.RawMessage(`{"n": 1}`), Reason: "by hand"}))
		again := triggered(c.Trigger(ctx, client.Trigger{Job: "a", Key: "k"}))
		other := triggered(c.Trigger(ctx, client.Trigger{Job: "a", At: time.Now().Add(time.Hour)}))
		if !first.Created || again.Created || again.RunID != first.RunID || other.RunID == first.RunID || first.Key != "k" || other.Key != "" {
			t.Errorf("%+v, %+v, %+v", first, again, other)
		}
		run := must[projections.RunDetail](t)(c.Run(ctx, first.RunID))
		if run.State != domain.Pending || run.RequestReason != "by hand" || string(run.Args) != `{"n": 1}` && string(run.Args) != `{"n":1}` {
			t.Errorf("run %+v", run)
		}
		for field, q := range map[string]client.Trigger{
			"args": {Job: "a", Args: json.RawMessage(`{"a": "\u0000"}`)}, "at": {Job: "a", At: time.Now().AddDate(20, 0, 0)},
			"key": {Job: "a", Key: strings.Repeat("k", 257)}, "reason": {Job: "a", Reason: "a\x00b"},
		} {
			_, err := c.Trigger(ctx, q)
			if got := is[*eventstore.RequestError](t, err); got.Field != field {
				t.Errorf("%s: %v", field, got)
			}
		}
		if _, _, err := c.CommandJob(ctx, "gone", client.Archive, ""); err != nil {
			t.Fatal(err)
		}
		_, err := c.Trigger(ctx, client.Trigger{Job: "gone"})
		if is[*domain.JobRefusal](t, err).Code != domain.JobIsGone {
			t.Error(err)
		}
		_, err = c.Trigger(ctx, client.Trigger{Job: "none"})
		if is[*domain.JobRefusal](t, err).Code != domain.JobUnknown {
			t.Error(err)
		}

		cancelled := must[client.Cancelled](t)
		if got := cancelled(c.CancelRun(ctx, other.RunID, "enough")); got.State != domain.Cancelled || got.Repeat {
			t.Errorf("cancelled %+v", got)
		}
		if got := cancelled(c.CancelRun(ctx, other.RunID, "enough")); !got.Repeat {
			t.Errorf("again %+v", got)
		}
		_, err = c.RetryRun(ctx, first.RunID, "", "")
		if e := is[*client.NotFinishedError](t, err); e.Run != first.RunID || e.State != domain.Pending {
			t.Error(e)
		}
		w.work()
		_, err = c.CancelRun(ctx, first.RunID, "")
		if e := is[*client.FinishedError](t, err); e.Run != first.RunID || e.State != domain.Succeeded {
			t.Error(e)
		}
		retry := triggered(c.RetryRun(ctx, first.RunID, "r", "once more"))
		if same := triggered(c.RetryRun(ctx, first.RunID, "r", "")); !retry.Created || same.Created || same.RunID != retry.RunID {
			t.Errorf("%+v, %+v", retry, same)
		}
		for what, err := range map[string]error{
			"show":   func() error { _, err := c.Run(ctx, uuid.New()); return err }(),
			"events": func() error { _, err := c.RunEvents(ctx, uuid.New()); return err }(),
			"output": func() error { _, err := c.RunOutput(ctx, retry.RunID, 0); return err }(),
			"await":  func() error { _, err := c.AwaitRun(ctx, uuid.New()); return err }(),
		} {
			if !errors.Is(err, eventstore.ErrNotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
		events := must[[]client.Event](t)(c.RunEvents(ctx, first.RunID))
		if len(events) != 4 || events[0].Type != "RunScheduled" || events[0].Actor != actor || events[3].Era != 1 || events[3].Position == 0 {
			t.Errorf("events %+v", events)
		}
		out := must[client.Output](t)(c.RunOutput(ctx, first.RunID, 1))
		if string(out.Head) != "begin \xff" || string(out.Tail) != "end" || out.Omitted != 990 || !strings.Contains(out.Text, "begin \ufffd") || encoded(t, out.Result) != `{"n":12345678901234567890}` {
			t.Errorf("output %+v", out)
		}
	})
}

func TestAwaitRun(t *testing.T) {
	each(t, func(t *testing.T, w *world, c client.Client) {
		define(t, c, "a")
		const waiting = 5
		ended := make(chan projections.RunDetail, waiting)
		for range waiting {
			got := must[client.Triggered](t)(c.Trigger(t.Context(), client.Trigger{Job: "a"}))
			go func() {
				run, err := c.AwaitRun(t.Context(), got.RunID)
				if err != nil || run.RunID != got.RunID {
					t.Errorf("%s: %v", run.RunID, err)
				}
				ended <- run
			}()
		}
		w.work()
		for range waiting {
			select {
			case run := <-ended:
				if run.State != domain.Succeeded {
					t.Errorf("state %s", run.State)
				}
			case <-time.After(deadline):
				t.Fatal("nobody tells that a run has ended")
			}
		}
		got := must[client.Triggered](t)(c.Trigger(t.Context(), client.Trigger{Job: "a"}))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := c.AwaitRun(ctx, got.RunID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up: %v", err)
		}
	})
}

func TestListRuns(t *testing.T) {
	each(t, func(t *testing.T, w *world, c client.Client) {
		ctx, page := t.Context(), must[projections.RunPage](t)
		define(t, c, "a", "b")
		for _, job := range []string{"a", "a", "a", "b"} {
			must[client.Triggered](t)(c.Trigger(ctx, client.Trigger{Job: job}))
		}
		w.work()
		must[client.Triggered](t)(c.Trigger(ctx, client.Trigger{Job: "b"}))
		w.project()
		first := page(c.ListRuns(ctx, projections.RunFilter{Job: "a", Limit: 2}))
		rest := page(c.ListRuns(ctx, projections.RunFilter{Job: "a", Limit: 2, Cursor: first.Next}))
		if len(first.Runs) != 2 || len(rest.Runs) != 1 || rest.Next != "" {
			t.Errorf("pages of %d and %d", len(first.Runs), len(rest.Runs))
		}
		for name, f := range map[string]struct {
			filter projections.RunFilter
			want   int
		}{
			"one state":  {projections.RunFilter{States: []domain.State{domain.Pending}}, 1},
			"two states": {projections.RunFilter{States: []domain.State{domain.Pending, domain.Succeeded}}, 5},
			"kind":       {projections.RunFilter{Kind: "other"}, 0},
			"since":      {projections.RunFilter{Since: time.Now().Add(time.Hour)}, 0},
			"until":      {projections.RunFilter{Until: time.Now().Add(-time.Hour)}, 0},
			"queue":      {projections.RunFilter{Queue: "default"}, 5},
			"text":       {projections.RunFilter{Text: "no such error"}, 0},
		} {
			if got := page(c.ListRuns(ctx, f.filter)); len(got.Runs) != f.want {
				t.Errorf("%s: %d runs, want %d", name, len(got.Runs), f.want)
			}
		}
		for field, f := range map[string]projections.RunFilter{
			"cursor": {Cursor: "x"}, "state": {States: []domain.State{"exploded"}},
		} {
			_, err := c.ListRuns(ctx, f)
			if got := is[*projections.FilterError](t, err); !strings.HasPrefix(got.Field, field) || strings.Contains(got.Why, field+":") {
				t.Errorf("%s: %v", field, got)
			}
		}
	})
}

func TestReadTheLog(t *testing.T) {
	each(t, func(t *testing.T, w *world, c client.Client) {
		ctx, page := t.Context(), must[client.EventPage](t)
		define(t, c, "a", "b")
		run := must[client.Triggered](t)(c.Trigger(ctx, client.Trigger{Job: "a"}))
		w.work()
		end := page(c.Events(ctx, client.EventQuery{From: client.Place{AtEnd: true}}))
		if len(end.Events) != 0 || end.More {
			t.Errorf("at the end: %+v", end)
		}
		var types []string
		for q := (client.EventQuery{Limit: 2}); ; {
			got := page(c.Events(ctx, q))
			for _, e := range got.Events {
				types = append(types, e.Type)
			}
			if q.From = got.Next; !got.More {
				break
			}
		}
		if got := strings.Join(types, " "); got != "JobCreated JobCreated RunScheduled RunClaimed RunStarted RunSucceeded" {
			t.Errorf("the log: %s", got)
		}
		all := page(c.Events(ctx, client.EventQuery{}))
		for name, f := range map[string]struct {
			q    client.EventQuery
			want int
		}{
			"types":        {client.EventQuery{Types: []string{"RunClaimed", "RunFailed"}}, 1},
			"stream":       {client.EventQuery{Streams: []uuid.UUID{run.RunID}}, 4},
			"job":          {client.EventQuery{Job: "a"}, 5},
			"another job":  {client.EventQuery{Job: "b"}, 1},
			"job and type": {client.EventQuery{Job: "a", Types: []string{"JobCreated"}, Limit: 1}, 1},
			"position":     {client.EventQuery{From: client.Place{After: all.Events[3].Position}}, 2},
			"since":        {client.EventQuery{Since: all.Events[5].At}, 1},
			"until":        {client.EventQuery{Until: all.Events[0].At.Add(-time.Hour)}, 0},
		} {
			if got := page(c.Events(ctx, f.q)); len(got.Events) != f.want {
				t.Errorf("%s: %d events, want %d", name, len(got.Events), f.want)
			}
		}
		for _, place := range []string{"x", "eyJ4Ijox", `{"era":1}`} {
			_, err := c.Events(ctx, client.EventQuery{From: client.Place{Cursor: place}})
			is[*client.PlaceError](t, err)
		}
		// What comes is told to whoever waits.
		came := make(chan client.EventPage, 1)
		go func() {
			got, err := c.Events(ctx, client.EventQuery{From: end.Next, Types: []string{"JobPaused"}, Wait: deadline})
			if err != nil {
				t.Error(err)
			}
			came <- got
		}()
		if _, _, err := c.CommandJob(ctx, "b", client.Pause, "for a test"); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-came:
			if len(got.Events) != 1 || got.Events[0].StreamID != domain.JobID("b") {
				t.Errorf("waited for: %+v", got)
			}
		case <-time.After(deadline):
			t.Fatal("nobody tells what came")
		}

		var file bytes.Buffer
		done := must[client.Exported](t)(client.Export(ctx, c, &file, client.Exporting{Job: "a"}))
		if n := strings.Count(file.String(), "\n"); n != 5 || done.Events != 5 {
			t.Errorf("exported %d lines, %+v", n, done)
		}
		must[client.Triggered](t)(c.Trigger(ctx, client.Trigger{Job: "a"}))
		file.Reset()
		if done = must[client.Exported](t)(client.Export(ctx, c, &file, client.Exporting{Job: "a", After: done.Next})); done.Events != 1 || !strings.Contains(file.String(), "RunScheduled") {
			t.Errorf("the rest: %+v %s", done, &file)
		}
	})
}

func TestOperate(t *testing.T) {
	each(t, func(t *testing.T, w *world, c client.Client) {
		ctx := t.Context()
		id := uuid.New()
		w.exec(`INSERT INTO outbox (id, owner, until, created_at, attempts, last_error, parked_at, messages, pack)
			VALUES ($1, 'engine-1', now() + interval '1 hour', now() - interval '1 hour', 3, 'no responders', now(), 2, '')`, id)
		s := must[client.Outbox](t)(c.OutboxStatus(ctx, 5))
		if s.Parked.Packs != 1 || s.Parked.Messages != 2 || s.Parked.Oldest.Std() < time.Hour || len(s.Packs) != 1 || s.Packs[0].ID != id || s.Packs[0].ParkedAt == nil {
			t.Errorf("outbox %+v", s)
		}
		if _, err := c.ReplayOutbox(ctx, client.Packs{}); !errors.Is(err, outbox.ErrNothingSelected) {
			t.Error(err)
		}
		for _, q := range []client.Packs{{IDs: []uuid.UUID{uuid.New()}}, {Since: time.Now()}, {Until: time.Now().Add(-2 * time.Hour)}} {
			if n := must[int](t)(c.ReplayOutbox(ctx, q)); n != 0 {
				t.Errorf("%+v: %d packs", q, n)
			}
		}
		if n := must[int](t)(c.ReplayOutbox(ctx, client.Packs{IDs: []uuid.UUID{id}})); n != 1 {
			t.Errorf("replayed %d packs", n)
		}

		define(t, c, "a")
		run := must[client.Triggered](t)(c.Trigger(ctx, client.Trigger{Job: "a"}))
		w.exec(`WITH d AS (DELETE FROM due_runs WHERE run_id = $1 RETURNING *)
			INSERT INTO parked_runs (run_id, job_id, parked_at, reason, row) SELECT run_id, job_id, now(), 'of the future', to_jsonb(d.*) FROM d`, run.RunID)
		parked := must[[]client.Parked](t)(c.Parked(ctx, 10))
		if len(parked) != 1 || parked[0].RunID != run.RunID || parked[0].Reason != "of the future" {
			t.Errorf("parked %+v", parked)
		}
		if none := must[[]client.Parked](t)(c.Parked(ctx, 10, uuid.New())); len(none) != 0 {
			t.Errorf("another run: %+v", none)
		}
		if got := must[client.Unparked](t)(c.Unpark(ctx, run.RunID)); got.Outcome != eventstore.UnparkedDue {
			t.Errorf("unparked %+v", got)
		}
		if got := must[client.Unparked](t)(c.Unpark(ctx, run.RunID)); got.Outcome != eventstore.UnparkedNot {
			t.Errorf("unparked again %+v", got)
		}

		if err := w.store.SeeWorker(ctx, eventstore.Worker{ID: "w-1", Slots: 4, Host: "h", Lanes: []eventstore.WorkerLane{{Queue: "default", Kind: "noop"}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.SeeEngine(ctx, "engine-1", "engine,relay", "1.0", "h"); err != nil {
			t.Fatal(err)
		}
		w.claim()
		queues := must[[]projections.QueueStats](t)(c.Queues(ctx))
		if len(queues) != 1 || queues[0].Running != 1 || queues[0].Slots != 4 {
			t.Errorf("queues %+v", queues)
		}
		if workers := must[[]client.Worker](t)(c.Workers(ctx)); len(workers) != 1 || workers[0].Running != 1 || workers[0].Lanes[0].Kind != "noop" {
			t.Errorf("workers %+v", workers)
		}
		if engines := must[[]client.Engine](t)(c.Engines(ctx)); len(engines) != 1 || engines[0].Roles != "engine,relay" {
			t.Errorf("engines %+v", engines)
		}
		st := must[client.Status](t)(c.Status(ctx))
		if time.Since(st.Now).Abs() > deadline || st.Era != 1 || st.Schema == 0 {
			t.Errorf("status %+v", st)
		}
		if eras := must[[]client.Era](t)(c.Eras(ctx)); len(eras) != 1 || eras[0].Era != 1 || eras[0].SystemIdentifier == "" {
			t.Errorf("eras %+v", eras)
		}
	})
}

func TestProve(t *testing.T) {
	each(t, func(t *testing.T, w *world, c client.Client) {
		ctx := t.Context()
		define(t, c, "a")
		run := must[client.Triggered](t)(c.Trigger(ctx, client.Trigger{Job: "a"}))
		w.work()
		retry := must[client.Triggered](t)(c.RetryRun(ctx, run.RunID, "", "once more"))
		w.project()
		r, err := c.Verify(ctx, func(int) {})
		if err != nil || r.Count != 0 || r.Streams != 3 || r.Events != 6 {
			t.Errorf("verified %+v, %v", r, err)
		}
		for _, f := range []projections.StatsFilter{{}, {Queue: "default"}, {Job: "a", From: time.Now().Add(-2 * time.Hour), To: time.Now().Add(time.Hour), Step: time.Hour}} {
			rates, err := c.Rates(ctx, f)
			if err != nil || rates.Total.Succeeded != 1 || rates.Job != f.Job || f.Step != 0 && rates.Step.Std() != f.Step {
				t.Errorf("rates of %+v: %+v, %v", f, rates, err)
			}
			if d, err := c.Durations(ctx, f); err != nil || d.Run.Count != 1 || d.Wait.P50Estimate == nil || d.Queue != f.Queue {
				t.Errorf("durations of %+v: %+v, %v", f, d, err)
			}
		}
		_, err = c.Rates(ctx, projections.StatsFilter{Job: "a", Kind: "b"})
		is[*projections.FilterError](t, err)
		all := must[[]client.ProjectionState](t)(c.Projections(ctx))
		if len(all) != 1 || all[0].Name != projections.RunSummariesName || all[0].Lag.Events != 0 {
			t.Errorf("projections %+v", all)
		}
		w.exec("UPDATE run_summaries SET state = 'failed'")
		if got := must[projections.CheckReport](t)(c.CheckProjection(ctx, projections.RunSummariesName, 0)); got.Drifted == 0 {
			t.Errorf("a changed row is no drift: %+v", got)
		}
		if r, err = c.Verify(ctx, nil); err != nil || r.Count == 0 {
			t.Errorf("a changed row is no violation: %+v, %v", r, err)
		}
		if err := c.RebuildProjection(ctx, projections.RunSummariesName, func(projections.Progress) {}); err != nil {
			t.Fatal(err)
		}
		if got := must[projections.CheckReport](t)(c.CheckProjection(ctx, projections.RunSummariesName, 10)); got.Drifted != 0 || got.Streams == 0 {
			t.Errorf("rebuilt: %+v", got)
		}
		_, err = c.CheckProjection(ctx, "none", 0)
		is[*projections.UnknownProjectionError](t, err)
		is[*projections.UnknownProjectionError](t, c.RebuildProjection(ctx, "none", nil))
		if l, err := c.Lineage(ctx, run.RunID); err != nil || l.Job != "a" || l.Definition == nil || l.Definition.Version != 1 || l.Definition.Actor != actor || l.Definition.Reason != "for a test" ||
			l.Run.RunID != run.RunID || l.Run.MadeBy != actor || l.Run.State != domain.Succeeded || len(l.Attempts) != 1 || len(l.Before) != 0 ||
			len(l.After) != 1 || l.After[0].RunID != retry.RunID || l.After[0].Reason != "once more" {
			t.Errorf("lineage %+v, %v", l, err)
		}
		if _, err := c.Lineage(ctx, uuid.New()); !errors.Is(err, eventstore.ErrNotFound) {
			t.Error(err)
		}
		if _, err := c.Explain(ctx, "none", time.Now()); !errors.Is(err, eventstore.ErrNotFound) {
			t.Error(err)
		}
		then := madeAt(t, c, retry.RunID)
		if got, err := c.RunAsOf(ctx, run.RunID, then); err != nil || got.State != domain.Succeeded {
			t.Errorf("as of the retry: %+v, %v", got, err)
		}
		must[client.Cancelled](t)(c.CancelRun(ctx, retry.RunID, ""))
		if got, err := c.RunAsOf(ctx, retry.RunID, then); err != nil || got.State != domain.Pending {
			t.Errorf("the retry as it was made: %+v, %v", got, err)
		}
		if _, _, err := c.CommandJob(ctx, "a", client.Pause, ""); err != nil {
			t.Fatal(err)
		}
		if got, err := c.JobAsOf(ctx, "a", then); err != nil || got.State != client.Active || got.Version != 1 || got.CreatedAt.IsZero() {
			t.Errorf("the job as it was: %+v, %v", got, err)
		}
		if got, err := c.QueuesAsOf(ctx, then); err != nil || len(got) != 1 || got[0].Due != 1 {
			t.Errorf("the lanes as they were: %+v, %v", got, err)
		}
		long := then.AddDate(-1, 0, 0)
		for what, err := range map[string]error{
			"job": func() error { _, err := c.JobAsOf(ctx, "a", long); return err }(),
			"run": func() error { _, err := c.RunAsOf(ctx, run.RunID, long); return err }(),
		} {
			if !errors.Is(err, eventstore.ErrNotFound) {
				t.Errorf("the %s before it was made: %v", what, err)
			}
		}
		if _, err := c.Coverage(ctx, "none", time.Now().Add(-time.Hour), time.Now()); !errors.Is(err, eventstore.ErrNotFound) {
			t.Error(err)
		}
	})
}

// madeAt is the instant at which the run was made.
func madeAt(t *testing.T, c client.Client, run uuid.UUID) time.Time {
	t.Helper()
	return must[[]client.Event](t)(c.RunEvents(t.Context(), run))[0].At
}

// Of the same deployment, both tell the same, to the letter.
func TestSameAnswers(t *testing.T) {
	w := newWorld(t)
	direct, over := w.database(), w.http()
	ctx := t.Context()
	define(t, over, "a", "b")
	if _, _, err := over.CommandJob(ctx, "b", client.Pause, "<b> & c"); err != nil {
		t.Fatal(err)
	}
	run := must[client.Triggered](t)(over.Trigger(ctx, client.Trigger{Job: "a", Args: json.RawMessage(`{"n":12345678901234567890}`)}))
	later := must[client.Triggered](t)(over.Trigger(ctx, client.Trigger{Job: "a", At: time.Now().Add(time.Hour)}))
	w.work()
	w.project()
	at := time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)
	moment := must[[]client.Event](t)(direct.RunEvents(ctx, later.RunID))[0].At
	must[client.Backfilled](t)(over.Backfill(ctx, client.Backfill{Job: "a", From: at, To: at}))
	for name, ask := range map[string]func(c client.Client) (any, error){
		"plan": func(c client.Client) (any, error) {
			return c.Plan(ctx, client.Change{Definitions: []client.Definition{definition("b", "")}})
		},
		"jobs":       func(c client.Client) (any, error) { return c.ListJobs(ctx, client.JobFilter{Archived: true}) },
		"job":        func(c client.Client) (any, error) { return c.Job(ctx, "a") },
		"history":    func(c client.Client) (any, error) { return c.JobHistory(ctx, "b", 0, 10) },
		"run":        func(c client.Client) (any, error) { return c.Run(ctx, run.RunID) },
		"await":      func(c client.Client) (any, error) { return c.AwaitRun(ctx, run.RunID) },
		"later":      func(c client.Client) (any, error) { return c.Run(ctx, later.RunID) },
		"events":     func(c client.Client) (any, error) { return c.RunEvents(ctx, run.RunID) },
		"output":     func(c client.Client) (any, error) { return c.RunOutput(ctx, run.RunID, 0) },
		"log":        func(c client.Client) (any, error) { p, err := c.Events(ctx, client.EventQuery{}); return p.Events, err },
		"explain":    func(c client.Client) (any, error) { return c.Explain(ctx, "a", at) },
		"no instant": func(c client.Client) (any, error) { return c.Explain(ctx, "a", at.Add(time.Minute)) },
		"coverage": func(c client.Client) (any, error) {
			return c.Coverage(ctx, "a", at.AddDate(0, 0, -3), at.AddDate(0, 0, 3))
		},
		"lineage":    func(c client.Client) (any, error) { return c.Lineage(ctx, run.RunID) },
		"job then":   func(c client.Client) (any, error) { return c.JobAsOf(ctx, "b", time.Now()) },
		"run then":   func(c client.Client) (any, error) { return c.RunAsOf(ctx, run.RunID, time.Now()) },
		"lanes then": func(c client.Client) (any, error) { return c.QueuesAsOf(ctx, moment) },
		"retention":  func(c client.Client) (any, error) { return c.Retention(ctx) },
		"check":      func(c client.Client) (any, error) { return c.CheckProjection(ctx, projections.RunSummariesName, 0) },
		"verify":     func(c client.Client) (any, error) { return c.Verify(ctx, nil) },
		"eras":       func(c client.Client) (any, error) { return c.Eras(ctx) },
		"workers":    func(c client.Client) (any, error) { return c.Workers(ctx) },
		"parked":     func(c client.Client) (any, error) { return c.Parked(ctx, 10) },
		"runs": func(c client.Client) (any, error) {
			p, err := c.ListRuns(ctx, projections.RunFilter{})
			return p.Runs, err
		},
	} {
		want, err := ask(direct)
		if err != nil {
			t.Errorf("%s, database: %v", name, err)
			continue
		}
		got, err := ask(over)
		if err != nil {
			t.Errorf("%s, http: %v", name, err)
			continue
		}
		if a, b := encoded(t, want), encoded(t, got); a != b {
			t.Errorf("%s:\ndatabase %s\nhttp     %s", name, a, b)
		}
	}
	// A place in the log means the same to both.
	page := must[client.EventPage](t)(direct.Events(ctx, client.EventQuery{Limit: 3}))
	rest := must[client.EventPage](t)(over.Events(ctx, client.EventQuery{From: page.Next}))
	back := must[client.EventPage](t)(direct.Events(ctx, client.EventQuery{From: rest.Next}))
	if all := must[client.EventPage](t)(direct.Events(ctx, client.EventQuery{})); len(page.Events)+len(rest.Events) != len(all.Events) || len(back.Events) != 0 {
		t.Errorf("%d + %d of %d events, then %d", len(page.Events), len(rest.Events), len(all.Events), len(back.Events))
	}
}

// encoded is the value as JSON, without what blanks mean in it.
func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
