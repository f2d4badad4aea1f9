package domain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

// The shorter way to write an event gives what encoding/json gives, in an order of
// its own.
func TestEventsAreWrittenAsEncodingJSONDoes(t *testing.T) {
	id, token := uuid.MustParse("5f0c1a52-7c1f-4b57-9d0e-0d8f6f1b2a33"), uuid.MustParse("c0ffee00-1234-4abc-8def-001122334455")
	at := time.Date(2026, 3, 8, 7, 31, 0, 0, time.UTC)
	elsewhere := at.In(time.FixedZone("", 3600))
	scheduled := RunScheduled{JobID: id, Job: "report", JobVersion: 3, Origin: OriginRequest, ScheduledAt: at, ReadyAt: at.Add(time.Microsecond), Queue: "q", Kind: "k", Priority: -1}
	with := func(change func(*RunScheduled)) RunScheduled {
		e := scheduled
		change(&e)
		return e
	}
	for _, e := range []Event{
		scheduled,
		RunScheduled{},
		with(func(e *RunScheduled) {
			e.Nominal, e.CatchUp, e.Key, e.RetryOf, e.Reason = "2026-03-08T02:31:00", true, "a key", &token, "asked"
		}),
		with(func(e *RunScheduled) { e.Key = "\u2028<&>\"" }),
		with(func(e *RunScheduled) { e.ReadyAt = elsewhere }),
		with(func(e *RunScheduled) { e.Args = json.RawMessage(`{"a":[1,"b\\n",null]}`) }),
		with(func(e *RunScheduled) { e.Args = json.RawMessage(` { "a" : "b c" } `) }),
		with(func(e *RunScheduled) { e.Args = json.RawMessage(`"<ä&>"`) }),
		with(func(e *RunScheduled) { e.Args = json.RawMessage{} }),
		RunClaimed{ClaimID: id, LeaseUntil: at, Dispatch: 2},
		RunClaimed{ClaimID: id, LeaseUntil: at.Add(123456 * time.Microsecond)},
		RunClaimed{ClaimID: id, LeaseUntil: elsewhere},
		RunClaimed{},
		RunStarted{ClaimID: id, Token: token, Worker: "host-1/4711", Attempt: 1, LeaseUntil: at, Deadline: &at},
		RunStarted{ClaimID: id, Token: token, Worker: "", Attempt: 12, LeaseUntil: at.Add(time.Nanosecond)},
		RunStarted{ClaimID: id, Token: token, Worker: `a"<b>&\ä`, LeaseUntil: at, Deadline: &elsewhere},
		RunSucceeded{ClaimID: id, Attempt: 3},
	} {
		have, err := EncodeEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if sorted(t, have) != sorted(t, want) {
			t.Errorf("%s: %s, want %s", e.EventType(), have, want)
		}
	}
	late := with(func(e *RunScheduled) { e.ReadyAt = at.AddDate(9000, 0, 0) })
	broken := with(func(e *RunScheduled) { e.Args = json.RawMessage(`{"a":}`) })
	for _, e := range []Event{late, broken, RunClaimed{LeaseUntil: at.AddDate(9000, 0, 0)}, RunStarted{LeaseUntil: at.AddDate(9000, 0, 0)}} {
		if b, err := EncodeEvent(e); err == nil {
			t.Errorf("%s that cannot be written: %s", e.EventType(), b)
		}
	}
}

func sorted(t *testing.T, data []byte) string {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Names in the order of jsonb: shorter ones first, then by their bytes.
func TestNamesOfEventsAreInTheOrderOfTheDatabase(t *testing.T) {
	id, at := uuid.New(), time.Date(2026, 3, 8, 7, 31, 0, 0, time.UTC)
	for _, e := range []Event{
		RunScheduled{Job: "report", ScheduledAt: at, ReadyAt: at, Nominal: "n", CatchUp: true, Key: "k", Args: json.RawMessage("1"), RetryOf: &id, Reason: "r"},
		RunClaimed{LeaseUntil: at}, RunStarted{LeaseUntil: at, Deadline: &at}, RunSucceeded{},
	} {
		data, err := EncodeEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range regexp.MustCompile(`"(\w+)":`).FindAllSubmatch(data, -1) {
			names = append(names, string(m[1]))
		}
		if !slices.IsSortedFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }) {
			t.Errorf("%s: names %v are not sorted", e.EventType(), names)
		}
	}
}

// Times are written by hand, as the library does.
func TestTimesAreWrittenAsTheLibraryDoes(t *testing.T) {
	at := time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC)
	times := []time.Time{at, {}, time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(2024, 2, 29, 9, 5, 3, 0, time.UTC)}
	for ns := time.Duration(1); ns < time.Second; ns *= 10 {
		times = append(times, at.Add(ns), at.Add(9*ns), at.Add(time.Second-ns), at.Add(-101*ns))
	}
	for i := range 2000 {
		times = append(times, at.Add(time.Duration(i)*(7*time.Hour+11*time.Minute+13*time.Second+17_019*time.Microsecond)))
	}
	for _, at := range times {
		have, ok := appendTime(nil, at)
		if want := `"` + at.Format(time.RFC3339Nano) + `"`; !ok || string(have) != want {
			t.Errorf("%s written as %s", want, have)
		}
	}
	for _, at := range []time.Time{time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), at.Local().In(time.FixedZone("", 60))} {
		if have, ok := appendTime(nil, at); ok {
			t.Errorf("%v written as %s", at, have)
		}
	}
}
