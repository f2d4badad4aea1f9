package domain

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// JobSpec is a job's definition: what runs, when, and under which policies. It
// is complete: defaults are filled in before it is recorded, so that a later
// default never changes what an old version meant.
type JobSpec struct {
	Name          string          `json:"name"`
	Schedules     []string        `json:"schedules,omitempty"` // none: runs on request only
	TimeZone      string          `json:"time_zone"`
	Queue         string          `json:"queue"`
	Kind          string          `json:"kind"`
	Target        json.RawMessage `json:"target,omitempty"` // what a built-in executor is to do
	Args          json.RawMessage `json:"args,omitempty"`
	Timeout       Duration        `json:"timeout"` // of one attempt; 0 is none
	Retry         RetryPolicy     `json:"retry"`
	Overlap       Overlap         `json:"overlap"`
	Concurrency   *Concurrency    `json:"concurrency,omitempty"`
	Misfire       Misfire         `json:"misfire"`
	CatchupWindow Duration        `json:"catchup_window"`      // 0 is no limit
	MaxCatchup    int             `json:"max_catchup"`         // 0 is no limit
	Exclude       []string        `json:"exclude,omitempty"`   // dates in the job's zone on which nothing fires
	Calendars     []string        `json:"calendars,omitempty"` // names of the calendars that Exclude was made from
	Jitter        Duration        `json:"jitter,omitempty"`    // runs come due less than this after their instants
	Priority      int             `json:"priority"`            // 0 first … 9 last
	StartAt       *time.Time      `json:"start_at,omitempty"`
	EndAt         *time.Time      `json:"end_at,omitempty"`
	Tags          []string        `json:"tags,omitempty"`
	Source        string          `json:"source,omitempty"` // the file that owns the job
}

// Overlap says what happens to a due instant while an earlier run of the job is
// not finished.
type Overlap string

// The overlap policies.
const (
	OverlapSkip    Overlap = "skip"
	OverlapQueue   Overlap = "queue"
	OverlapReplace Overlap = "replace"
	OverlapAllow   Overlap = "allow"
)

// Concurrency limits how many runs of a job are in hand at once.
type Concurrency struct {
	// Key names a field of the arguments: the limit holds for each of its values
	// apart. Empty: for the job.
	Key   string `json:"key,omitempty"`
	Limit int    `json:"limit"`
}

// Misfire says what happens to instants that were missed by more than the grace.
type Misfire string

// The misfire policies.
const (
	MisfireLatest Misfire = "latest" // the newest missed one runs
	MisfireSkip   Misfire = "skip"   // none runs
	MisfireAll    Misfire = "all"    // each runs, oldest first, within the bounds
)

// Defaults of a job's definition.
const (
	DefaultQueue         = "default"
	DefaultTimeZone      = "UTC"
	DefaultTimeout       = Duration(time.Hour)
	DefaultCatchupWindow = Duration(24 * time.Hour)
	DefaultMaxCatchup    = 100
	DefaultPriority      = 5
	Priorities           = 10 // levels 0 … 9
)

// Kinds with a built-in executor.
const (
	KindExec = "exec"
	KindHTTP = "http"
)

// Changed names the fields in which two definitions differ, by their JSON names.
// JSON values are compared as values, not as text.
func (s JobSpec) Changed(to JobSpec) []string {
	var names []string
	a, b := reflect.ValueOf(s.comparable()), reflect.ValueOf(to.comparable())
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

func (s JobSpec) comparable() JobSpec {
	s.Target, s.Args = canonical(s.Target), canonical(s.Args)
	s.StartAt, s.EndAt = inUTC(s.StartAt), inUTC(s.EndAt)
	if len(s.Schedules) == 0 {
		s.Schedules = nil
	}
	s.Tags = slices.Clone(s.Tags)
	slices.Sort(s.Tags)
	if len(s.Tags) == 0 {
		s.Tags = nil
	}
	return s
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC().Truncate(time.Microsecond)
	return &u
}
