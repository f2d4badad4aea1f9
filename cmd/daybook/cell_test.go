package main

import (
	"testing"
	"time"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"as it is":                           "as it is",
		"\x1b[1;31mred\x1b[0m":               "red",
		"\x1b]0;title\x07text":               "text",
		"\x1b]8;;http://x\x1b\\link":         "link",
		"\x1bcreset":                         "reset",
		"\u009b31mred":                       "red",
		"two\nlines\tand a tab\r\n":          "two lines and a tab",
		"bell\a back\bspace \x00nul":         "bell backspace nul",
		"over\u202eride":                     "override",
		"bad \xff byte":                      "bad \ufffd byte",
		"end\x1b[":                           "end",
		"日本語 ünïcode":                        "日本語 ünïcode",
		"\x1b[38;2;1;2;3m\x1b[Ktrue colour ": "true colour",
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
	if got := plainText("a\n\x1b[31mb\tc\r\n"); got != "a\nb\tc\n" {
		t.Errorf("plainText: %q", got)
	}
	if got := short("ünïcode words", 8); got != "ünïcode…" {
		t.Errorf("short: %q", got)
	}
}

func TestRough(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 12345 * time.Microsecond: "12ms", 1234 * time.Millisecond: "1.2s", 61 * time.Second: "1m1s", 2 * time.Minute: "2m",
		time.Hour: "1h", 90*time.Minute + 20*time.Second: "1h30m", 24 * time.Hour: "24h", 100 * time.Hour: "100h", -3 * time.Second: "-3s",
	} {
		if got := rough(d); got != want {
			t.Errorf("rough(%s) = %s, want %s", d, got, want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{"report": "report", "--day=1": "--day=1", "a b": "'a b'", "": "''", "it's": `'it'\''s'`, "$x": "'$x'"} {
		if got := shellWord(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
