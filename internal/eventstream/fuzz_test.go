package eventstream

import (
	"encoding/base64"
	"testing"

	"github.com/daybookhq/daybook/eventstore"
)

// FuzzCursor: whatever a caller gives as a place, it is refused, or it is one
// that can be written and read again.
func FuzzCursor(f *testing.F) {
	for _, c := range []eventstore.Cursor{{}, {Era: 1, Prev: "1:1:"}, {Era: 2, Prev: "10:20:11,12", Next: "10:30:", Position: 9}} {
		f.Add(eventstore.Cursor.Encode(c))
	}
	for _, s := range []string{"", "e30", `{"era":-1}`, `{"era":1,"prev":"x"}`, `{"era":1e9}`, `{"era":1,"prev":"1:1:","scan":{}}`} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(s)))
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := eventstore.ParseCursor(text)
		if err != nil {
			return
		}
		again, err := eventstore.ParseCursor(eventstore.Cursor.Encode(c))
		if err != nil || eventstore.Cursor.Encode(again) != eventstore.Cursor.Encode(c) {
			t.Fatalf("%q is %+v, then %+v, %v", text, c, again, err)
		}
	})
}
