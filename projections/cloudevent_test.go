package projections

import (
	"encoding/json"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
)

func TestCloudEventAsJSON(t *testing.T) {
	for _, text := range []string{"", "plain", `quo"ted\`, "line\nbreak \x00\x1f\x7f", "Zoë 🗓 \u2028", "not \xff UTF-8", "<&>"} {
		for _, data := range []string{"", `{"a": [1, "x"], "b": {"c": null}}`} {
			e := CloudEvent{SpecVersion: "1.0", ID: "a:1", Source: text, Type: "t", Subject: text, Time: "then", DataContentType: "application/json",
				PartitionKey: text, Sequence: "1", Actor: text, CorrelationID: text, CausationID: text, Omitted: text}
			if data != "" {
				e.Data = json.RawMessage(data)
			}
			want, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if have := e.appendJSON(nil); !sameJSON(t, have, want) {
				t.Errorf("%q:\n%s, want\n%s", text, have, want)
			}
		}
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Errorf("%s: %v", a, err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Error(err)
	}
	return reflect.DeepEqual(x, y)
}

// What is kept from one event to the next must not end up in another that differs.
func TestManyCloudEventsAreAsEachAlone(t *testing.T) {
	all := newCloudEvents("test")
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	for i := range 200 {
		r := eventstore.Recorded{
			Category: domain.CategoryRun, StreamID: domain.KeyID(domain.JobID("j"), strconv.Itoa(i/3), at), Version: 1 + i%3, Era: 1 + i%7/6,
			Type: []string{"RunScheduled", "RunClaimed", "JobPaused"}[i%3], SchemaVersion: 1 + i%5/4, At: at.Add(time.Duration(i/4) * time.Microsecond), Actor: "a",
			Data: []byte(`{}`),
		}
		if r.Type == "JobPaused" {
			r.Category = domain.CategoryJob
		}
		if got, want := all.event(r), NewCloudEvent("test", r); !reflect.DeepEqual(got, want) {
			t.Fatalf("event %d:\n%+v\n%+v", i, got, want)
		}
	}
}
