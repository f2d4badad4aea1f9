package executor

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	headLimit = 32 << 10
	tailLimit = 32 << 10
)

// Output is what a command wrote to standard output and standard error, in the order of its writes. Of more than
// 64 KiB the first and the last 32 KiB are kept. The text is valid UTF-8 without NUL, so that it can be stored and
// sent anywhere: each other byte or NUL is replaced by U+FFFD, and where that makes a part longer than 32 KiB the
// part is cut towards the middle.
type Output struct {
	Head       string `json:"head"`
	Tail       string `json:"tail,omitempty"`
	TotalBytes int64  `json:"total_bytes"` // what the command wrote
	Truncated  bool   `json:"truncated,omitempty"`
}

// String is the whole output for a person, saying where something is missing.
func (o Output) String() string {
	if !o.Truncated {
		return o.Head + o.Tail
	}
	return fmt.Sprintf("%s\n[… of %d bytes, the middle is not kept …]\n%s", o.Head, o.TotalBytes, o.Tail)
}

// capture is an io.Writer that keeps the head and the tail of what passes. Its memory is bounded by the two limits.
type capture struct {
	head  []byte
	ring  []byte // grows to tailLimit, then start moves
	start int    // index of the oldest byte in a full ring
	total int64
}

func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	if room := headLimit - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > tailLimit {
		p = p[len(p)-tailLimit:]
	}
	if room := tailLimit - len(c.ring); room > 0 {
		k := min(room, len(p))
		c.ring = append(c.ring, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(c.ring[c.start:], p)
		c.start = (c.start + k) % tailLimit
		p = p[k:]
	}
	return n, nil
}

func (c *capture) output() Output {
	o := Output{TotalBytes: c.total, Truncated: c.total > headLimit+tailLimit}
	tail := string(c.ring[c.start:]) + string(c.ring[:c.start])
	if !o.Truncated {
		all := storable(string(c.head) + tail)
		o.Head = cutEnd(all, headLimit)
		rest := all[len(o.Head):]
		o.Tail = cutStart(rest, tailLimit)
		o.Truncated = len(o.Tail) < len(rest)
		return o
	}
	o.Head = cutEnd(storable(trimSplitEnd(string(c.head))), headLimit)
	o.Tail = cutStart(storable(trimSplitStart(tail)), tailLimit)
	return o
}

// lastLine is the last line of the output that says something, for an error message: at most 200 bytes.
func (o Output) lastLine() string {
	text := strings.TrimRight(o.Head+o.Tail, " \t\r\n")
	if i := strings.LastIndexAny(text, "\r\n"); i >= 0 {
		text = text[i+1:]
	}
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text))
	if len(text) > 200 {
		text = cutEnd(text, 200) + "…"
	}
	return text
}

func storable(s string) string {
	if !utf8.ValidString(s) {
		var b strings.Builder
		for _, r := range s { // one replacement for each bad byte, not for each run of them
			b.WriteRune(r)
		}
		s = b.String()
	}
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}

// trimSplitEnd drops the beginning of a character whose rest was not kept.
func trimSplitEnd(s string) string {
	for i := 1; i < utf8.UTFMax && i <= len(s); i++ {
		if b := s[len(s)-i]; utf8.RuneStart(b) {
			if !utf8.FullRuneInString(s[len(s)-i:]) {
				return s[:len(s)-i]
			}
			break
		}
	}
	return s
}

// trimSplitStart drops the end of a character whose beginning was not kept.
func trimSplitStart(s string) string {
	for i := 0; i < utf8.UTFMax-1 && i < len(s); i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s
}

// cutEnd and cutStart keep at most n bytes of valid UTF-8 from the start or from the end, whole characters only.
func cutEnd(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func cutStart(s string, n int) string {
	if len(s) <= n {
		return s
	}
	i := len(s) - n
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}
