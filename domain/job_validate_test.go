package domain

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestValidDefinitions(t *testing.T) {
	for name, edit := range map[string]func(*JobSpec){
		"as it is": func(*JobSpec) {},
		"limits": func(s *JobSpec) {
			s.Concurrency, s.Exclude, s.Jitter = &Concurrency{Limit: 1}, []string{"2026-12-25"}, Duration(time.Hour)
		},
		"on request":           func(s *JobSpec) { s.Schedules, s.StartAt, s.EndAt = nil, nil, nil },
		"kind of the user's":   func(s *JobSpec) { s.Kind, s.Target = "send-email", nil },
		"no timeout, no limit": func(s *JobSpec) { s.Timeout, s.CatchupWindow, s.MaxCatchup = 0, 0, 0 },
		"one attempt":          func(s *JobSpec) { s.Retry = RetryPolicy{MaxAttempts: 1, Multiplier: 1} },
		"longest name":         func(s *JobSpec) { s.Name = "0" + strings.Repeat("_", 63) },
		"queue of one hyphen":  func(s *JobSpec) { s.Queue = "-" },
		"largest args":         func(s *JobSpec) { s.Args = json.RawMessage(`"` + strings.Repeat("x", MaxArgsBytes-2) + `"`) },
		"tag of any script":    func(s *JobSpec) { s.Tags = []string{"Größe 1", "日本"} },
	} {
		s := goldenSpec()
		edit(&s)
		if errs := s.Validate(); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// TestValidateNamesTheField breaks one thing at a time.
func TestValidateNamesTheField(t *testing.T) {
	at := func(s string) *time.Time {
		v, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return &v
	}
	for want, edit := range map[string]func(*JobSpec){
		`name: is no name (use a-z`:                                         func(s *JobSpec) { s.Name = "" },
		`name: "Nightly": is no name`:                                       func(s *JobSpec) { s.Name = "Nightly" },
		`name: "-a": is no name`:                                            func(s *JobSpec) { s.Name = "-a" },
		`name: "a.b": is no name`:                                           func(s *JobSpec) { s.Name = "a.b" },
		`name: "` + strings.Repeat("n", 65) + `": is no name`:               func(s *JobSpec) { s.Name = strings.Repeat("n", 65) },
		`queue: is no name of a queue`:                                      func(s *JobSpec) { s.Queue = "" },
		`queue: "a b": is no name of a queue`:                               func(s *JobSpec) { s.Queue = "a b" },
		`kind: "a.b": is no name of a kind`:                                 func(s *JobSpec) { s.Kind, s.Target = "a.b", nil },
		`exec: is missing`:                                                  func(s *JobSpec) { s.Target = nil },
		`http: is missing`:                                                  func(s *JobSpec) { s.Kind, s.Target = KindHTTP, nil },
		`kind: "mine": has a target, which only exec and http take`:         func(s *JobSpec) { s.Kind = "mine" },
		`exec: not valid JSON`:                                              func(s *JobSpec) { s.Target = json.RawMessage(`{`) },
		`args: holds \u0000`:                                                func(s *JobSpec) { s.Args = json.RawMessage(`"\u0000"`) },
		`args: is 262145 bytes of JSON, at most 262144`:                     func(s *JobSpec) { s.Args = json.RawMessage(`"` + strings.Repeat("x", MaxArgsBytes-1) + `"`) },
		`timeout: "-1s": is negative (0s is no timeout)`:                    func(s *JobSpec) { s.Timeout = -Duration(time.Second) },
		`retry.max_attempts: "0": is out of range 1-1000000`:                func(s *JobSpec) { s.Retry.MaxAttempts = 0 },
		`retry.initial: "-1s": is negative`:                                 func(s *JobSpec) { s.Retry.Initial = -Duration(time.Second) },
		`retry.max: "-1s": is negative`:                                     func(s *JobSpec) { s.Retry.Max = -Duration(time.Second) },
		`retry.max: "9s": is less than initial, which is 10s`:               func(s *JobSpec) { s.Retry.Max = Duration(9 * time.Second) },
		`retry.multiplier: "0.99": is not a number from 1`:                  func(s *JobSpec) { s.Retry.Multiplier = 0.99 },
		`retry.multiplier: "NaN": is not`:                                   func(s *JobSpec) { s.Retry.Multiplier = math.NaN() },
		`retry.multiplier: "+Inf": is not`:                                  func(s *JobSpec) { s.Retry.Multiplier = math.Inf(1) },
		`overlap: "wait": is no policy (use skip, queue, replace or allow)`: func(s *JobSpec) { s.Overlap = "wait" },
		`misfire: is no policy (use latest, skip or all)`:                   func(s *JobSpec) { s.Misfire = "" },
		`catchup_window: "-1ns": is negative (0s is no limit)`:              func(s *JobSpec) { s.CatchupWindow = -1 },
		`max_catchup: "-1": is out of range 0-100000 (0 is no limit)`:       func(s *JobSpec) { s.MaxCatchup = -1 },
		`jitter: "-1s": is negative`:                                        func(s *JobSpec) { s.Jitter = -Duration(time.Second) },
		`exclude[1]: "2026-02-30": is no date (write it as 2026-12-25)`:     func(s *JobSpec) { s.Exclude = []string{"2026-12-25", "2026-02-30"} },
		`exclude: leaves out dates of a schedule, and there is none`: func(s *JobSpec) {
			s.Schedules, s.StartAt, s.EndAt, s.Exclude = nil, nil, nil, []string{"2026-12-25"}
		},
		`exclude: are 10001 dates, at most 10000`:                                                func(s *JobSpec) { s.Exclude = make([]string, MaxExcluded+1) },
		`calendars[0]: "US": is no name of a calendar`:                                           func(s *JobSpec) { s.Calendars = []string{"US"} },
		`concurrency.limit: "0": is out of range 1-2147483647`:                                   func(s *JobSpec) { s.Concurrency = &Concurrency{Key: "tenant"} },
		`concurrency.key: "a�": is no name of an argument`:                                       func(s *JobSpec) { s.Concurrency = &Concurrency{Key: "a\x00", Limit: 1} },
		`priority: "10": is out of range 0-9 (0 is first, 9 is last)`:                            func(s *JobSpec) { s.Priority = 10 },
		`priority: "-1": is out of range`:                                                        func(s *JobSpec) { s.Priority = -1 },
		`tags: are 33, at most 32`:                                                               func(s *JobSpec) { s.Tags = make([]string, 33) },
		`tags[1]: is 0 bytes long`:                                                               func(s *JobSpec) { s.Tags = []string{"a", ""} },
		`tags[0]: "` + strings.Repeat("t", 65) + `": is 65 bytes long`:                           func(s *JobSpec) { s.Tags = []string{strings.Repeat("t", 65)} },
		`tags[0]: "a\nb": holds characters that cannot be shown`:                                 func(s *JobSpec) { s.Tags = []string{"a\nb"} },
		`tags[2]: "a": is given twice`:                                                           func(s *JobSpec) { s.Tags = []string{"a", "b", "a"} },
		`source: "a�": holds NUL`:                                                                func(s *JobSpec) { s.Source = "a\x00" },
		`time_zone: "Mars/Base": unknown time zone "Mars/Base"`:                                  func(s *JobSpec) { s.TimeZone = "Mars/Base" },
		`schedule: "60 * * * *": minute: 60 is out of range 0-59`:                                func(s *JobSpec) { s.Schedules = []string{"60 * * * *"} },
		`schedule[1]: "@every 1d": @every: "1d" is not a duration (a day is not always 24 hours`: func(s *JobSpec) { s.Schedules = []string{"@daily", "@every 1d"} },
		`schedule: has 65 expressions, at most 64`:                                               func(s *JobSpec) { s.Schedules = make([]string, 65) },
		`start_at: "2026-12-01T00:00:00Z": bounds a schedule, and there is none`:                 func(s *JobSpec) { s.Schedules, s.StartAt, s.EndAt = nil, at("2026-12-01T00:00:00Z"), nil },
		`end_at: "2026-12-01T00:00:00Z": bounds a schedule, and there is none`:                   func(s *JobSpec) { s.Schedules, s.StartAt, s.EndAt = nil, nil, at("2026-12-01T00:00:00Z") },
		`start_at: "2026-12-01T00:00:00.000000001Z": is finer than a microsecond`:                func(s *JobSpec) { s.StartAt = at("2026-12-01T00:00:00.000000001Z") },
		`end_at: "2026-02-08T07:30:00Z": is not after start_at, which is 2026-02-08T07:30:00Z`:   func(s *JobSpec) { s.EndAt = s.StartAt },
		`start_at: "10000-01-01T00:00:00Z": is outside the years 1 to 9999`:                      func(s *JobSpec) { v := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC); s.StartAt, s.EndAt = &v, nil },
	} {
		s := goldenSpec()
		edit(&s)
		errs := s.Validate()
		if want == `schedule: has 65 expressions, at most 64` {
			if len(errs) != 1 {
				t.Errorf("%d complaints about too many expressions", len(errs))
			}
		}
		if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) {
			t.Errorf("%v\nwant one: %s", errs, want)
		}
	}
}

func TestValidateReportsAll(t *testing.T) {
	s := JobSpec{Schedules: []string{"61 * * * *", "@hourly", "* * * *"}, TimeZone: "Nowhere"}
	fields := map[string]bool{}
	for _, e := range s.Validate() {
		fields[e.Field] = true
		if strings.HasPrefix(e.Field, "schedule") && (e.Code == "" || e.Value == "") {
			t.Errorf("%+v", e)
		}
	}
	for _, f := range []string{"name", "queue", "kind", "time_zone", "schedule[0]", "schedule[2]", "retry.max_attempts", "retry.multiplier", "overlap", "misfire"} {
		if !fields[f] {
			t.Errorf("%s is not reported, only %v", f, fields)
		}
	}
}

// TestValidDefinitionsHaveInstants: what Validate lets through, the materializer
// can read.
func TestValidDefinitionsHaveInstants(t *testing.T) {
	rng := seeded(t)
	exprs := []string{"@daily", "30 2 * * *", "@every 90m", "@at 2027-01-01T00:00:00Z", "60 * * * *", "", "@every 1d", "0 0 30 2 *"}
	zones := []string{"UTC", "", "America/New_York", "Nowhere", "Local"}
	valid := 0
	for range 2000 {
		s := goldenSpec()
		s.Schedules = nil
		for range 1 + rng.IntN(3) {
			s.Schedules = append(s.Schedules, exprs[rng.IntN(len(exprs))])
		}
		s.TimeZone = zones[rng.IntN(len(zones))]
		start := s.EndAt.Add(time.Hour * time.Duration(rng.IntN(100)-90))
		s.StartAt = &start
		_, err := s.Instants()
		if ok := len(s.Validate()) == 0; ok != (err == nil) {
			t.Fatalf("%q in %q from %s: valid %v, instants %v", s.Schedules, s.TimeZone, start, s.Validate(), err)
		} else if ok {
			valid++
		}
	}
	if valid < 100 {
		t.Errorf("%d valid definitions drawn", valid)
	}
}
