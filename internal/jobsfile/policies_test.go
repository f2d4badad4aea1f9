package jobsfile

import (
	"slices"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
)

func TestLimitsCalendarsAndJitter(t *testing.T) {
	f, err := Parse("f", []byte(`calendars:
  us-holidays: [2026-12-25, 2027-01-01]
  maintenance: [2026-12-25, 2026-12-24]
jobs:
  - name: a
    kind: mine
    schedule: "@daily"
    concurrency: {key: tenant, limit: 3}
    exclude: [us-holidays, maintenance, 2026-11-26]
    jitter: 90s
  - {name: b, kind: mine, concurrency: {limit: 1}}
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := f.Jobs[0].Spec, f.Jobs[1].Spec
	if a.Concurrency == nil || *a.Concurrency != (domain.Concurrency{Key: "tenant", Limit: 3}) || a.Jitter.Std() != 90*time.Second ||
		!slices.Equal(a.Calendars, []string{"us-holidays", "maintenance"}) ||
		!slices.Equal(a.Exclude, []string{"2026-11-26", "2026-12-24", "2026-12-25", "2027-01-01"}) {
		t.Errorf("%+v", a)
	}
	if *b.Concurrency != (domain.Concurrency{Limit: 1}) || b.Exclude != nil || b.Jitter != 0 {
		t.Errorf("%+v", b)
	}
	if set, err := a.Instants(); err != nil || set.Count(time.Date(2026, 12, 23, 12, 0, 0, 0, time.UTC), time.Date(2026, 12, 26, 12, 0, 0, 0, time.UTC)) != 1 {
		t.Errorf("the excluded dates fire: %v", err)
	}
	expect(t, `calendars:
  Holidays: [2026-12-25]
  other: [2026-12-01, 2026-13-01]
  another: [5]
jobs:
  - name: a
    kind: mine
    schedule: "@daily"
    concurrency: {limit: 0}
    exclude: [holidays]
    jitter: -1s
  - {name: b, kind: mine, concurrency: {}, exclude: [2026-12-25]}
  - {name: c, kind: mine, concurrency: 3}
`,
		`f:2: calendars.Holidays: is no name (use a-z, 0-9, - and _, at most 64, beginning with a letter or digit)`,
		`f:3: calendars.other[1]: "2026-13-01": is no date (write it as 2026-12-25)`,
		`f:4: calendars.another[0]: "5": is a number (write it in quotes: "5")`,
		`f:9: jobs[0].concurrency.limit: "0": is out of range 1-2147483647 (it is how many runs may be in hand at once)`,
		`f:10: jobs[0].exclude[0]: "holidays": is neither a calendar of this file nor a date (define it under calendars: at the top of the file)`,
		`f:11: jobs[0].jitter: "-1s": is negative`,
		`f:12: jobs[1].concurrency.limit: is missing (it is how many runs may be in hand at once)`,
		`f:12: jobs[1].exclude: means nothing without a schedule (add one or remove this)`,
		`f:13: jobs[2].concurrency: "3": is a number (want a limit with key, limit)`,
	)
}

// TestUnsupportedNamesAreFields: nothing in the tables is a slip of the pen.
func TestUnsupportedNamesAreFields(t *testing.T) {
	for name, f := range unsupported {
		if !slices.Contains([]string{"http", "concurrency", "exclude", "alerts", "jitter"}, name) || f.message == "" || f.hint == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for name, f := range unsupportedInFile {
		if !slices.Contains([]string{"calendars", "channels"}, name) || f.message == "" || f.hint == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestSuggestions(t *testing.T) {
	for in, want := range map[string]string{
		"schedul": "schedule", "shcedule": "schedule", "timezone": "time_zone", "que": "queue", "retrys": "retry", "priorty": "priority", "startat": "start_at",
		"catch_up_window": "catchup_window", "catchup-window": "catchup_window", "maxcatchup": "max_catchup", "TAGS": "tags", "labels": "tags", "suspend": "paused",
		"exclude_dates": "", "description": "", "": "",
	} {
		hint, ok := suggest(in, jobFields)
		if want != "" && hint != "did you mean "+want+"?" || want == "" && hint[:15] != "the fields are " || ok {
			t.Errorf("%q: %q, want %q", in, hint, want)
		}
	}
	if _, ok := suggest("queue", jobFields); !ok {
		t.Error("a known field is suggested against")
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"abc", "ab", 1}, {"abc", "xyz", 3}, {"a", "abcdef", 3}} {
		if got := editDistance(c.a, c.b, 3); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
