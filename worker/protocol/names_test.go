package protocol

import (
	"strings"
	"testing"
	"time"
)

func TestConsumerNamesDifferByLaneAndIncarnation(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	name := ConsumerName("mail", "send-email", at)
	if want := "mail+send-email+mywpiww0"; name != want {
		t.Errorf("ConsumerName = %q, want %q", name, want)
	}
	seen := map[string]string{}
	for _, c := range []struct {
		queue, kind string
		at          time.Time
	}{{"a", "b-c", at}, {"a-b", "c", at}, {"a", "b", at}, {"a", "b", at.Add(time.Millisecond)}} {
		n := ConsumerName(c.queue, c.kind, c.at)
		if other, ok := seen[n]; ok {
			t.Errorf("%v and %s share the name %q", c, other, n)
		}
		seen[n] = c.queue + "/" + c.kind
	}
	long := strings.Repeat("x", MaxToken)
	if n := len(ConsumerName(long, long, at)); n > 255 {
		t.Errorf("longest name is %d bytes, JetStream allows 255", n)
	}
}

func TestConsumerNameIgnoresZone(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	if a, b := ConsumerName("q", "k", at.UTC()), ConsumerName("q", "k", at.In(time.FixedZone("x", 3600))); a != b {
		t.Errorf("%q != %q", a, b)
	}
}

func TestSubjects(t *testing.T) {
	for got, want := range map[string]string{
		DispatchSubject("mail", "send-email"): "daybook.v1.dispatch.mail.send-email",
		RPCSubject("start"):                   "daybook.v1.rpc.start",
		WakeSubject("mail"):                   "daybook.v1.wake.mail",
		EventSubject(15, "run-claimed"):       "daybook.v1.event.15.run-claimed",
		HTTPPath("start"):                     "/v1/work/start",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestValidToken(t *testing.T) {
	for _, ok := range []string{"a", "0", "send-email", "a_b", strings.Repeat("z", 64)} {
		if err := ValidToken(ok); err != nil {
			t.Errorf("ValidToken(%q) = %v", ok, err)
		}
	}
	for _, bad := range []string{"", "A", "a.b", "a*", "a>", "a b", "a+b", "ä", "a\n", strings.Repeat("z", 65)} {
		if err := ValidToken(bad); err == nil {
			t.Errorf("ValidToken(%q) accepted it", bad)
		}
	}
}
