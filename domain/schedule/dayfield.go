package schedule

import (
	"fmt"
	"strings"
)

// read reads a day-of-month field.
func (s *domSet) read(w word) error {
	s.star = w.text[0] == '*' || w.text == "?"
	if w.text == "?" {
		s.days = everyDom
		return nil
	}
	for _, it := range items(w) {
		if err := s.item(it); err != nil {
			return err
		}
	}
	return nil
}

func (s *domSet) item(it word) error {
	f := &domSpec
	switch text := strings.ToUpper(it.text); {
	case text == "L":
		s.last |= 1
	case text == "LW":
		s.lastWeekday = true
	case strings.HasPrefix(text, "L-"):
		n, ok := number(text[2:])
		if !ok {
			return f.refuse(CodeValue, it, fmt.Sprintf("%q is not a day", shorten(it.text)), "L-3 is the third day before the last")
		}
		if n < 1 || n > 30 {
			return f.refuse(CodeRange, it, shorten(it.text)+" is out of range L-1 to L-30", "L is the last day")
		}
		s.last |= 1 << n
	case len(text) > 1 && text[len(text)-1] == 'W':
		d, ok := number(text[:len(text)-1])
		if !ok {
			return f.refuse(CodeValue, it, fmt.Sprintf("%q is not a day", shorten(it.text)), "W follows one day: 15W is the weekday nearest the 15th")
		}
		if d < 1 || d > 31 {
			return f.outOfRange(word{it.text[:len(text)-1], it.at}, f.max)
		}
		s.nearest |= 1 << d
	default:
		b, err := f.item(it)
		if err != nil {
			return err
		}
		s.days |= uint32(b)
	}
	return nil
}

// read reads a day-of-week field, without its leading "+".
func (s *dowSet) read(w word) error {
	if w.text == "" {
		return dowSpec.refuse(CodeValue, w, "no day after +", "+FRI means: and only if it is a Friday")
	}
	s.star = w.text[0] == '*' || w.text == "?"
	if w.text == "?" {
		s.days = everyDow
		return nil
	}
	for _, it := range items(w) {
		if err := s.item(it); err != nil {
			return err
		}
	}
	return nil
}

func (s *dowSet) item(it word) error {
	f := &dowSpec
	if d, k, ok := strings.Cut(it.text, "#"); ok {
		v, err := f.value(word{d, it.at}, it)
		if err != nil {
			return err
		}
		n, ok := number(k)
		if !ok {
			return f.refuse(CodeValue, it, fmt.Sprintf("%q is not a number of a week", shorten(k)), "MON#1 is the first Monday of the month")
		}
		if n < 1 || n > 5 {
			return f.refuse(CodeRange, it, fmt.Sprintf("#%s is out of range #1-#5", shorten(k)), "FRIL is the last Friday")
		}
		s.nth[n] |= 1 << (v % 7)
		return nil
	}
	if n := len(it.text) - 1; n >= 1 && (it.text[n] == 'L' || it.text[n] == 'l') && !strings.ContainsAny(it.text, "-/*") {
		v, err := f.value(word{it.text[:n], it.at}, it)
		if err != nil {
			return err
		}
		s.last |= 1 << (v % 7)
		return nil
	}
	b, err := f.item(it)
	if err != nil {
		return err
	}
	s.days |= uint32(b)
	return nil
}

// notAValue explains a text that is neither a number nor a name of the field.
func (f *spec) notAValue(w, whole word) error {
	text := shorten(w.text)
	refuse := func(message, hint string) error { return f.refuse(CodeValue, w, message, hint) }
	if whole.text == "?" {
		return refuse("? is only known in the day fields, and alone", "use *")
	}
	if w.text == "" {
		return f.refuse(CodeValue, whole, fmt.Sprintf("%q is not a value", shorten(whole.text)), "numbers have no sign; a range is written 1-5")
	}
	if strings.EqualFold(w.text, "L") && f == &dowSpec {
		return refuse("L needs a day", "FRIL is the last Friday of the month")
	}
	if f != &domSpec && f != &dowSpec && (strings.EqualFold(w.text, "L") || strings.EqualFold(w.text, "LW")) {
		return refuse(fmt.Sprintf("unknown name %q", text), "L is only known in the day fields")
	}
	if strings.EqualFold(w.text, "H") || len(w.text) > 1 && strings.EqualFold(w.text[:2], "H(") {
		return refuse("the hash syntax H is not supported", "write a number")
	}
	if w.text[0] == '+' {
		return refuse(fmt.Sprintf("%q is not a value", text), "+ is only known before the whole day-of-week field")
	}
	if f == &domSpec && len(w.text) > 1 && (strings.HasSuffix(whole.text, "W") || strings.HasPrefix(whole.text, "L")) {
		return refuse(fmt.Sprintf("%q is not a day", text), "known are L, L-3, LW and 15W")
	}
	if !letters(w.text) {
		return refuse(fmt.Sprintf("%q is not a value", text), "")
	}
	for i, full := range f.words {
		if len(w.text) >= 3 && len(w.text) <= len(full) && strings.EqualFold(full[:len(w.text)], w.text) || strings.EqualFold(w.text, full+"s") {
			return refuse(fmt.Sprintf("unknown name %q", text), "did you mean "+f.names[i]+"?")
		}
	}
	for _, other := range []*spec{&monthSpec, &dowSpec} {
		for _, name := range other.names {
			if other != f && strings.EqualFold(w.text, name) {
				return refuse(fmt.Sprintf("%q belongs in the %s field", text, other.name), "")
			}
		}
	}
	hint := ""
	if f.names != nil {
		hint = "names are " + f.names[0] + " to " + f.names[len(f.names)-1]
	}
	return refuse(fmt.Sprintf("unknown name %q", text), hint)
}

func letters(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}
