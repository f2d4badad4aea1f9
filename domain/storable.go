package domain

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// storable cuts the text to max bytes and replaces what PostgreSQL's text does
// not hold: NUL and invalid UTF-8.
func storable(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
	if len(s) <= limit {
		return s
	}
	const mark = " […]"
	cut := limit - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}

// checkEscapes finds what is valid JSON and yet no jsonb: the escape \u0000,
// surrogates without their other half, and raw bytes that are no UTF-8.
func checkEscapes(raw []byte) error {
	if !utf8.Valid(raw) {
		return errors.New("not valid UTF-8")
	}
	for i := bytes.IndexByte(raw, '\\'); i >= 0 && i+1 < len(raw); {
		skip := 2
		if raw[i+1] == 'u' {
			r := hex4(raw, i+2)
			skip = 6
			switch {
			case r == 0:
				return errors.New(`holds \u0000, which PostgreSQL cannot store`)
			case utf16.IsSurrogate(r):
				if i+8 > len(raw) || raw[i+6] != '\\' || raw[i+7] != 'u' || utf16.DecodeRune(r, hex4(raw, i+8)) == utf8.RuneError {
					return errors.New("holds half a surrogate pair, which PostgreSQL cannot store")
				}
				skip = 12
			}
		}
		if i += skip; i >= len(raw) {
			break
		}
		j := bytes.IndexByte(raw[i:], '\\')
		if j < 0 {
			break
		}
		i += j
	}
	return nil
}

func hex4(b []byte, i int) rune {
	if i+4 > len(b) {
		return utf8.RuneError
	}
	v, err := strconv.ParseUint(string(b[i:i+4]), 16, 32)
	if err != nil {
		return utf8.RuneError
	}
	return rune(v)
}
