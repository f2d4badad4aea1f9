package projections

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// seed fills the table with finished and waiting runs of several jobs, a second
// apart, and returns them.
func (w *world) seed(t testing.TB, n int, states ...domain.State) []RunSummary {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 7))
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var rows summaryRows
	out := make([]RunSummary, n)
	for i := range n {
		job := fmt.Sprintf("job-%d", random.IntN(5))
		at := begin.Add(time.Duration(i) * time.Second)
		s := RunSummary{
			RunID: domain.SlotID(domain.JobID(job), at), Version: 4, State: states[random.IntN(len(states))],
			JobID: domain.JobID(job), Job: job, JobVersion: 1, Queue: fmt.Sprintf("q-%d", random.IntN(3)), Kind: fmt.Sprintf("k-%d", random.IntN(4)),
			Origin: domain.OriginSchedule, ScheduledAt: at, ReadyAt: at, ChangedAt: at,
		}
		if s.State.Terminal() {
			s.FinishedAt = new(at.Add(time.Second))
		}
		if s.State == domain.Failed {
			s.ErrorType, s.ErrorMessage = "exit", fmt.Sprintf("Connection to host-%d refused", random.IntN(10))
		}
		out[i] = s
		rows.add(&s)
	}
	w.exec(t, upsertSummaries("run_summaries"), rows.columns()...)
	w.exec(t, "ANALYZE run_summaries")
	slices.Reverse(out)
	return out
}

// tag gives the first two of n jobs one tag, and the others another, beside many
// jobs without runs.
func (w *world) tag(t testing.TB, n int) map[string][]string {
	t.Helper()
	tags := map[string][]string{}
	for i := range n + fewTagged {
		tag, s := "many", spec(fmt.Sprintf("job-%d", i))
		if i < 2 {
			tag = "few"
		}
		tags[tag], s.Tags = append(tags[tag], s.Name), []string{tag, "every"}
		w.apply(t, s)
	}
	return tags
}

func (f RunFilter) matches(s RunSummary, tags map[string][]string) bool {
	return (f.Tag == "" || slices.Contains(tags[f.Tag], s.Job)) && (f.Job == "" || s.Job == f.Job) && (len(f.States) == 0 || slices.Contains(f.States, s.State)) &&
		(f.Queue == "" || s.Queue == f.Queue) && (f.Kind == "" || s.Kind == f.Kind) &&
		(f.Since.IsZero() || !s.ScheduledAt.Before(f.Since)) && (f.Until.IsZero() || s.ScheduledAt.Before(f.Until)) &&
		strings.Contains(strings.ToLower(s.ErrorType+" "+s.ErrorMessage), strings.ToLower(f.Text))
}

// Whatever the filter, the pages together are the matching runs, each one time,
// the newest first.
func TestListsAreCompleteAndInOrder(t *testing.T) {
	w := newWorld(t)
	all := w.seed(t, 3000, domain.States...)
	tags := w.tag(t, 5)
	reader := NewReader(w.Store)
	random := rand.New(rand.NewPCG(1, 2))
	some := func(value string) string {
		if random.IntN(3) == 0 {
			return value
		}
		return ""
	}
	for range 150 {
		f := RunFilter{
			Job: some(fmt.Sprintf("job-%d", random.IntN(6))), Queue: some(fmt.Sprintf("q-%d", random.IntN(4))),
			Kind: some(fmt.Sprintf("k-%d", random.IntN(5))), Text: some(fmt.Sprintf("HOST-%d", random.IntN(10))), Tag: some([]string{"few", "many", "none"}[random.IntN(3)]), Limit: 1 + random.IntN(MaxPage),
		}
		for _, s := range domain.States {
			if random.IntN(6) == 0 {
				f.States = append(f.States, s)
			}
		}
		if random.IntN(3) == 0 {
			f.Since = all[random.IntN(len(all))].ScheduledAt
		}
		if random.IntN(3) == 0 {
			f.Until = all[random.IntN(len(all))].ScheduledAt
		}
		if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
			f.Until = time.Time{}
		}
		var want, got []uuid.UUID
		for _, s := range all {
			if f.matches(s, tags) {
				want = append(want, s.RunID)
			}
		}
		for {
			page, err := reader.ListRuns(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Runs) > f.Limit {
				t.Fatalf("page of %d, limit %d", len(page.Runs), f.Limit)
			}
			for _, s := range page.Runs {
				got = append(got, s.RunID)
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("filter %+v: %d runs, want %d", f, len(got), len(want))
		}
	}
}

func TestSearchLooksAtABoundedNumberOfRows(t *testing.T) {
	w := newWorld(t)
	all := w.seed(t, 2*examinedIndexed+100, domain.Failed)
	oldest := all[len(all)-1]
	w.exec(t, "UPDATE run_summaries SET error_message = 'rare' WHERE run_id = $1", oldest.RunID)
	reader := NewReader(w.Store)
	f := RunFilter{Text: "rare"}
	for pages := 1; ; pages++ {
		page, err := reader.ListRuns(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if pages < 3 && (len(page.Runs) != 0 || page.Next == "") {
			t.Fatalf("page %d: %d runs, next %q", pages, len(page.Runs), page.Next)
		}
		if pages == 3 {
			if len(page.Runs) != 1 || page.Runs[0].RunID != oldest.RunID || page.Next != "" {
				t.Errorf("third page: %d runs, next %q", len(page.Runs), page.Next)
			}
			break
		}
		f.Cursor = page.Next
	}
}

func TestListRefusesWhatItCannotAnswer(t *testing.T) {
	w := newWorld(t)
	w.seed(t, 10, domain.Failed)
	reader := NewReader(w.Store)
	page, err := reader.ListRuns(t.Context(), RunFilter{States: []domain.State{domain.Failed, domain.Skipped}, Limit: 3})
	if err != nil || page.Next == "" {
		t.Fatal(page, err)
	}
	if p, err := reader.ListRuns(t.Context(), RunFilter{States: []domain.State{domain.Skipped, domain.Failed}, Limit: 5, Cursor: page.Next}); err != nil || len(p.Runs) != 5 {
		t.Errorf("the same filter in another order, with another limit: %d runs, %v", len(p.Runs), err)
	}
	now := time.Now()
	for field, f := range map[string]RunFilter{
		"limit":  {Limit: 501},
		"state":  {States: []domain.State{"done"}},
		"until":  {Since: now, Until: now},
		"cursor": {Job: "job-1", Cursor: page.Next},
	} {
		var bad *FilterError
		if _, err := reader.ListRuns(t.Context(), f); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%+v: %v, want a complaint about %s", f, err, field)
		}
	}
	for _, c := range []string{"x", "e30", "%%%"} {
		if _, err := reader.ListRuns(t.Context(), RunFilter{Cursor: c}); err == nil || !strings.Contains(err.Error(), "cursor") {
			t.Errorf("cursor %q: %v", c, err)
		}
	}
}

func TestListTellsItsLag(t *testing.T) {
	w := newWorld(t)
	w.apply(t, spec("report"))
	w.follow(t)
	w.request(t, "report", 2)
	page, err := NewReader(w.Store).ListRuns(t.Context(), RunFilter{})
	if err != nil || len(page.Runs) != 0 || page.Lag.Events != 2 || page.Lag.Behind <= 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

// Every statement must go by the index it names: on a table that was empty when
// it was analyzed, which is when the engine first prepares it, and on a large
// one.
func TestPlans(t *testing.T) {
	w := newWorld(t)
	w.exec(t, "ANALYZE run_summaries, job_stats, checkpoints, projection_parked")
	statements := map[string]struct {
		sql        string
		parameters int
		indexes    []string
	}{
		"load":          {NewRunSummaries().load, 1, []string{"run_summaries_pkey"}},
		"stats":         {selectStats, 2, []string{"job_stats_pkey", "run_summaries_job", "run_summaries_pkey"}},
		"parked":        {parkedToRetry, 3, []string{"projection_parked_tried"}},
		"save":          {saveCheckpoint, 5, []string{"checkpoints_pkey"}},
		"acquire":       {acquireLease, 3, []string{"checkpoints_pkey"}},
		"queues":        {selectQueues, 1, []string{"due_runs_lane"}},
		"output":        {selectOutput, 2, []string{"run_outputs_pkey"}},
		"tagged":        {selectTagged, 2, []string{"job_tags_pkey"}},
		"history":       {selectHistory, 3, []string{"events_job_pkey"}},
		"detail":        {selectSummary, 1, []string{"run_summaries_pkey"}},
		"scan":          {scanRuns, 3, []string{"events_run_"}},
		"scan to check": {checkEvents, 6, []string{"events_run_"}},
		"check":         {checkRows, 2, []string{"run_summaries_pkey"}},
		"depths":        {selectDepths, 1, []string{"queue_stats_pkey", "run_summaries_pending"}},
	}
	for name, f := range map[string]RunFilter{
		"list": {}, "list state": {States: []domain.State{domain.Failed}}, "list job": {Job: "job-1"}, "list job state": {Job: "job-1", States: []domain.State{domain.Failed, domain.Running}},
		"list queue": {Queue: "q-1"}, "list kind": {Kind: "k-1"}, "search text": {Text: "refused"}, "search tag": {Tag: "t-1"}, "list queue kind": {Kind: "k-1", Queue: "q-1"}, "search job": {Job: "job-1", Kind: "k-1"},
	} {
		l, err := f.prepare()
		if err != nil {
			t.Fatal(err)
		}
		index := map[bool]string{true: "run_summaries_pkey", false: "run_summaries_state"}[l.states == nil]
		switch l.scope {
		case ofErrors:
			index = "run_summaries_errors"
		case ofJobs:
			index = "run_summaries_job"
		case ofKind:
			index = "run_summaries_kind"
		case ofQueue:
			index = "run_summaries_queue"
		case ofLane:
			index = "run_summaries_lane"
		case everywhere:
		}
		sql, args := l.from(summaryColumns)
		args = with(args, 10)
		if l.selective {
			sql, args = l.search(l.examined())
		}
		st := statements[name]
		st.sql, st.parameters, st.indexes = sql, len(args), []string{index}
		statements[name] = st
	}
	check := func(when string) {
		t.Helper()
		for name, s := range statements {
			plan := explain(t, w, s.sql, s.parameters)
			for _, index := range s.indexes {
				if !strings.Contains(plan, index) {
					t.Errorf("%s, %s: not by %s:\n%s", when, name, index, plan)
				}
			}
			for _, table := range []string{"run_summaries", "job_stats", "checkpoints", "projection_parked", "due_runs", "events"} {
				if strings.Contains(plan, "Seq Scan on "+table) {
					t.Errorf("%s, %s: scans %s:\n%s", when, name, table, plan)
				}
			}
			ordered := strings.HasPrefix(name, "list") && s.indexes[0] == "run_summaries_pkey" || strings.HasPrefix(name, "scan")
			if ordered && strings.Contains(plan, "Sort") {
				t.Errorf("%s, %s: sorts:\n%s", when, name, plan)
			}
		}
	}
	check("empty")
	w.seed(t, 60_000, domain.States...)
	check("large")
}

// explain is the plan as the engine's role gets it, made without the values.
func explain(t *testing.T, w *world, sql string, parameters int) string {
	t.Helper()
	values := make([]string, parameters)
	for i := range values {
		values[i] = "NULL"
		if strings.Contains(sql, "SELECT "+eventColumns) && i == 0 { // or no month would be looked at
			values[i] = "'00000000-0000-0000-0000-000000000000'"
		}
	}
	conn, err := pgx.Connect(t.Context(), w.db.DSNFor("daybook_engine"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), "PREPARE s AS "+sql); err != nil {
		t.Fatalf("prepare %s: %v", sql, err)
	}
	rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE s("+strings.Join(values, ", ")+")", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("explain %s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}
