package domain

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func jobSpec(name string) JobSpec {
	s := goldenSpec()
	s.Name = name
	return s
}

// jobIn is a job brought to a state by commands.
func jobIn(t *testing.T, commands ...JobCommand) Job {
	t.Helper()
	j := Job{ID: JobID("nightly-report")}
	for _, c := range commands {
		events, err := DecideJob(j, c)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if j, err = EvolveJob(j, e, goldenAt); err != nil {
				t.Fatal(err)
			}
		}
	}
	return j
}

var jobStates = map[string][]JobCommand{
	"new":      nil,
	"active":   {ApplyJob{Spec: goldenSpec()}},
	"paused":   {ApplyJob{Spec: goldenSpec()}, PauseJob{Reason: "why"}},
	"archived": {ApplyJob{Spec: goldenSpec()}, PauseJob{}, ArchiveJob{}},
}

func TestDecideJob(t *testing.T) {
	other := goldenSpec()
	other.Priority = 1
	const rows = `
command        | new                  | active      | paused      | archived
apply          | JobCreated           | -           | -           | JobCreated
apply paused   | JobCreated JobPaused | -           | -           | JobCreated JobPaused
apply another  | JobCreated           | JobUpdated  | JobUpdated  | JobCreated
pause          | unknown_job          | JobPaused   | -           | job_archived
resume         | unknown_job          | -           | JobResumed  | job_archived
archive        | unknown_job          | JobArchived | JobArchived | -
`
	commands := map[string]JobCommand{
		"apply": ApplyJob{Spec: goldenSpec()}, "apply paused": ApplyJob{Spec: goldenSpec(), Paused: true}, "apply another": ApplyJob{Spec: other},
		"pause": PauseJob{}, "resume": ResumeJob{}, "archive": ArchiveJob{},
	}
	lines := strings.Split(strings.TrimSpace(rows), "\n")
	header := strings.Split(lines[0], "|")
	for _, line := range lines[1:] {
		cells := strings.Split(line, "|")
		command := strings.TrimSpace(cells[0])
		for i := 1; i < len(header); i++ {
			state, want := strings.TrimSpace(header[i]), strings.TrimSpace(cells[i])
			j := jobIn(t, jobStates[state]...)
			events, err := DecideJob(j, commands[command])
			var got []string
			for _, e := range events {
				got = append(got, e.EventType())
				if j, err = EvolveJob(j, e, goldenAt); err != nil {
					t.Errorf("%s a job that is %s decided %s, which is no legal path: %v", command, state, e.EventType(), err)
				}
			}
			if refusal, ok := errors.AsType[*JobRefusal](err); ok {
				got = append(got, string(refusal.Code))
			} else if len(events) == 0 {
				got = append(got, "-")
			}
			if g := strings.Join(got, " "); g != want {
				t.Errorf("%s a job that is %s: %s, want %s", command, state, g, want)
			}
		}
	}
}

func TestJobUpdatedSaysWhatChanged(t *testing.T) {
	j := jobIn(t, jobStates["active"]...)
	next := goldenSpec()
	next.Schedules, next.Timeout = []string{"@daily"}, 0
	events, err := DecideJob(j, ApplyJob{Spec: next, Reason: "a\x00b"})
	if err != nil || len(events) != 1 {
		t.Fatal(events, err)
	}
	want := JobUpdated{Spec: next, Changed: []string{"schedules", "timeout"}, Reason: "a\ufffdb"}
	if !reflect.DeepEqual(events[0], want) {
		t.Errorf("%#v, want %#v", events[0], want)
	}
}

func TestJobKeepsTheVersionOfItsDefinition(t *testing.T) {
	j := jobIn(t, ApplyJob{Spec: goldenSpec()}, PauseJob{Reason: "why"})
	if j.Version != 2 || j.SpecVersion != 1 || j.Active() || j.PauseReason != "why" {
		t.Errorf("paused: %+v", j)
	}
	other := goldenSpec()
	other.Priority = 1
	j = jobIn(t, ApplyJob{Spec: goldenSpec()}, PauseJob{Reason: "why"}, ApplyJob{Spec: other})
	if j.Version != 3 || j.SpecVersion != 3 || j.Active() || j.Spec.Priority != 1 {
		t.Errorf("updated while paused: %+v", j)
	}
	j = jobIn(t, ApplyJob{Spec: goldenSpec()}, PauseJob{Reason: "why"}, ResumeJob{})
	if j.Version != 3 || j.SpecVersion != 1 || !j.Active() || j.PauseReason != "" {
		t.Errorf("resumed: %+v", j)
	}
	j = jobIn(t, ApplyJob{Spec: goldenSpec()}, PauseJob{Reason: "why"}, ArchiveJob{}, ApplyJob{Spec: other})
	if j.Version != 4 || j.SpecVersion != 4 || !j.Active() || j.PauseReason != "" {
		t.Errorf("made again: %+v", j)
	}
}

func TestIllegalJobPaths(t *testing.T) {
	renamed := jobSpec("another")
	every := map[string]JobEvent{
		"created": JobCreated{Spec: goldenSpec()}, "updated": JobUpdated{Spec: goldenSpec()}, "renamed": JobUpdated{Spec: renamed},
		"paused": JobPaused{}, "resumed": JobResumed{}, "archived": JobArchived{}, "skipped": FiresSkipped{From: goldenAt, To: goldenAt, Count: 1},
	}
	legal := map[string]string{"new": "created", "active": "updated paused archived skipped", "paused": "updated resumed archived", "archived": "created"}
	for state, commands := range jobStates {
		j := jobIn(t, commands...)
		for name, e := range every {
			next, err := EvolveJob(j, e, goldenAt)
			var illegal *IllegalEventError
			switch want := strings.Contains(" "+legal[state]+" ", " "+name+" "); {
			case want != (err == nil):
				t.Errorf("%s after %s: %v", name, state, err)
			case want && (next.Version != j.Version+1 || !next.ChangedAt.Equal(goldenAt)):
				t.Errorf("%s after %s: version %d at %s", name, state, next.Version, next.ChangedAt)
			case !want && (!errors.As(err, &illegal) || illegal.Stream != j.ID || illegal.Version != j.Version+1 || illegal.State != state || !reflect.DeepEqual(next, j)):
				t.Errorf("%s after %s: %#v", name, state, err)
			}
		}
	}
}

// TestRandomJobs asks random commands of jobs: what is decided is a legal path,
// the fold is the state, and asking again changes nothing.
func TestRandomJobs(t *testing.T) {
	rng := seeded(t)
	for range 500 {
		j := Job{ID: JobID("nightly-report")}
		var history []Dated[JobEvent]
		at := goldenAt
		for range rng.IntN(40) {
			spec := goldenSpec()
			spec.Priority = rng.IntN(3)
			command := []JobCommand{
				ApplyJob{Spec: spec, Paused: rng.IntN(2) == 0}, ApplyJob{Spec: spec}, PauseJob{Reason: "r"}, ResumeJob{Reason: "r"}, ArchiveJob{Reason: "r"},
			}[rng.IntN(5)]
			events, err := DecideJob(j, command)
			var refusal *JobRefusal
			if err != nil && (!errors.As(err, &refusal) || len(events) > 0 || refusal.Code != JobUnknown && refusal.Code != JobIsGone) {
				t.Fatalf("%#v: %v and %v", command, events, err)
			}
			for _, e := range events {
				at = at.Add(time.Duration(rng.IntN(1000)))
				if j, err = EvolveJob(j, e, at); err != nil {
					t.Fatalf("%#v decided %#v: %v", command, e, err)
				}
				history = append(history, Dated[JobEvent]{e, at})
			}
			if again, err := DecideJob(j, command); len(again) > 0 && refusal == nil {
				t.Fatalf("%#v asked again decides %#v, %v", command, again, err)
			}
		}
		folded, err := FoldJob(j.ID, history)
		if err != nil || !reflect.DeepEqual(folded, j) || j.Version != len(history) {
			t.Fatalf("fold %+v, %v\nstate %+v of %d events", folded, err, j, len(history))
		}
	}
}

func TestJobRefusalsReadWell(t *testing.T) {
	for code, want := range map[JobCode]string{
		JobUnknown: `job "a" does not exist`, JobIsGone: `job "a" is archived`, JobConflict: `job "a" has changed since it was read`, "odd": `job "a": odd`,
	} {
		if got := (&JobRefusal{Name: "a", Code: code}).Error(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	_, err := EvolveJob(Job{ID: uuid.Nil}, JobPaused{}, goldenAt)
	if got := fmt.Sprint(err); !strings.Contains(got, `JobPaused cannot follow state "new"`) || !strings.Contains(got, "version 1") {
		t.Error(got)
	}
}

func TestNextFire(t *testing.T) {
	spec := goldenSpec()
	spec.Schedules, spec.StartAt, spec.EndAt = []string{"30 2 * * *"}, nil, nil
	j := jobIn(t, ApplyJob{Spec: spec})
	set, err := j.Spec.Instants()
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := j.NextFire(set, goldenAt); !ok || !at.Equal(time.Date(2026, 3, 9, 6, 30, 0, 0, time.UTC)) {
		t.Errorf("next fire %s, %v", at, ok)
	}
	if _, ok := j.NextFire(nil, goldenAt); ok {
		t.Error("a job on request has a next fire")
	}
	for _, c := range []JobCommand{PauseJob{}, ArchiveJob{}} {
		if _, ok := jobIn(t, ApplyJob{Spec: spec}, c).NextFire(set, goldenAt); ok {
			t.Errorf("a next fire after %T", c)
		}
	}
	if _, ok := (Job{}).NextFire(set, goldenAt); ok {
		t.Error("a job that is not there has a next fire")
	}
	onRequest := spec
	onRequest.Schedules = nil
	if set, err := onRequest.Instants(); set != nil || err != nil {
		t.Errorf("on request: %v, %v", set, err)
	}
	end := goldenAt.AddDate(0, 0, 1)
	spec.EndAt = &end
	if set, err = spec.Instants(); err != nil {
		t.Fatal(err)
	}
	if n := set.Count(goldenAt, goldenAt.AddDate(0, 1, 0)); n != 1 {
		t.Errorf("%d instants before the end, want 1", n)
	}
}

func TestCivilKey(t *testing.T) {
	for _, c := range []struct {
		exprs []string
		want  string
	}{
		{[]string{"30 2 * * *"}, "2026-03-08T02:30[America/New_York]"},
		{[]string{"30 2 * * *", "45 2 * * *"}, "2026-03-08T02:30[America/New_York]"},
		{[]string{"30 2 * * *", "@every 90m"}, ""},
		{[]string{"*/30 * * * *"}, ""},
		{[]string{"@at 2026-03-08T07:30:00Z"}, ""},
	} {
		set, err := JobSpec{Schedules: c.exprs, TimeZone: "America/New_York"}.Instants()
		if err != nil {
			t.Fatal(err)
		}
		f, ok := set.Next(goldenAt.Add(-time.Second))
		if got := CivilKey(set, f); !ok || got != c.want {
			t.Errorf("%q: %q, want %q", c.exprs, got, c.want)
		}
	}
}
