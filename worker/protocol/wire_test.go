package protocol

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

var (
	run   = uuid.MustParse("0199c0de-0000-8000-8000-000000000001")
	claim = uuid.MustParse("5f0c2b1e-9a51-4a0b-8c4e-9f2d3a4b5c6d")
	at    = At(time.Date(2026, 12, 1, 3, 4, 5, 678_900_000, time.FixedZone("", 3600)))
)

// The texts are the contract with workers in other languages.
func TestWireForm(t *testing.T) {
	half := 0.5
	for _, c := range []struct {
		v    any
		want string
	}{
		{
			Hint{run, claim, at},
			`{"run_id":"0199c0de-0000-8000-8000-000000000001","claim_id":"5f0c2b1e-9a51-4a0b-8c4e-9f2d3a4b5c6d","lease_until":"2026-12-01T02:04:05.678900Z"}`,
		},
		{
			PollRequest{WorkerID: "w", Lanes: []Lane{{"mail", "send"}}, Max: 3, Wait: Duration(20 * time.Second)},
			`{"worker_id":"w","lanes":[{"queue":"mail","kind":"send"}],"max":3,"wait":"20s"}`,
		},
		{
			StartRequest{WorkerID: "w", Items: []StartItem{{run, claim, claim}}},
			`{"worker_id":"w","items":[{"run_id":"` + run.String() + `","claim_id":"` + claim.String() + `","token":"` + claim.String() + `"}]}`,
		},
		{StartResult{Status: StatusRefused, Code: StaleClaim}, `{"status":"refused","code":"stale_claim"}`},
		{
			StartResult{
				Status: StatusStarted, RunID: run, Job: "j", JobID: claim, Kind: "send", Origin: "schedule", Args: json.RawMessage(`{"to":"a"}`),
				Attempt: 1, MaxAttempts: 5, ScheduledAt: at, Timeout: Duration(time.Hour), Deadline: Duration(time.Hour), LeaseRemaining: Duration(59_990 * time.Millisecond),
			},
			`{"status":"started","run_id":"` + run.String() + `","job":"j","job_id":"` + claim.String() + `","kind":"send","origin":"schedule","args":{"to":"a"},` +
				`"attempt":1,"max_attempts":5,"scheduled_at":"2026-12-01T02:04:05.678900Z","timeout":"1h0m0s","deadline":"1h0m0s","lease_remaining":"59.99s"}`,
		},
		{HeartbeatItem{run, claim, &half, "half way"}, `{"run_id":"` + run.String() + `","claim_id":"` + claim.String() + `","progress":0.5,"message":"half way"}`},
		{HeartbeatResult{LeaseRemaining: Duration(time.Minute)}, `{"lease_remaining":"1m0s","cancel":false}`},
		{CompleteItem{run, claim, json.RawMessage(`[1]`), &Output{Head: "a"}, Duration(time.Second)}, `{"run_id":"` + run.String() + `","claim_id":"` + claim.String() + `","result":[1],"output":{"head":"a"},"ran":"1s"}`},
		{
			FailItem{RunID: run, ClaimID: claim, Error: RunError{Type: "t", Message: "m"}, Retryable: true, RetryAfter: Duration(time.Second)},
			`{"run_id":"` + run.String() + `","claim_id":"` + claim.String() + `","error":{"type":"t","message":"m"},"retryable":true,"retry_after":"1s"}`,
		},
		{FailResult{Next: NextRetry, At: at}, `{"next":"retry","at":"2026-12-01T02:04:05.678900Z"}`},
		{Reply[Result]{Results: []Result{{Status: StatusRecorded}}}, `{"results":[{"status":"recorded"}]}`},
		{Reply[Result]{Error: &Error{CodeUnavailable, "no database"}}, `{"error":{"code":"unavailable","message":"no database"}}`},
		{PresenceReply{}, `{}`},
		{EnqueueItem{Job: "j", Key: "k", At: at}, `{"job":"j","key":"k","at":"2026-12-01T02:04:05.678900Z"}`},
	} {
		got, err := json.Marshal(c.v)
		if err != nil {
			t.Errorf("%T: %v", c.v, err)
			continue
		}
		if string(got) != c.want {
			t.Errorf("%T\n got %s\nwant %s", c.v, got, c.want)
		}
		back := reflect.New(reflect.TypeOf(c.v))
		if err := json.Unmarshal(got, back.Interface()); err != nil {
			t.Errorf("%T does not read its own form: %v", c.v, err)
			continue
		}
		again, _ := json.Marshal(back.Elem().Interface())
		if !bytes.Equal(got, again) {
			t.Errorf("%T changed by a round trip:\n%s\n%s", c.v, got, again)
		}
	}
}

func TestDispatchMessageRoundTrip(t *testing.T) {
	hints := []Hint{{run, claim, at}, {claim, run, at}}
	body := AppendHints(nil, hints)
	viaJSON, err := json.Marshal(hints)
	if err != nil || !bytes.Equal(body, viaJSON) {
		t.Fatalf("AppendHints and encoding/json disagree: %v\n%s\n%s", err, body, viaJSON)
	}
	got, err := DecodeHints(body)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].RunID != run || got[1].ClaimID != run || !got[0].LeaseUntil.Equal(at.Time) {
		t.Errorf("got %v", got)
	}
}

func TestDecodeHintsReadsWhatOthersWrite(t *testing.T) {
	got, err := DecodeHints([]byte(` [ {"claim_id":"` + claim.String() + `", "new_field":{"a":[1]}, "run_id":"` + run.String() + `","lease_until":"2026-12-01T03:04:05.6789\u002B01:00"} ] `))
	if err != nil {
		t.Fatal(err)
	}
	if !got[0].LeaseUntil.Equal(at.Time) {
		t.Errorf("lease_until %v, want %v", got[0].LeaseUntil, at)
	}
}

func TestDecodeHintsRefuses(t *testing.T) {
	ok := string(AppendHints(nil, []Hint{{run, claim, at}}))
	for name, body := range map[string]string{
		"empty":           "",
		"not JSON":        "hello",
		"object":          ok[1 : len(ok)-1],
		"no hints":        "[]",
		"null":            "null",
		"null hint":       "[null]",
		"trailing":        ok + "x",
		"cut":             ok[:len(ok)-2],
		"no claim":        `[{"run_id":"` + run.String() + `"}]`,
		"bad id":          `[{"run_id":"x","claim_id":"` + claim.String() + `"}]`,
		"bad time":        strings.Replace(ok, "2026-12-01T", "yesterday ", 1),
		"too many":        string(AppendHints(nil, make([]Hint, MaxHints+1))),
		"one lacks claim": string(AppendHints(nil, []Hint{{run, claim, at}, {RunID: run}})),
	} {
		if h, err := DecodeHints([]byte(body)); err == nil {
			t.Errorf("%s: accepted as %v", name, h)
		}
	}
}

func TestDurationsAndTimesRefuse(t *testing.T) {
	var d Duration
	for _, bad := range []string{`90`, `"90"`, `"soon"`, `{}`} {
		if err := json.Unmarshal([]byte(bad), &d); err == nil {
			t.Errorf("duration %s accepted", bad)
		}
	}
	var at Time
	for _, bad := range []string{`90`, `"tomorrow"`, `"2026-12-01"`, `[]`} {
		if err := json.Unmarshal([]byte(bad), &at); err == nil {
			t.Errorf("time %s accepted", bad)
		}
	}
	if _, err := json.Marshal(At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))); err == nil {
		t.Error("a year RFC 3339 cannot write was written")
	}
}

func TestOutputKeepsEveryByte(t *testing.T) {
	for name, c := range map[string]struct{ head, tail string }{
		"text":    {"hello\n", "wörld"},
		"nul":     {"a\x00b", ""},
		"binary":  {"\xff\xfe", "tail"},
		"nothing": {"", ""},
	} {
		o := NewOutput([]byte(c.head), []byte(c.tail), 0)
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(`\u0000`)) || bytes.Contains(b, []byte(`\ufffd`)) {
			t.Errorf("%s: cannot be stored or was changed: %s", name, b)
		}
		var back Output
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		head, tail, err := back.Bytes()
		if err != nil || string(head) != c.head || string(tail) != c.tail {
			t.Errorf("%s: got %q %q %v", name, head, tail, err)
		}
	}
}

func TestOutputCutInsideACharacterStaysText(t *testing.T) {
	all := []byte("aö…z")
	for cut := range len(all) {
		for from := cut; from <= len(all); from++ {
			o := NewOutput(all[:cut], all[from:], 1)
			if o.Encoding != "" {
				t.Errorf("cut %d..%d went as %s", cut, from, o.Encoding)
			}
			if int(o.Truncated)-1+len(o.Head)+len(o.Tail) != cut+len(all)-from {
				t.Errorf("cut %d..%d: bytes unaccounted for: %+v", cut, from, o)
			}
		}
	}
	if o := NewOutput([]byte("\x80\x80\x80\x80"), nil, 9); o.Encoding != EncodingBase64 {
		t.Errorf("binary taken for text: %+v", o)
	}
	if _, _, err := (Output{Encoding: "rot13"}).Bytes(); err == nil {
		t.Error("unknown encoding accepted")
	}
}

func FuzzDecodeHints(f *testing.F) {
	f.Add(AppendHints(nil, []Hint{{run, claim, at}}))
	f.Add([]byte(`[{}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		hints, err := DecodeHints(b)
		if err != nil {
			return
		}
		again, err := DecodeHints(AppendHints(nil, hints))
		if err != nil || len(again) != len(hints) || again[0].RunID != hints[0].RunID {
			t.Errorf("%s read as %v, then %v %v", b, hints, again, err)
		}
	})
}

func TestDecodeHintsBoundsTheirNumber(t *testing.T) {
	hints := make([]Hint, MaxHints+1)
	for i := range hints {
		hints[i] = Hint{RunID: uuid.New(), ClaimID: uuid.New()}
	}
	if got, err := DecodeHints(AppendHints(nil, hints[:MaxHints])); err != nil || len(got) != MaxHints {
		t.Errorf("%d hints of the most that are allowed, %v", len(got), err)
	}
	if got, err := DecodeHints(AppendHints(nil, hints)); err == nil {
		t.Errorf("%d hints are read, one more than is allowed", len(got))
	}
}
