package executor

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func captured(t *testing.T, text string, chunk int) Output {
	t.Helper()
	var c capture
	for r := strings.NewReader(text); r.Len() > 0; {
		if _, err := io.CopyN(&c, r, int64(min(chunk, r.Len()))); err != nil {
			t.Fatal(err)
		}
	}
	if cap(c.head) > 2*headLimit || cap(c.ring) > 2*tailLimit {
		t.Fatalf("holds %d + %d bytes of %d", cap(c.head), cap(c.ring), len(text))
	}
	return c.output()
}

func TestOutputKeepsHeadAndTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, headLimit - 1, headLimit, headLimit + 1, headLimit + tailLimit - 1,
		headLimit + tailLimit, headLimit + tailLimit + 1, 3*tailLimit + 7, 10 * tailLimit} {
		text := make([]byte, size)
		for i := range text {
			text[i] = 'a' + byte(rng.IntN(26))
		}
		for _, chunk := range []int{1 + rng.IntN(100), 4096, 32 << 10, 1 << 20} {
			o := captured(t, string(text), chunk)
			if o.TotalBytes != int64(size) {
				t.Fatalf("%d bytes by %d: total %d", size, chunk, o.TotalBytes)
			}
			if size <= headLimit+tailLimit {
				if o.Truncated || o.Head+o.Tail != string(text) || len(o.Head) > headLimit {
					t.Fatalf("%d bytes by %d: not the whole text (head %d, tail %d, truncated %v)", size, chunk, len(o.Head), len(o.Tail), o.Truncated)
				}
				continue
			}
			if !o.Truncated || o.Head != string(text[:headLimit]) || o.Tail != string(text[size-tailLimit:]) {
				t.Fatalf("%d bytes by %d: not the first and the last 32 KiB", size, chunk)
			}
		}
	}
}

func TestOutputIsStorable(t *testing.T) {
	binary := make([]byte, 200<<10)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range binary {
		binary[i] = byte(rng.Uint32())
	}
	for name, text := range map[string]string{
		"NUL":            "a\x00b",
		"bad UTF-8":      "caf\xe9 \xff\xfe",
		"binary":         string(binary),
		"binary, 64 KiB": string(binary[:64<<10]),
		"all bad":        strings.Repeat("\xff", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			o := captured(t, text, 1000)
			for _, part := range []string{o.Head, o.Tail} {
				if !utf8.ValidString(part) || strings.ContainsRune(part, 0) {
					t.Fatalf("not storable: %.40q", part)
				}
				if len(part) > 32<<10 {
					t.Fatalf("a part has %d bytes", len(part))
				}
			}
			if o.TotalBytes != int64(len(text)) {
				t.Fatalf("total %d, want %d", o.TotalBytes, len(text))
			}
		})
	}
	if o := captured(t, "a\x00b\xffc\xff\xff", 1); o.Head != "a\uFFFDb\uFFFDc\uFFFD\uFFFD" || o.Truncated {
		t.Fatalf("got %+v", o)
	}
}

func TestOutputDoesNotSplitCharacters(t *testing.T) {
	for shift := range 4 {
		for _, n := range []int{20_000, 16 << 10, 15_000, 100_000} { // around the limits, and far above
			text := strings.Repeat("x", shift) + strings.Repeat("\U0001F600", n)
			o := captured(t, text, 999)
			if both := o.Head + o.Tail; strings.Contains(both, "\uFFFD") || !utf8.ValidString(both) {
				t.Fatalf("shift %d, %d characters: a character was split", shift, n)
			}
			if !o.Truncated && o.Head+o.Tail != text {
				t.Fatalf("shift %d, %d characters: not the whole text", shift, n)
			}
			if !strings.HasPrefix(text, o.Head) || !strings.HasSuffix(text, o.Tail) {
				t.Fatalf("shift %d, %d characters: not its beginning and end", shift, n)
			}
		}
	}
}

func TestOutputOfUnlimitedStreamNeedsBoundedMemory(t *testing.T) {
	var c capture
	block := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	perWrite := testing.AllocsPerRun(1000, func() { _, _ = c.Write(block) })
	if perWrite >= 1 {
		t.Fatalf("%v allocations a write", perWrite)
	}
}

func TestLastLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"\n \n":                                "",
		"one\ntwo\n\n":                         "two",
		"50%\r100%\rdone\r\n":                  "done",
		"\x1b[31merror\x1b[0m: no":             "[31merror [0m: no",
		strings.Repeat("é", 150):               strings.Repeat("é", 100) + "…",
		"start\n" + strings.Repeat("x", 70000): strings.Repeat("x", 200) + "…",
	} {
		if got := captured(t, text, 4096).lastLine(); got != want {
			t.Errorf("%.30q: last line %q, want %q", text, got, want)
		}
	}
}
