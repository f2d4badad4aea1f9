package protocol

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

const timeLayout = "2006-01-02T15:04:05.000000Z"

// Time is an instant on the wire: RFC 3339, UTC, microseconds. Any RFC 3339 offset is accepted when reading.
type Time struct{ time.Time }

// At wraps t.
func At(t time.Time) Time { return Time{t} }

// MarshalText writes t in UTC with six digits of a second.
func (t Time) MarshalText() ([]byte, error) {
	u := t.UTC()
	if y := u.Year(); y < 0 || y > 9999 {
		return nil, fmt.Errorf("time: year %d cannot be written in RFC 3339", y)
	}
	return u.AppendFormat(make([]byte, 0, len(timeLayout)), timeLayout), nil
}

// MarshalJSON writes the text of MarshalText as a string.
func (t Time) MarshalJSON() ([]byte, error) {
	b, err := t.MarshalText()
	if err != nil {
		return nil, err
	}
	return append(append([]byte{'"'}, b...), '"'), nil
}

// UnmarshalText reads an RFC 3339 instant.
func (t *Time) UnmarshalText(b []byte) error {
	v, err := time.Parse(time.RFC3339, string(b))
	if err != nil {
		return fmt.Errorf("time %.40q: want RFC 3339, as in %q", b, timeLayout)
	}
	t.Time = v.UTC()
	return nil
}

// UnmarshalJSON reads an RFC 3339 string; null leaves t alone. (The one of the embedded type takes no escapes.)
func (t *Time) UnmarshalJSON(b []byte) error {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("time %.40s: want a string", b)
	}
	if s == nil {
		return nil
	}
	return t.UnmarshalText([]byte(*s))
}

// Duration is a duration on the wire: a Go string such as "1m30s".
type Duration time.Duration

// Std is d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String is the wire form of d.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the Go form of d.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the Go form of a duration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("duration %.40q: want a Go duration, as in \"90s\"", b)
	}
	*d = Duration(v)
	return nil
}

// EncodingBase64 marks an Output whose head and tail are not text.
const EncodingBase64 = "base64"

// Output is what a run wrote: the beginning and the end of it.
type Output struct {
	Head      string `json:"head,omitempty"`
	Tail      string `json:"tail,omitempty"`
	Truncated int64  `json:"truncated,omitempty"` // bytes left out between head and tail
	Encoding  string `json:"encoding,omitempty"`  // absent: head and tail are text; EncodingBase64
}

// NewOutput makes the wire form of head and tail, with truncated bytes left out between them.
// Bytes that are not UTF-8 text, or that hold a NUL, which PostgreSQL cannot store as text, go as base64. A character
// that the cut divided is counted as truncated instead.
func NewOutput(head, tail []byte, truncated int64) Output {
	if truncated > 0 {
		h, t := trimEnd(head), trimStart(tail)
		truncated += int64(len(head) - len(h) + len(tail) - len(t))
		head, tail = h, t
	}
	if isText(head) && isText(tail) {
		return Output{Head: string(head), Tail: string(tail), Truncated: truncated}
	}
	return Output{
		Head:      base64.StdEncoding.EncodeToString(head),
		Tail:      base64.StdEncoding.EncodeToString(tail),
		Truncated: truncated,
		Encoding:  EncodingBase64,
	}
}

// Bytes are head and tail as they were written.
func (o Output) Bytes() (head, tail []byte, err error) {
	switch o.Encoding {
	case "":
		return []byte(o.Head), []byte(o.Tail), nil
	case EncodingBase64:
		if head, err = base64.StdEncoding.DecodeString(o.Head); err != nil {
			return nil, nil, fmt.Errorf("output head: %w", err)
		}
		if tail, err = base64.StdEncoding.DecodeString(o.Tail); err != nil {
			return nil, nil, fmt.Errorf("output tail: %w", err)
		}
		return head, tail, nil
	}
	return nil, nil, fmt.Errorf("output encoding %q: want none or %q", o.Encoding, EncodingBase64)
}

func isText(b []byte) bool { return utf8.Valid(b) && !strings.Contains(string(b), "\x00") }

// trimEnd drops an incomplete character at the end of b.
func trimEnd(b []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax, len(b)); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			return b
		}
	}
	return b
}

// trimStart drops the rest of a divided character at the start of b.
func trimStart(b []byte) []byte {
	for i := range min(utf8.UTFMax-1, len(b)) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
