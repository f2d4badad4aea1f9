package domain

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestCheckStorable lists what PostgreSQL's jsonb takes and refuses.
func TestCheckStorable(t *testing.T) {
	const nul, half, number, digits = `\u0000`, "surrogate", "exponent", "digits"
	for _, c := range []struct{ raw, want string }{
		{``, ""},
		{`null`, ""},
		{`{"a":[1,-2.5e3,true,"é"]}`, ""},
		{`{`, "not valid JSON"},
		{`{} {}`, "not valid JSON"},
		{"\"\xff\"", "UTF-8"},
		{"{\"\xc3\":1}", "UTF-8"},

		{`"\u0000"`, nul},
		{`"a\u0000b"`, nul},
		{`{"a\u0000":1}`, nul},
		{`["x","\u0000"]`, nul},
		{`"\\\u0000"`, nul},
		{`"\\\\\u0000"`, nul},
		{`"\n\t\u0000"`, nul},
		{`"\u0041\u0000"`, nul},
		{`"\\u0000"`, ""},
		{`"\\\\u0000"`, ""},
		{`"u0000"`, ""},
		{`"\u0001\u00ff\uffff"`, ""},

		{`"\ud83d\ude00"`, ""},
		{`"\uD83D\uDE00 and \ud83d\ude00\u0041"`, ""},
		{`"\ud83d"`, half},
		{`"\ud83d "`, half},
		{`"\ude00"`, half},
		{`"\ude00\ud83d"`, half},
		{`"\ud83d\ud83d\ude00"`, half},
		{`"\ud83d\u0041"`, half},
		{`"\ud83d\\ude00"`, half},
		{`"\ud83dude00"`, half},
		{`"\ud83d\n"`, half},
		{`"\ud83d..de00"`, half},
		{`"\ud83d\nde00"`, half},
		{`"\ud83d.ude00"`, half},
		{`"\\ud83d"`, ""},
		{`"\ud83d\ufffd"`, half},
		{`{"\udfff":1}`, half},

		{`1e400`, ""},
		{`-1.5E-400`, ""},
		{`1e401`, number},
		{`1E-401`, number},
		{`0e99999999999999999999`, number},
		{`[1,{"a":-1e+131072}]`, number},
		{`"1e401"`, ""},
		{`{"1e401":"\"1e401"}`, ""},
		{`["\\",1e401]`, number},
		{strings.Repeat("9", 131072), ""},
		{strings.Repeat("9", 131073), digits},
		{strings.Repeat("9", 131072) + "e1", digits},
		{"0." + strings.Repeat("1", 16383), ""},
		{"-0." + strings.Repeat("1", 16384), digits},
		{"0." + strings.Repeat("1", 16383) + "e-1", digits},
	} {
		err := CheckStorable(json.RawMessage(c.raw))
		show := c.raw
		if len(show) > 60 {
			show = show[:60] + "…"
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", show, err, c.want)
		}
		if err != nil && len(err.Error()) > 200 {
			t.Errorf("%s: an error of %d bytes", show, len(err.Error()))
		}
	}
}

func TestStorableText(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 10, ""},
		{"plain", 10, "plain"},
		{"a\x00b", 10, "a\ufffdb"},
		{"a\xffb", 10, "a\ufffdb"},
		{"\xff\xfe\x00", 20, "\ufffd\ufffd"}, // bytes in a row that are no UTF-8 become one mark
		{"exactly 20 bytes lon", 20, "exactly 20 bytes lon"},
		{"one more than 20 byte", 20, "one more than  […]"},
		{"ééééééé", 13, "ééé […]"},
		{"€€€€€€€", 13, "€€ […]"},
		{"😀😀😀😀", 13, "😀 […]"},
		{"aé€😀aé€😀", 14, "aé€ […]"},
	} {
		got := storable(c.in, c.limit)
		if got != c.want {
			t.Errorf("%q to %d bytes: %q, want %q", c.in, c.limit, got, c.want)
		}
	}
	const alphabet = "ab\x00\xff\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"
	rng := seeded(t)
	for range 5000 {
		b := make([]byte, rng.IntN(60))
		for i := range b {
			b[i] = alphabet[rng.IntN(len(alphabet))]
		}
		limit := 8 + rng.IntN(40)
		got := storable(string(b), limit)
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || len(got) > limit {
			t.Fatalf("%q to %d bytes: %q, %d bytes", b, limit, got, len(got))
		}
	}
}

func TestStorableErrorIsBounded(t *testing.T) {
	long := strings.Repeat("€\x00\xff", 40_000)
	e := StorableError(RunError{Type: long, Message: long, Stack: long})
	for name, c := range map[string]struct {
		text  string
		limit int
	}{"type": {e.Type, 128}, "message": {e.Message, 4096}, "stack": {e.Stack, 16384}} {
		if len(c.text) > c.limit || len(c.text) < c.limit-10 || !utf8.ValidString(c.text) || strings.ContainsRune(c.text, 0) {
			t.Errorf("%s: %d bytes of %d", name, len(c.text), c.limit)
		}
	}
	short := RunError{Type: "exit", Message: "exit status 1", Stack: "main.go:1"}
	if StorableError(short) != short {
		t.Error("a short error is changed")
	}
}
