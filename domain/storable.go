package domain

import (
	"bytes"
	"errors"
	"fmt"
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

// Limits of numbers in jsonb. The database writes numbers out, so an exponent
// of a few digits becomes as many zeros as it says; a bound far above what other
// software calculates with keeps a small value from growing beyond what one row
// can be read back with.
const (
	maxExponent       = 400
	maxWholeDigits    = 131072
	maxFractionDigits = 16383
)

// checkNumbers finds numbers of valid JSON that are no jsonb.
func checkNumbers(raw []byte) error {
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(raw) && strings.IndexByte("0123456789.eE+-", raw[end]) >= 0 {
				end++
			}
			if err := checkNumber(string(raw[i:end])); err != nil {
				return err
			}
			i = end - 1
		}
	}
	return nil
}

func checkNumber(s string) error {
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		var err error
		mantissa = s[:i]
		if exponent, err = strconv.Atoi(s[i+1:]); err != nil || exponent < -maxExponent || exponent > maxExponent {
			return fmt.Errorf("holds the number %s, whose exponent is beyond ±%d", storable(s, 40), maxExponent)
		}
	}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	if len(whole)+max(exponent, 0) > maxWholeDigits || len(fraction)+max(-exponent, 0) > maxFractionDigits {
		return fmt.Errorf("holds the number %s with more digits than PostgreSQL can store", storable(s, 40))
	}
	return nil
}
