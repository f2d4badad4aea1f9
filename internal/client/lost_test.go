package client

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

// FuzzHear: the stream of events may hold anything; an event is heard as it was
// told.
func FuzzHear(f *testing.F) {
	event := func(typ, category string, version, era int) []byte {
		b, err := json.Marshal(projections.NewCloudEvent("default", eventstore.Recorded{Category: "run", StreamID: uuid.UUID{1}, Version: version, Era: era,
			Type: typ, SchemaVersion: 1, At: time.UnixMicro(1), Data: []byte(`{"job": "report", "key": "k"}`)}))
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	f.Add(event("RunScheduled", "run", 1, 1))
	f.Add(event("RunRetryScheduled", "run", 7, 3))
	for _, s := range []string{"", "{}", `{"type": ".v"}`, `{"source": "/"}`, `{"sequence": "99999999999"}`, `{"type": "daybook.run.x.v1", "source": "/daybook/d/70000"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		h, err := hear(body)
		if err != nil {
			return
		}
		if h.version < 1 || h.era < 1 || h.category == "" || h.typ == "" || h.at.IsZero() {
			t.Fatalf("%s is heard as %+v", body, h)
		}
		l := &Lost{versions: map[int]bool{}}
		l.hear(h, true)
		l.hear(h, true)
		if l.Events != 1 || l.Last != h.typ || !l.LastAt.Equal(h.at) {
			t.Fatalf("%s, heard twice, is %+v", body, l)
		}
	})
}
