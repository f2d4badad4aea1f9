package projections

import (
	"encoding/json"
	"reflect"
	"testing"
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
