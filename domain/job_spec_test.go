package domain

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestChangedNamesEveryField alters each field of a definition in turn.
func TestChangedNamesEveryField(t *testing.T) {
	at := goldenAt
	edits := map[string]func(*JobSpec){
		"name":           func(s *JobSpec) { s.Name = "other" },
		"schedules":      func(s *JobSpec) { s.Schedules = []string{"@every 90m", "30 2 * * *"} },
		"time_zone":      func(s *JobSpec) { s.TimeZone = "UTC" },
		"queue":          func(s *JobSpec) { s.Queue = "other" },
		"kind":           func(s *JobSpec) { s.Kind = "other" },
		"target":         func(s *JobSpec) { s.Target = json.RawMessage(`{"argv":["/bin/true"]}`) },
		"args":           func(s *JobSpec) { s.Args = nil },
		"timeout":        func(s *JobSpec) { s.Timeout++ },
		"retry":          func(s *JobSpec) { s.Retry.MaxAttempts++ },
		"overlap":        func(s *JobSpec) { s.Overlap = OverlapAllow },
		"concurrency":    func(s *JobSpec) { s.Concurrency = &Concurrency{Key: "tenant", Limit: 3} },
		"exclude":        func(s *JobSpec) { s.Exclude = []string{"2026-12-25"} },
		"calendars":      func(s *JobSpec) { s.Calendars = []string{"us-holidays"} },
		"jitter":         func(s *JobSpec) { s.Jitter = Duration(time.Minute) },
		"misfire":        func(s *JobSpec) { s.Misfire = MisfireSkip },
		"catchup_window": func(s *JobSpec) { s.CatchupWindow = 0 },
		"max_catchup":    func(s *JobSpec) { s.MaxCatchup = 0 },
		"priority":       func(s *JobSpec) { s.Priority = 0 },
		"start_at":       func(s *JobSpec) { s.StartAt = &at },
		"end_at":         func(s *JobSpec) { s.EndAt = nil },
		"tags":           func(s *JobSpec) { s.Tags = append(s.Tags, "more") },
		"source":         func(s *JobSpec) { s.Source = "" },
	}
	typ := reflect.TypeFor[JobSpec]()
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		edit, ok := edits[name]
		if !ok {
			t.Errorf("no edit of %s", name)
			continue
		}
		to := goldenSpec()
		edit(&to)
		if got := goldenSpec().Changed(to); !slices.Equal(got, []string{name}) {
			t.Errorf("%s altered: changed %q", name, got)
		}
		if got := to.Changed(goldenSpec()); !slices.Equal(got, []string{name}) {
			t.Errorf("%s altered back: changed %q", name, got)
		}
	}
}

// TestChangedComparesValues: a definition written in another way is the same.
func TestChangedComparesValues(t *testing.T) {
	local := goldenSpec()
	start := local.StartAt.In(time.FixedZone("", 3600)).Add(999)
	local.StartAt = &start
	for name, edit := range map[string]func(*JobSpec){
		"time zone and nanoseconds of an instant": func(s *JobSpec) { s.StartAt = &start },
		"order of tags": func(s *JobSpec) { s.Tags = []string{"z", "billing"} },
		"empty lists":   func(s *JobSpec) { s.Tags, s.Schedules = []string{}, []string{} },
	} {
		from, to := goldenSpec(), goldenSpec()
		from.Tags = []string{"billing", "z"}
		if name == "empty lists" {
			from.Tags, from.Schedules = nil, nil
		} else {
			to.Tags = slices.Clone(from.Tags)
		}
		edit(&to)
		if got := from.Changed(to); len(got) > 0 {
			t.Errorf("%s: changed %q", name, got)
		}
	}
	tags := []string{"z", "a"}
	s := JobSpec{Tags: tags}
	s.Changed(JobSpec{})
	if !slices.Equal(tags, []string{"z", "a"}) {
		t.Error("comparing sorted the caller's tags")
	}
}

func TestChangedComparesJSON(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`{"a":1,"b":[true,null]}`, " {\n\"b\": [ true,null ], \"a\" : 1 }", true},
		{`"\u00e9\/"`, `"é/"`, true},
		{`{"a":1,"a":2}`, `{"a":2}`, true}, // the last one counts, as in jsonb
		{`[1,2]`, `[2,1]`, false},
		{`{"a":null}`, `{}`, false},
		{`""`, `null`, false},
		{`12345678901234567890123`, `12345678901234567890124`, false},
		{`0.1`, `0.10`, false}, // jsonb keeps the digits after the point
		{`"<&>"`, `"\u003c\u0026\u003e"`, true},
		{`{}`, `{} trailing`, false},
		{`{`, `{`, true},
		{`{`, `[`, false},

		// Pairs of what is sent and what jsonb gives back.
		{`1e2`, `100`, true},
		{`1E+2`, `100`, true},
		{`-1.50e1`, `-15.0`, true},
		{`1.5e0`, `1.5`, true},
		{`1e-2`, `0.01`, true},
		{`12.5e-3`, `0.0125`, true},
		{`0.00`, `0.00`, true},
		{`-0`, `0`, true},
		{`-0.0`, `0.0`, true},
		{`0e5`, `0`, true},
		{`0e-3`, `0.000`, true},
		{`1e300`, "1" + strings.Repeat("0", 300), true},
		{`[{"deep":[1e2]}]`, `[{"deep":[100]}]`, true},
		{`100`, `1000`, false},
		{`1`, `-1`, false},
		{`1e2`, `1e3`, false},
		{`10`, `1`, false},
		{`1.5`, `15`, false},
		{`"1e2"`, `"100"`, false},
	} {
		if got := len((JobSpec{Args: json.RawMessage(c.a)}).Changed(JobSpec{Args: json.RawMessage(c.b)})) == 0; got != c.same {
			t.Errorf("%s and %s: the same %v, want %v", c.a, c.b, got, c.same)
		}
	}
}

// TestCanonicalNumbersReadAsInTheDatabase: keys of limits are made of them.
func TestCanonicalNumbersReadAsInTheDatabase(t *testing.T) {
	for in, want := range map[string]string{
		`7`: `7`, `1e2`: `100`, `-1.50e1`: `-15.0`, `1e-2`: `0.01`, `12.5e-3`: `0.0125`, `0e-3`: `0.000`, `-0.0`: `0.0`, `10.50`: `10.50`,
		`1e20`: `100000000000000000000`, `1e21`: `1e21`, `3e-20`: `0.00000000000000000003`, `3e-21`: `3e-21`,
	} {
		if got := string(canonical(json.RawMessage(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestCanonicalIsBounded(t *testing.T) {
	raw := json.RawMessage(`[1e131071,1e-16383,-1e999999999]`)
	if got := canonical(raw); len(got) > 2*len(raw) {
		t.Errorf("%s became %d bytes", raw, len(got))
	}
}

func TestDuration(t *testing.T) {
	for in, want := range map[string]Duration{`"90s"`: Duration(90 * time.Second), `"1h30m"`: Duration(90 * time.Minute), `"0s"`: 0, `"-1ms"`: -Duration(time.Millisecond)} {
		var d Duration
		if err := json.Unmarshal([]byte(in), &d); err != nil || d != want {
			t.Errorf("%s: %s, %v", in, d, err)
		}
		b, err := json.Marshal(d)
		var again Duration
		if err != nil || json.Unmarshal(b, &again) != nil || again != d {
			t.Errorf("%s: written %s, %v", in, b, err)
		}
	}
	for _, in := range []string{`90`, `"90"`, `null`, `""`, `"1d"`, `{}`} {
		d := Duration(7)
		if err := json.Unmarshal([]byte(in), &d); err == nil {
			t.Errorf("%s: read as %s", in, d)
		}
	}
}
