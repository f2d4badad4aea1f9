package domain

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

var update = flag.Bool("update", false, "write golden events that do not exist yet; existing ones are never rewritten")

var (
	goldenJob   = JobID("nightly-report")
	goldenAt    = time.Date(2026, 3, 8, 7, 30, 0, 0, time.UTC)
	goldenClaim = uuid.MustParse("5f0c1a52-7c1f-4b57-9d0e-0d8f6f1b2a33")
	goldenToken = uuid.MustParse("c0ffee00-1234-4abc-8def-001122334455")
	goldenOther = uuid.MustParse("018f0000-0000-8000-8000-000000000001")
	goldenError = RunError{Type: "exit", Message: "exit status 3: \"disk\" <full> & so on", Stack: "main.go:12"}
)

func goldenSpec() JobSpec {
	start, end := goldenAt.AddDate(0, -1, 0), goldenAt.AddDate(1, 0, 0)
	return JobSpec{
		Name: "nightly-report", Schedules: []string{"30 2 * * *", "@every 90m"}, TimeZone: "America/New_York",
		Queue: "default", Kind: KindExec,
		Target:  json.RawMessage(`{"argv":["/usr/local/bin/report","--all"],"env":{"TOKEN":{"from_env":"REPORT_TOKEN"}}}`),
		Args:    json.RawMessage(`{"scope":"all","weights":[1,1.50,2e3],"none":null}`),
		Timeout: Duration(10 * time.Minute),
		Retry:   RetryPolicy{MaxAttempts: 5, Initial: Duration(10 * time.Second), Max: Duration(time.Hour), Multiplier: 2.5},
		Overlap: OverlapQueue, Misfire: MisfireAll, CatchupWindow: Duration(24 * time.Hour), MaxCatchup: 100, Priority: 5,
		StartAt: &start, EndAt: &end, Tags: []string{"billing"}, Source: "jobs.yaml",
	}
}

// limitedSpec is goldenSpec with what came to definitions later.
func limitedSpec() JobSpec {
	s := goldenSpec()
	s.Concurrency = &Concurrency{Key: "tenant", Limit: 3}
	s.Exclude, s.Calendars = []string{"2026-12-25", "2027-01-01"}, []string{"us-holidays"}
	s.Jitter = Duration(90 * time.Second)
	return s
}

// goldenEvents are what the files in testdata/events must decode to. The key is
// the file's name: type, schema version and, where there are several, a variant.
func goldenEvents() map[string]Event {
	deadline := goldenAt.Add(10 * time.Minute)
	return map[string]Event{
		"JobCreated.v1":         JobCreated{Spec: goldenSpec(), Reason: "first definition"},
		"JobCreated.v1.minimal": JobCreated{Spec: JobSpec{Name: "on-request", TimeZone: "UTC", Queue: "default", Kind: "send-email", Retry: DefaultRetry(), Overlap: OverlapSkip, Misfire: MisfireLatest, Priority: 5}},
		"JobCreated.v1.limits":  JobCreated{Spec: limitedSpec()},
		"JobUpdated.v1.limits":  JobUpdated{Spec: limitedSpec(), Changed: []string{"concurrency"}},
		"JobUpdated.v1":         JobUpdated{Spec: goldenSpec(), Changed: []string{"schedules", "timeout"}, Reason: "later"},
		"JobPaused.v1":          JobPaused{Reason: "maintenance"},
		"JobResumed.v1":         JobResumed{Reason: "done"},
		"JobArchived.v1":        JobArchived{Reason: "replaced"},
		"RunsRetired.v1": RunsRetired{
			Month: "2026-03", File: "runs-2026-03-0123456789ab.jsonl", SHA256: strings.Repeat("0123456789abcdef", 4), Last: true, Job: "nightly-report",
			Runs: 31, Slots: 30, Succeeded: 27, Failed: 1, Cancelled: 1, Skipped: 2, LastSuccessAt: &goldenAt, LastFailureAt: &goldenAt,
			LastSuccessRun: &goldenOther, LastFinishedAt: &goldenAt, LastRun: &goldenOther,
			Skips:     []RetiredRange{{From: goldenAt, To: goldenAt.Add(24 * time.Hour), Count: 2, Reason: SkippedOverlap}},
			Backfills: []RetiredRange{{From: goldenAt, To: goldenAt, Count: 1}},
		},
		"ZoneRulesChanged.v1": ZoneRulesChanged{Zone: "Africa/Cairo", Fingerprint: "89abcdef01234567", NextFire: &goldenAt},
		"FiresSkipped.v1":     FiresSkipped{From: goldenAt, To: goldenAt.Add(3 * time.Hour), Count: 4, Reason: SkipCatchupWindow},
		"RunScheduled.v1": RunScheduled{
			JobID: goldenJob, Job: "nightly-report", JobVersion: 3, Origin: OriginSchedule, ScheduledAt: goldenAt, ReadyAt: goldenAt.Add(time.Microsecond),
			Nominal: "2026-03-08T02:30", CatchUp: true, Queue: "default", Kind: KindExec, Priority: 5,
		},
		"RunScheduled.v1.request": RunScheduled{
			JobID: goldenJob, Job: "nightly-report", JobVersion: 3, Origin: OriginRetry, ScheduledAt: goldenAt, ReadyAt: goldenAt,
			Queue: "default", Kind: KindExec, Priority: 0, Key: "order-17", Args: json.RawMessage(`{"order":17}`), RetryOf: &goldenOther, Reason: "asked by hand",
		},
		"RunClaimed.v1":             RunClaimed{ClaimID: goldenClaim, LeaseUntil: goldenAt.Add(time.Minute), Dispatch: 2},
		"RunStarted.v1":             RunStarted{ClaimID: goldenClaim, Token: goldenToken, Worker: "host-1/4711", Attempt: 1, LeaseUntil: goldenAt.Add(time.Minute), Deadline: &deadline},
		"RunStarted.v1.no-deadline": RunStarted{ClaimID: goldenClaim, Token: goldenToken, Worker: "host-1/4711", Attempt: 2, LeaseUntil: goldenAt.Add(time.Minute)},
		"RunReleased.v1":            RunReleased{ClaimID: goldenClaim, Op: OpExpire, Reason: ReasonNotStarted, ReadyAt: goldenAt},
		"RunRetryScheduled.v1":      RunRetryScheduled{ClaimID: goldenClaim, Op: OpFail, Attempt: 1, ReadyAt: goldenAt.Add(11 * time.Second), Error: goldenError},
		"RunSnoozed.v1":             RunSnoozed{ClaimID: goldenClaim, Attempt: 1, ReadyAt: goldenAt.Add(time.Hour)},
		"RunInterrupted.v1":         RunInterrupted{ClaimID: goldenClaim, Attempt: 1, Reason: "drained", ReadyAt: goldenAt},
		"RunCancelRequested.v1":     RunCancelRequested{ClaimID: goldenClaim, Reason: "wrong input"},
		"RunSucceeded.v1":           RunSucceeded{ClaimID: goldenClaim, Attempt: 1},
		"RunFailed.v1":              RunFailed{ClaimID: goldenClaim, Op: OpExpire, Attempt: 5, Error: goldenError},
		"RunCancelled.v1":           RunCancelled{ClaimID: &goldenClaim, Op: OpSnooze, Reason: "wrong input"},
		"RunCancelled.v1.pending":   RunCancelled{Op: OpCancel},
		"RunSkipped.v1":             RunSkipped{Reason: "overlap", BlockedBy: &goldenOther},
	}
}

var goldenName = regexp.MustCompile(`^([A-Za-z]+)\.v(\d+)(\.[a-z-]+)?\.json$`)

// TestGoldenEvents decodes every event ever stored under testdata/events, and
// expects the value it meant and the same JSON again.
func TestGoldenEvents(t *testing.T) {
	want := goldenEvents()
	if *update {
		for name, e := range want {
			writeGolden(t, name, e)
		}
	}
	files, err := filepath.Glob("testdata/events/*.json")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string][]Event{}
	for _, file := range files {
		base := filepath.Base(file)
		parts := goldenName.FindStringSubmatch(base)
		if parts == nil {
			t.Errorf("%s: want a name such as RunStarted.v1.json", base)
			continue
		}
		version, _ := strconv.Atoi(parts[2])
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		e, err := DecodeEvent(parts[1], version, data)
		if err != nil {
			t.Errorf("%s: %v", base, err)
			continue
		}
		seen[parts[1]] = append(seen[parts[1]], e)
		name := strings.TrimSuffix(base, ".json")
		if e.EventType() != parts[1] {
			t.Errorf("%s: decodes to a %s", base, e.EventType())
		}
		if w, ok := want[name]; !ok {
			t.Errorf("%s: not in goldenEvents", base)
		} else if version == SchemaVersion && !equalEvents(t, e, w) {
			t.Errorf("%s: decodes to\n%#v\nwant\n%#v", base, e, w)
		}
		again, err := EncodeEvent(e)
		if err != nil {
			t.Errorf("%s: %v", base, err)
		} else if version == SchemaVersion && !sameJSON(t, again, data) {
			t.Errorf("%s: encoded again it is\n%s\nwas\n%s", base, again, data)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("testdata/events/%s.json is missing; run the test with -update to write it", name)
	}
	for typ := range decoders {
		if len(seen[typ]) == 0 {
			t.Errorf("%s has no golden event", typ)
			continue
		}
		for _, field := range neverSet(seen[typ]) {
			t.Errorf("%s: field %s is set in no golden event", typ, field)
		}
	}
}

// TestEveryEventHasADecoder reads the names under which the source stores events.
func TestEveryEventHasADecoder(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func \((\w+)\) EventType\(\) string +\{ return "(\w+)" \}`)
	n := 0
	for _, file := range []string{"job_events.go", "run_events.go"} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(src), -1) {
			n++
			dec, ok := decoders[m[2]]
			if !ok {
				t.Errorf("%s is stored as %q and cannot be decoded", m[1], m[2])
				continue
			}
			e, err := dec([]byte(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			if got := reflect.TypeOf(e).Name(); got != m[1] || e.EventType() != m[2] {
				t.Errorf("%q decodes to a %s stored as %q, want a %s", m[2], got, e.EventType(), m[1])
			}
			if want := map[bool]Category{true: CategoryJob, false: CategoryRun}[file == "job_events.go"]; CategoryOf(e) != want {
				t.Errorf("%s: category %s, want %s", m[1], CategoryOf(e), want)
			}
		}
	}
	if n != len(decoders) {
		t.Errorf("%d events declared, %d decoders", n, len(decoders))
	}
}

// neverSet names the fields, also of nested structs, that are zero in all of
// the events.
func neverSet(events []Event) []string {
	values := make([]reflect.Value, len(events))
	for i, e := range events {
		values[i] = reflect.ValueOf(e)
	}
	return unset("", values)
}

func unset(prefix string, values []reflect.Value) []string {
	var names []string
	t := values[0].Type()
	for i := range t.NumField() {
		name := prefix + t.Field(i).Name
		fields := make([]reflect.Value, len(values))
		for k, v := range values {
			fields[k] = v.Field(i)
		}
		switch {
		case !slices.ContainsFunc(fields, func(v reflect.Value) bool { return !v.IsZero() }):
			names = append(names, name)
		case t.Field(i).Type.Kind() == reflect.Struct && t.Field(i).Type != reflect.TypeFor[time.Time]():
			names = append(names, unset(name+".", fields)...)
		}
	}
	return names
}

func writeGolden(t *testing.T, name string, e Event) {
	t.Helper()
	file := filepath.Join("testdata", "events", name+".json")
	if _, err := os.Stat(file); err == nil {
		return
	}
	b, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Log("wrote", file)
}

// equalEvents compares by value, and JSON inside of events as JSON.
func equalEvents(t *testing.T, a, b Event) bool {
	t.Helper()
	x, errX := EncodeEvent(a)
	y, errY := EncodeEvent(b)
	if errX != nil || errY != nil {
		t.Fatal(errX, errY)
	}
	return reflect.TypeOf(a) == reflect.TypeOf(b) && sameJSON(t, x, y)
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	return reflect.DeepEqual(readJSON(t, a), readJSON(t, b))
}

func readJSON(t *testing.T, b []byte) (v any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(fmt.Errorf("%w in %s", err, b))
	}
	return v
}

func TestDecodeEventRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, c := range []struct {
		typ     string
		version int
		data    string
		unknown bool
	}{
		{"RunTeleported", 1, `{}`, true},
		{"RunStarted", 0, `{}`, true},
		{"RunStarted", SchemaVersion + 1, `{}`, true},
		{"RunStarted", 1, `{`, false},
		{"RunStarted", 1, `{"attempt":"one"}`, false},
		{"FiresSkipped", 1, `{"from":"yesterday"}`, false},
		{"JobCreated", 1, `{"spec":{"timeout":600}}`, false},
	} {
		e, err := DecodeEvent(c.typ, c.version, []byte(c.data))
		if err == nil {
			t.Errorf("%s v%d %s: decoded to %#v", c.typ, c.version, c.data, e)
		} else if is := errors.Is(err, ErrUnknownEvent); is != c.unknown || !strings.Contains(err.Error(), c.typ) {
			t.Errorf("%s v%d %s: %v", c.typ, c.version, c.data, err)
		}
	}
	e, err := DecodeEvent("RunSkipped", 1, []byte(`{"reason":"overlap","written_by_a_newer_binary":[1]}`))
	if err != nil || e != (RunSkipped{Reason: "overlap"}) {
		t.Errorf("an unknown field: %#v, %v", e, err)
	}
}
