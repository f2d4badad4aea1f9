package schedule

import (
	"fmt"
	"strings"
	"time"
)

// macros are other names for five fields.
var macros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// word is a piece of an expression and where it begins.
type word struct {
	text string
	at   int
}

// split cuts an expression at ASCII blanks and tabs, and at nothing else.
func split(expr string) []word {
	var words []word
	start := -1
	for i := 0; i <= len(expr); i++ {
		blank := i == len(expr) || expr[i] == ' ' || expr[i] == '\t'
		switch {
		case blank && start >= 0:
			words = append(words, word{expr[start:i], start})
			start = -1
		case !blank && start < 0:
			start = i
		}
	}
	return words
}

func (s *Schedule) parse() error {
	if len(s.expr) > MaxLength {
		return refuse(CodeLength, word{s.expr, 0}, fmt.Sprintf("%d bytes, at most %d are accepted", len(s.expr), MaxLength), "")
	}
	words := split(s.expr)
	if len(words) == 0 {
		return refuse(CodeEmpty, word{s.expr, 0}, "the schedule is empty", "write five fields such as `30 2 * * *`, or @daily")
	}
	first := words[0].text
	if name, _, ok := strings.Cut(first, "="); ok && (strings.EqualFold(name, "TZ") || strings.EqualFold(name, "CRON_TZ")) {
		return refuse(CodeZonePre, words[0], "put the time zone in `time_zone`, not in the expression", "")
	}
	switch {
	case first == "@every":
		return s.parseEvery(words)
	case first == "@at":
		return s.parseAt(words)
	case first[0] == '@':
		fields, ok := macros[first]
		if !ok {
			return unknownMacro(words[0])
		}
		if len(words) > 1 {
			return refuse(CodeMacro, words[1], first+" stands alone", "remove what follows it")
		}
		words = split(fields)
	}
	if len(words) != 5 {
		return wrongFields(s.expr, words)
	}
	return s.parseCron(words)
}

func (s *Schedule) parseCron(words []word) error {
	c := &s.cron
	if err := c.readNumbers(words); err != nil {
		return err
	}
	if err := c.dom.read(words[2]); err != nil {
		return err
	}
	dow := words[4]
	if dow.text[0] == '+' {
		c.and = true
		dow = word{dow.text[1:], dow.at + 1}
	}
	if err := c.dow.read(dow); err != nil {
		return err
	}
	c.and = c.and || c.dom.star || c.dow.star
	if err := c.checkFires(words); err != nil {
		return err
	}
	s.class = ClassWall
	if c.elapsed() {
		s.class = ClassElapsed
	}
	return nil
}

func (s *Schedule) parseEvery(words []word) error {
	if len(words) != 2 {
		return refuse(CodeInterval, words[0], "@every takes one duration", "for example `@every 90m`")
	}
	w := words[1]
	d, err := time.ParseDuration(w.text)
	hint := "write whole seconds, minutes or hours such as 45s, 90m or 1h30m"
	switch {
	case w.text[0] == '+' || w.text[0] == '-':
		return refuse(CodeInterval, w, "@every: a duration has no sign", hint)
	case err != nil:
		if days := strings.TrimRight(w.text, "0123456789.") == ""; !days && strings.ContainsAny(w.text, "dD") {
			hint = "a day is not always 24 hours: use `@daily` or `@every 24h`"
		} else if strings.ContainsAny(w.text, "wW") {
			hint = "use `@weekly`, or `@every 168h` for 168 hours"
		}
		return refuse(CodeInterval, w, fmt.Sprintf("@every: %q is not a duration", shorten(w.text)), hint)
	case d < time.Second:
		return refuse(CodeInterval, w, "@every: the shortest interval is 1s", "")
	case d%time.Second != 0:
		return refuse(CodeInterval, w, fmt.Sprintf("@every: %s is not a whole number of seconds", shorten(w.text)), hint)
	}
	s.class = ClassInterval
	s.every = int64(d / time.Second)
	if !s.start.IsZero() {
		s.anchor, s.frac = second(s.start), int32(s.start.Nanosecond())
	}
	return nil
}

func (s *Schedule) parseAt(words []word) error {
	const hint = "write an instant with its offset such as `@at 2027-01-01T00:00:00Z`"
	if len(words) != 2 {
		return refuse(CodeAt, words[0], "@at takes one instant", hint)
	}
	w := words[1]
	t, err := time.Parse(time.RFC3339, w.text)
	switch {
	case err != nil || strings.Contains(w.text, ","):
		return refuse(CodeAt, w, fmt.Sprintf("@at: %q is not an RFC 3339 instant", shorten(w.text)), hint)
	case t.Nanosecond()%1000 != 0:
		return refuse(CodeAt, w, fmt.Sprintf("@at: %s is finer than a microsecond", shorten(w.text)), "")
	case t.Unix() < earliest || t.Unix() > latest:
		return refuse(CodeAt, w, fmt.Sprintf("@at: %s is outside the years 1 to 9999", shorten(w.text)), "")
	}
	s.class = ClassInstant
	s.anchor, s.frac = t.Unix(), int32(t.Nanosecond())
	return nil
}

// refuse makes an error about the expression as a whole.
func refuse(code Code, w word, message, hint string) *Error {
	return &Error{Code: code, Field: fieldSchedule, Value: shorten(w.text), Message: message, Hint: hint, Offset: w.at}
}

func unknownMacro(w word) *Error {
	hint := "known are @yearly, @monthly, @weekly, @daily, @hourly, @every and @at"
	lower := strings.ToLower(w.text)
	_, known := macros[lower]
	switch {
	case known || lower == "@every" || lower == "@at":
		hint = "did you mean " + lower + "?"
	case lower == "@reboot":
		hint = "there is no machine whose start could be meant"
	case strings.HasPrefix(lower, "@every"):
		hint = "did you mean `@every " + shorten(w.text[len("@every"):]) + "`?"
	case lower == "@minutely":
		hint = "did you mean `* * * * *`?"
	}
	return refuse(CodeMacro, w, fmt.Sprintf("unknown macro %q", shorten(w.text)), hint)
}

func wrongFields(expr string, words []word) *Error {
	const names = "minute hour day-of-month month day-of-week"
	all := word{strings.TrimSpace(expr), words[0].at}
	switch n := len(words); {
	case n == 6:
		if y := words[5].text; len(y) == 4 && y >= "1970" && y <= "2999" {
			return refuse(CodeSeconds, all, "6 fields: neither seconds nor a year are supported", "use start_at and end_at for a year")
		}
		e := refuse(CodeSeconds, all, "6 fields: seconds are not supported", "drop the first field, or use an interval such as `@every 30s`")
		rest := strings.TrimRight(expr[words[1].at:], " \t")
		if (&Schedule{expr: rest}).parse() == nil {
			e.Hint = "did you mean `" + rest + "`?"
		}
		return e
	case n == 1:
		e := refuse(CodeFields, all, "1 field, expected 5: "+names, "")
		if _, known := macros["@"+strings.ToLower(all.text)]; known {
			e.Hint = "did you mean @" + strings.ToLower(all.text) + "?"
		} else if d, err := time.ParseDuration(all.text); err == nil && d >= time.Second {
			e.Hint = "did you mean `@every " + all.text + "`?"
		}
		return e
	default:
		e := refuse(CodeFields, all, fmt.Sprintf("%d fields, expected 5: %s", n, names), "")
		if strings.ContainsFunc(expr, func(r rune) bool {
			return r > 0x7F && (r == 0xA0 || r >= 0x2000 && r <= 0x200B || r == 0x202F || r == 0x3000)
		}) {
			e.Hint = "there is a no-break or other special space in it; fields are separated by ordinary blanks"
		}
		return e
	}
}
