package protocol

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
)

// hot are messages that the fast paths write and read, and some that they must leave to encoding/json.
func hot() []any {
	started := StartResult{
		Status: StatusStarted, RunID: run, Job: "nightly", JobID: claim, Kind: "send", Origin: "schedule", Args: json.RawMessage(`{"to":"ä \" \\ \u0041","n":[1,{}]}`),
		Target: json.RawMessage(`{"argv":["a"]}`), Attempt: 2, MaxAttempts: 5, ScheduledAt: at, Timeout: Duration(time.Hour), Deadline: Duration(59 * time.Minute),
		LeaseRemaining: Duration(59_990 * time.Millisecond), Traceparent: "00-ab-cd-01",
	}
	odd := started
	odd.Job, odd.Args = "jöb \"quoted\"", json.RawMessage("{ \"a\" : \"<b>&\" }")
	return []any{
		StartRequest{WorkerID: "w-1", Items: []StartItem{{run, claim, run}, {claim, run, claim}}},
		StartRequest{WorkerID: "wörker", Items: []StartItem{{run, claim, run}}},
		StartRequest{WorkerID: "none", Items: []StartItem{}},
		StartRequest{WorkerID: "nil"},
		CompleteRequest{Items: []CompleteItem{{RunID: run, ClaimID: claim}, {RunID: run, ClaimID: claim, Result: json.RawMessage(`{"a":[1,2]}`), Ran: Duration(time.Millisecond)}}},
		CompleteRequest{Items: []CompleteItem{{RunID: run, ClaimID: claim, Output: &Output{Head: "x"}}}},
		Reply[StartResult]{Results: []StartResult{started, started}},
		Reply[StartResult]{Results: []StartResult{odd, started}},
		Reply[StartResult]{Results: []StartResult{{Status: StatusRefused, Code: StaleClaim}, started}},
		Reply[StartResult]{Results: []StartResult{{Error: &Error{CodeInternal, "m"}}}},
		Reply[StartResult]{Error: &Error{CodeUnavailable, "no database"}},
		Reply[Result]{Results: []Result{{Status: StatusRecorded}, {Status: StatusRefused, Code: Terminal}}},
		Reply[Result]{},
		Reply[HeartbeatResult]{Results: []HeartbeatResult{{LeaseRemaining: Duration(time.Minute)}}},
		PresenceReply{},
	}
}

// general is what Encode promises to write, by encoding/json alone.
func general(t *testing.T, v any) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(buf.Bytes())
}

func TestEncodeWritesWhatEncodingJSONDoes(t *testing.T) {
	for _, v := range hot() {
		want := general(t, v)
		got, err := Encode(v)
		var compact bytes.Buffer
		if err != nil || json.Compact(&compact, got) != nil || !bytes.Equal(compact.Bytes(), want) {
			t.Errorf("%T %v\n got %s\nwant %s", v, err, got, want)
		}
		back := reflect.New(reflect.TypeOf(v))
		if err := Decode(got, back.Interface()); err != nil {
			t.Fatal(err)
		}
		slow := reflect.New(reflect.TypeOf(v))
		if err := json.Unmarshal(got, slow.Interface()); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back.Interface(), slow.Interface()) {
			t.Errorf("%s\nread as %+v\n    not %+v", got, back.Elem(), slow.Elem())
		}
	}
	if b, err := Encode(CompleteRequest{Items: []CompleteItem{{Result: json.RawMessage(`{"a":`)}}}); err == nil {
		t.Errorf("invalid JSON was passed on: %s", b)
	}
}

// What is the same in the item before is taken from it, and only that.
func TestItemsDoNotTakeWhatIsNotTheSame(t *testing.T) {
	one := StartResult{Status: StatusStarted, RunID: run, Job: "nightly", JobID: claim, Kind: "send", Origin: "schedule", Timeout: Duration(time.Hour)}
	longer, shorter, other, none := one, one, one, one
	longer.Job, longer.Kind, longer.Origin = "nightly-2", "sender", "schedules"
	shorter.Job, shorter.Kind, shorter.Origin, shorter.Timeout = "night", "sen", "s", Duration(time.Minute)
	other.Job, other.Kind, other.Origin, other.ScheduledAt = "nightlx", "sene", "schedulf", Time{at.Add(time.Microsecond).UTC()}
	none.Job, none.Kind, none.Origin, none.Timeout = "", "", "", 0
	want := Reply[StartResult]{Results: []StartResult{one, longer, one, shorter, one, other, one, none, one, one, none}}
	body, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Reply[StartResult]
	if !got.decodeJSON(body) || !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nread as %+v\n    not %+v", body, got, want)
	}
	results := Reply[Result]{Results: []Result{{Status: StatusRecorded}, {Status: StatusRefused, Code: Terminal}, {Status: StatusRefused, Code: StaleClaim}, {Status: StatusRecorded}}}
	body, _ = Encode(results)
	var back Reply[Result]
	if !back.decodeJSON(body) || !reflect.DeepEqual(back, results) {
		t.Errorf("%s\nread as %+v", body, back)
	}
}

func TestPlainDurationsAreTheLibrarys(t *testing.T) {
	texts := []string{"0s", "1m0s", "1h0m0s", "59.99s", "1.5s", "0.000000001s", "0.123456789s", "999999h0m0s", "1h", "5m", "1h30m", "90s", "1.s",
		// These are left to it, or refused by both.
		"", "s", "1", "-1s", "+1s", "1ms", "1.5ms", "1us", "1m0s1h", "1s1s", "1.5h", ".5s", "9999999h", "99999999999999h", "1e3s", "1 s", "1h1", "1.1234567891s", "1d", "1sm", "1..5s"}
	for i := range 1000 {
		texts = append(texts, (time.Duration(i) * 7_919 * time.Millisecond).String(), (time.Duration(i) * 7_919_345_677).String())
	}
	read := 0
	for _, text := range texts {
		got, ok := value(`"` + text + `"`).plainDuration()
		want, err := time.ParseDuration(text)
		if ok && (err != nil || got.Std() != want) {
			t.Errorf("%q read as %v; the library says %v, %v", text, got.Std(), want, err)
		}
		if ok {
			read++
		}
	}
	if read < 1500 {
		t.Errorf("%d of %d texts are read without the library", read, len(texts))
	}
}

// The usual messages take the fast path, or there would be no point.
func TestUsualMessagesTakeTheFastPath(t *testing.T) {
	var start StartRequest
	var started Reply[StartResult]
	var complete CompleteRequest
	var completed Reply[Result]
	for i, d := range map[int]decoder{0: &start, 4: &complete, 6: &started, 11: &completed} {
		v := hot()[i]
		b, ok := v.(appender).appendJSON(nil)
		if !ok || !d.decodeJSON(b) {
			t.Errorf("%T: written %v, read %v", v, ok, d.decodeJSON(b))
		}
	}
	if _, ok := decodeList[Hint](AppendHints(nil, []Hint{{run, claim, at}})); !ok {
		t.Error("hints are not read")
	}
}

func FuzzDecode(f *testing.F) {
	for _, v := range hot() {
		b, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		var spaced bytes.Buffer
		if json.Indent(&spaced, b, "", " ") == nil {
			f.Add(spaced.Bytes())
		}
	}
	f.Add([]byte(`{"items":[{"RUN_ID":"` + uuid.NewString() + `"}]}`))
	f.Add([]byte(`{"results":[{"attempt":01}]}`))
	f.Add([]byte(`{"results":[{"args":{]}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzOne[StartRequest](t, b)
		fuzzOne[CompleteRequest](t, b)
		fuzzOne[Reply[StartResult]](t, b)
		fuzzOne[Reply[Result]](t, b)
		fuzzOne[Reply[HeartbeatResult]](t, b)
	})
}

// fuzzOne checks that what the fast path accepts, encoding/json accepts with the same result.
func fuzzOne[T any](t *testing.T, b []byte) {
	var fast, slow T
	if !any(&fast).(decoder).decodeJSON(b) {
		if !reflect.ValueOf(fast).IsZero() {
			t.Errorf("%T changed by %q, which was not taken", fast, b)
		}
		return
	}
	if err := json.Unmarshal(b, &slow); err != nil {
		t.Errorf("%T took %q: %v", fast, b, err)
	} else if !reflect.DeepEqual(fast, slow) {
		t.Errorf("%T: %q\nread as %+v\n    not %+v", fast, b, fast, slow)
	}
}

func BenchmarkStartReply(b *testing.B) {
	var r Reply[StartResult]
	for range 100 {
		r.Results = append(r.Results, hot()[6].(Reply[StartResult]).Results[0])
	}
	body, err := Encode(r)
	if err != nil {
		b.Fatal(err)
	}
	perItem := func(b *testing.B) { b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/item") }
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			_, _ = Encode(r)
		}
		perItem(b)
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			var x Reply[StartResult]
			_ = Decode(body, &x)
		}
		perItem(b)
	})
	b.Run("decode/general", func(b *testing.B) {
		for b.Loop() {
			var x Reply[StartResult]
			_ = json.Unmarshal(body, &x)
		}
		perItem(b)
	})
}
