package schedule

import (
	"fmt"
	"strings"
)

// spec describes one of the five fields.
type spec struct {
	name     string
	min, max int
	wraps    bool
	names    []string // names[i] is the value min+i
	words    []string // full names, which are refused with a hint
}

var (
	minuteSpec = spec{name: "minute", max: 59}
	hourSpec   = spec{name: "hour", max: 23, wraps: true}
	domSpec    = spec{name: "day-of-month", min: 1, max: 31}
	monthSpec  = spec{name: "month", min: 1, max: 12, wraps: true,
		names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"},
		words: monthWords[1:]}
	dowSpec = spec{name: "day-of-week", max: 6, wraps: true,
		names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"},
		words: dayWords[:]}
)

var (
	monthWords = [13]string{"", "January", "February", "March", "April", "May", "June", "July",
		"August", "September", "October", "November", "December"}
	dayWords = [7]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
)

func (f *spec) refuse(code Code, w word, message, hint string) *Error {
	return &Error{Code: code, Field: f.name, Value: shorten(w.text), Offset: w.at,
		Message: f.name + ": " + message, Hint: hint}
}

// items cuts a field at its commas.
func items(w word) []word {
	var out []word
	at := w.at
	for part := range strings.SplitSeq(w.text, ",") {
		out = append(out, word{part, at})
		at += len(part) + 1
	}
	return out
}

// readNumbers reads minute, hour and month, which hold nothing but items.
func (c *cron) readNumbers(words []word) error {
	for _, f := range []struct {
		spec *spec
		w    word
		set  func(uint64)
	}{
		{&minuteSpec, words[0], func(b uint64) { c.minute |= b }},
		{&hourSpec, words[1], func(b uint64) { c.hour |= uint32(b) }},
		{&monthSpec, words[3], func(b uint64) { c.month |= uint32(b) }},
	} {
		for _, it := range items(f.w) {
			b, err := f.spec.item(it)
			if err != nil {
				return err
			}
			f.set(b)
		}
	}
	return nil
}

// item reads "*", "a", "a-b", each with an optional "/n", as bits.
func (f *spec) item(w word) (uint64, error) {
	if w.text == "" {
		return 0, f.refuse(CodeValue, w, "empty item in the list", "remove the comma")
	}
	body, stepText, stepped := strings.Cut(w.text, "/")
	lo, hi := f.min, f.max
	if body != "*" {
		from, to, ranged := strings.Cut(body, "-")
		var err error
		if lo, err = f.value(word{from, w.at}, w); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if hi, err = f.value(word{to, w.at + len(from) + 1}, w); err != nil {
				return 0, err
			}
		case !stepped:
			hi = lo
		}
		if f == &dowSpec && lo == 7 { // Sunday again
			if lo = 0; !ranged && !stepped || ranged && hi == 7 {
				hi = 0
			}
		}
	}
	step := 1
	if stepped {
		var err error
		if step, err = f.step(word{stepText, w.at + len(body) + 1}); err != nil {
			return 0, err
		}
	}
	size := f.max - f.min + 1
	if hi < lo {
		if !f.wraps {
			return 0, f.refuse(CodeBackwards, word{body, w.at}, "range "+shorten(body)+" runs backwards", f.forwards(lo, hi))
		}
		hi += size
	}
	var bits uint64
	for v := lo; v <= hi; v += step {
		bits |= 1 << (f.min + (v-f.min)%size)
	}
	return bits, nil
}

// forwards says how to write a range over the end of a field.
func (f *spec) forwards(lo, hi int) string {
	return fmt.Sprintf("write %d-%d,%d-%d", lo, f.max, f.min, hi)
}

// step reads the number after a slash.
func (f *spec) step(w word) (int, error) {
	n, ok := number(w.text)
	switch {
	case !ok || n == 0:
		return 0, f.refuse(CodeStep, w, fmt.Sprintf("step %q is not a number from 1", shorten(w.text)), "")
	case n > f.max-f.min:
		hint := ""
		switch {
		case f == &minuteSpec && n < 1<<20:
			hint = fmt.Sprintf("for every %d minutes use `@every %dm`", n, n)
		case f == &hourSpec && n < 1<<20:
			hint = fmt.Sprintf("for every %d hours use `@every %dh`", n, n)
		}
		return 0, f.refuse(CodeStep, w, fmt.Sprintf("step %s exceeds the field and would only match %s", shorten(w.text), f.first()), hint)
	}
	return n, nil
}

func (f *spec) first() string {
	switch f {
	case &minuteSpec:
		return ":00"
	case &hourSpec:
		return "midnight"
	case &dowSpec:
		return "Sunday"
	case &monthSpec:
		return "January"
	}
	return fmt.Sprint("day ", f.min)
}

// value reads a number or a name. whole is the item it stands in.
func (f *spec) value(w, whole word) (int, error) {
	if n, ok := number(w.text); ok {
		limit := f.max
		if f == &dowSpec {
			limit = 7
		}
		if n < f.min || n > limit {
			return 0, f.outOfRange(w, limit)
		}
		return n, nil
	}
	for i, name := range f.names {
		if strings.EqualFold(w.text, name) {
			return f.min + i, nil
		}
	}
	return 0, f.notAValue(w, whole)
}

func (f *spec) outOfRange(w word, limit int) error {
	hint := ""
	switch {
	case f == &hourSpec && w.text == "24":
		hint = "midnight is 0"
	case f == &domSpec && strings.Trim(w.text, "0") == "":
		hint = "days are counted from 1"
	case f == &monthSpec && strings.Trim(w.text, "0") == "":
		hint = "months are counted from 1"
	}
	return f.refuse(CodeRange, w, fmt.Sprintf("%s is out of range %d-%d", shorten(w.text), f.min, limit), hint)
}

// number reads ASCII digits. A number too large for any field stays too large.
func number(s string) (int, bool) {
	if s == "" {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = min(n*10+int(s[i]-'0'), 1<<30)
	}
	return n, true
}
