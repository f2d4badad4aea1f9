package protocol

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// value is the text of one JSON value. The scanner finds where values end; it validates only what it hands out, and
// everything it does not expect is left to encoding/json, which decides what is an error.
type value []byte

// text is the value of a string of printable ASCII without escapes.
func (v value) text() (string, bool) {
	if len(v) < 2 || v[0] != '"' {
		return "", false
	}
	for _, c := range v[1 : len(v)-1] {
		if c < 0x20 || c > 0x7e || c == '\\' {
			return "", false
		}
	}
	return string(v[1 : len(v)-1]), true
}

// textAs is text, of the given type; the one from before, if it is the same.
func textAs[S ~string](v value, before S) (S, bool) {
	if n := len(before); n > 0 && len(v) == n+2 && v[0] == '"' && string(v[1:n+1]) == string(before) {
		return before, true
	}
	s, ok := v.text()
	return S(s), ok
}

// id is a UUID in its usual form of 36 characters.
func (v value) id() (uuid.UUID, bool) {
	if len(v) != 38 || v[0] != '"' {
		return uuid.Nil, false
	}
	id, err := uuid.ParseBytes(v[1:37])
	return id, err == nil
}

func (v value) time() (Time, bool) {
	if len(v) < 2 || v[0] != '"' {
		return Time{}, false
	}
	var t time.Time
	err := t.UnmarshalText(v[1 : len(v)-1]) // what it refuses and time.Parse takes, the general decoder does
	return Time{t.UTC()}, err == nil
}

// number is a small integer without a sign.
func (v value) number() (int, bool) {
	if len(v) == 0 || len(v) > 9 || v[0] == '0' && len(v) > 1 || v[0] == '+' || v[0] == '-' {
		return 0, false
	}
	n, err := strconv.Atoi(string(v))
	return n, err == nil
}

// json is a copy of any value but null.
func (v value) json() (json.RawMessage, bool) {
	if string(v) == "null" || !json.Valid(v) {
		return nil, false
	}
	return json.RawMessage(bytes.Clone(v)), true
}

// scanAll passes the fields of the object that b is to f, until f reports false.
func scanAll(b []byte, f func(key []byte, v value) bool) bool {
	rest, ok := scanObject(skipSpace(b), f)
	return ok && len(skipSpace(rest)) == 0
}

// decodeList reads an array of objects.
func decodeList[T any](v value) ([]T, bool) {
	rest := []byte(v)
	if len(rest) == 0 || rest[0] != '[' {
		return nil, false
	}
	// Never more than there is text for: two bytes an item at least, in practice far more.
	// The first is the zero item before them all.
	list := make([]T, 1, len(v)/64+2)
	if _, ok := any(&list[0]).(fielder[T]); !ok {
		return nil, false
	}
	rest = skipSpace(rest[1:])
	if len(rest) > 0 && rest[0] == ']' {
		return list[1:], len(rest) == 1
	}
	for {
		list = append(list, *new(T))
		item, last := any(&list[len(list)-1]).(fielder[T]), &list[len(list)-2]
		var ok bool
		if rest, ok = scanObject(rest, func(key []byte, v value) bool { return item.setField(key, v, last) }); !ok {
			return nil, false
		}
		rest = skipSpace(rest)
		switch {
		case len(rest) == 1 && rest[0] == ']':
			return list[1:], true
		case len(rest) < 2 || rest[0] != ',':
			return nil, false
		}
		rest = skipSpace(rest[1:])
	}
}

// scanObject passes the fields of the object at the beginning of b to f and returns what follows the object.
func scanObject(b []byte, f func(key []byte, v value) bool) (rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '{' {
		return nil, false
	}
	b = skipSpace(b[1:])
	if len(b) > 0 && b[0] == '}' {
		return b[1:], true
	}
	for {
		n := valueEnd(b)
		if n < 2 || b[0] != '"' {
			return nil, false
		}
		key := b[1 : n-1]
		if b = skipSpace(b[n:]); len(b) == 0 || b[0] != ':' {
			return nil, false
		}
		b = skipSpace(b[1:])
		if n = valueEnd(b); n <= 0 || !f(key, value(b[:n])) {
			return nil, false
		}
		b = skipSpace(b[n:])
		switch {
		case len(b) == 0:
			return nil, false
		case b[0] == '}':
			return b[1:], true
		case b[0] != ',':
			return nil, false
		}
		b = skipSpace(b[1:])
	}
}

// valueEnd is the length of the value at the beginning of b, or -1. It matches brackets and strings only.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := stringEnd(b[i:])
			if n < 0 {
				return -1
			}
			i += n - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // of a number or literal
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

// stringEnd is the length of the string at the beginning of b, quotes included, or -1.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}
