package protocol

import (
	"strings"
	"testing"
	"time"
)

// FuzzSubjects: a token that is accepted is one token of a subject, whatever is
// made of it, and no two lanes share a consumer. One that is not accepted is
// named in the error, in a line of bounded length.
func FuzzSubjects(f *testing.F) {
	for _, s := range []string{"default", "a_b-9", "", "*", ">", "a.b", "A", "a b", "é", "a\n", strings.Repeat("a", 64), strings.Repeat("a", 65), "$JS", "a+b"} {
		f.Add(s, "exec", int64(0))
		f.Add("q", s, int64(1_700_000_000_000))
	}
	f.Fuzz(func(t *testing.T, queue, kind string, milli int64) {
		for _, token := range []string{queue, kind} {
			if err := ValidToken(token); err != nil {
				if len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\n\r\x1b\x00") {
					t.Fatalf("%q is refused with %q", token, err)
				}
				return
			}
		}
		for _, subject := range []string{DispatchSubject(queue, kind), WakeSubject(queue), RPCSubject(kind)} {
			if strings.ContainsAny(subject, "*> \t\r\n\x00") || strings.Contains(subject, "..") || strings.HasSuffix(subject, ".") || len(subject) > 255 {
				t.Fatalf("subject %q", subject)
			}
		}
		if got := strings.Split(DispatchSubject(queue, kind), "."); len(got) != 5 || got[3] != queue || got[4] != kind {
			t.Fatalf("subject %q of lane %s/%s", DispatchSubject(queue, kind), queue, kind)
		}
		name := ConsumerName(queue, kind, time.UnixMilli(milli))
		if got := strings.Split(name, "+"); len(got) != 3 || got[0] != queue || got[1] != kind || strings.ContainsAny(name, ".*>/\\ ") {
			t.Fatalf("consumer %q of lane %s/%s", name, queue, kind)
		}
	})
}
