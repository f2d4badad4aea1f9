package projections

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/worker/protocol"
)

// FuzzRunCursor: whatever a caller gives as a cursor and filters, the list is
// prepared or the error names the field. A cursor that the list returned goes on
// below where it ended, and with other filters it is refused.
func FuzzRunCursor(f *testing.F) {
	for _, s := range []string{"", "e30", "!!", "eyJ2IjoxfQ", "eyJ2IjoxLCJhZnRlciI6IjAwMDAwMDAwLTAwMDAtMDAwMC0wMDAwLTAwMDAwMDAwMDAwMCIsImZpbHRlcnMiOiIifQ"} {
		f.Add(s, "report", "failed", "text", int64(0), int64(0), 50)
	}
	f.Add("", "", "nonsense", "\x00", int64(-1), int64(1)<<62, -1)
	f.Fuzz(func(t *testing.T, cursor, job, state, text string, since, until int64, limit int) {
		filter := RunFilter{Job: job, States: []domain.State{domain.State(state)}, Text: text, Limit: limit, Cursor: cursor}
		if state == "" {
			filter.States = nil
		}
		if since != 0 {
			filter.Since = time.UnixMicro(since % (1 << 55)).UTC()
		}
		if until != 0 {
			filter.Until = time.UnixMicro(until % (1 << 55)).UTC()
		}
		var refused *FilterError
		l, err := filter.prepare()
		if err != nil {
			if !errors.As(err, &refused) || !strings.Contains(" limit state since until cursor ", " "+refused.Field+" ") {
				t.Fatalf("%#v: %v", filter, err)
			}
			return
		}
		if l.Limit < 1 || l.Limit > MaxPage || !l.since.Before(l.until) {
			t.Fatalf("%#v is prepared as %#v", filter, l)
		}
		id := uuid.UUID{0, 1, 2, 3, 4, 5, 6, 7}
		next, err := l.cursorAfter(id)
		if err != nil {
			t.Fatal(err)
		}
		filter.Cursor = next
		on, err := filter.prepare()
		if err != nil || compareIDs(on.below, id) > 0 {
			t.Fatalf("%#v goes on below %s: %v", filter, on.below, err)
		}
		filter.Job += "x"
		if _, err := filter.prepare(); !errors.As(err, &refused) || refused.Field != "cursor" {
			t.Fatalf("a cursor of another list: %v", err)
		}
	})
}

// FuzzCloudEvent: whatever type a newer binary has stored, the event has a
// subject of one token and a body that reads the same.
func FuzzCloudEvent(f *testing.F) {
	f.Add("RunRetryScheduled", "run", []byte(`{"a": 1}`), 3, 1)
	f.Add("JobPaused", "job", []byte(`{}`), 1, 32000)
	f.Add("Run", "run", []byte(`null`), 1, 1)
	f.Fuzz(func(t *testing.T, typ, category string, data []byte, version, era int) {
		if !json.Valid(data) || category != "run" && category != "job" || version < 1 || era < 1 {
			return // the database holds nothing else
		}
		for _, c := range typ {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
				return // no event is called so
			}
		}
		if typ == "" || len(typ) > 60 {
			return
		}
		r := eventstore.Recorded{Category: domain.Category(category), StreamID: uuid.UUID{1}, Version: version, Era: era, Type: typ, SchemaVersion: 1, At: time.Unix(0, 0), Data: data}
		e := NewCloudEvent("default", r)
		subject := protocol.EventSubject(partition(r.StreamID.String(), protocol.EventPartitions), string(r.Category)+"-"+eventToken(r.Category, r.Type))
		if strings.Count(subject, ".") != 4 || strings.ContainsAny(subject, "*> \t\n") || strings.HasSuffix(subject, ".") {
			t.Fatalf("%s: subject %q", typ, subject)
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var again CloudEvent
		if err := json.Unmarshal(b, &again); err != nil || again.ID != e.ID || again.Source != e.Source || again.Type != e.Type || again.Sequence != e.Sequence {
			t.Fatalf("%s is read as %+v, %v", b, again, err)
		}
	})
}
