package domain

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// canonical rewrites JSON so that what PostgreSQL's jsonb holds to be the same
// reads the same: sorted keys, no spaces, numbers without their notation. A
// definition that went through the database equals the one that was sent. What
// is not JSON stays as it is: validation refuses it elsewhere.
func canonical(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if !json.Valid(raw) {
		return raw
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	b, err := json.Marshal(plainNumbers(v))
	if err != nil {
		return raw
	}
	return b
}

func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return json.Number(plainNumber(v.String()))
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

// plainNumber writes a JSON number as jsonb does, unless that takes many zeros:
// those stay an exponent. Digits after the point count, as they do in the
// database: 1 and 1.0 differ, 100 and 1e2 do not.
func plainNumber(s string) string {
	sign, rest := "", s
	if strings.HasPrefix(s, "-") {
		sign, rest = "-", s[1:]
	}
	exponent := 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(rest[i+1:]); err != nil {
			return s
		}
		rest = rest[:i]
	}
	whole, fraction, _ := strings.Cut(rest, ".")
	exponent -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	switch {
	case digits == "":
		sign, digits, exponent = "", "0", min(exponent, 0)
	case exponent >= 0:
		short := strings.TrimRight(digits, "0")
		digits, exponent = short, exponent+len(digits)-len(short)
	}
	const many = 20
	switch {
	case 0 <= exponent && exponent <= many:
		return sign + digits + strings.Repeat("0", exponent)
	case -many <= exponent && exponent < 0:
		if pad := -exponent - len(digits) + 1; pad > 0 {
			digits = strings.Repeat("0", pad) + digits
		}
		point := len(digits) + exponent
		return sign + digits[:point] + "." + digits[point:]
	}
	return sign + digits + "e" + strconv.Itoa(exponent)
}
