package jobsfile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/daybookhq/daybook/domain"
)

// object reads the fields of one mapping.
type object struct {
	r    *reader
	path string
	n    *node
	bad  map[string]bool // paths with a problem; shared by a job's objects
}

// newObject checks that the value is a mapping without a field twice and, unless
// known is nil, without one that it does not list. What is it called is for
// messages.
func (r *reader) newObject(path string, n *node, bad map[string]bool, what string, known []string, features map[string]feature) (object, bool) {
	o := object{r: r, path: path, n: n, bad: bad}
	if n.kind != mapping {
		hint := "want " + what
		if 0 < len(known) && len(known) < 10 {
			hint += " with " + strings.Join(known, ", ")
		}
		o.report(path, n.line, n.shown(), "is "+n.kind.String(), hint)
		return o, false
	}
	seen := make(map[string]int, len(n.fields))
	for _, f := range n.fields {
		at := o.at(f.name)
		if first, twice := seen[f.name]; twice {
			o.report(at, f.line, "", fmt.Sprintf("is given twice, first on line %d", first), "")
			continue
		}
		seen[f.name] = f.line
		if no, ok := features[f.name]; ok {
			o.report(at, f.line, "", no.message, no.hint)
			continue
		}
		if known == nil {
			continue
		}
		if hint, ok := suggest(f.name, known); !ok {
			o.report(at, f.line, "", "is no field of "+what, hint)
		}
	}
	return o, true
}

// at is the path of a field.
func (o object) at(name string) string {
	if strings.ContainsFunc(name, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-')
	}) || name == "" {
		name = strconv.Quote(shorten(name))
	}
	if o.path == "" {
		return shorten(name)
	}
	return o.path + "." + shorten(name)
}

func (o object) report(path string, line int, value, message, hint string) {
	o.bad[path] = true
	o.r.add(Problem{Line: line, Field: path, Value: value, Message: message, Hint: hint})
}

// want gives the field if it is there and of the kind.
func (o object) want(name string, k kind, what string) (field, bool) {
	for _, f := range o.n.fields {
		if f.name != name {
			continue
		}
		if o.bad[o.at(name)] {
			return f, false
		}
		if f.value.kind != k {
			o.wrong(o.at(name), f.line, f.value, what)
			return f, false
		}
		return f, true
	}
	return field{}, false
}

// wrong reports a value of another kind than wanted.
func (o object) wrong(path string, line int, n *node, what string) {
	message, hint := "is "+n.kind.String(), "want "+what
	switch {
	case n.kind == nothing:
		message, hint = "is empty", "give a value or remove it"
	case (n.kind == number || n.kind == boolean) && strings.HasPrefix(what, "text"):
		hint = "write it in quotes: " + strconv.Quote(shorten(n.text))
	}
	o.report(path, line, n.shown(), message, hint)
}

func (o object) text(name string, into *string) {
	if f, ok := o.want(name, text, "text"); ok {
		*into = f.value.text
	}
}

func (o object) boolean(name string, into *bool) {
	if f, ok := o.want(name, boolean, "true or false"); ok {
		*into = f.value.text == "true"
	}
}

func (o object) integer(name string, into *int) {
	const what = "a whole number"
	f, ok := o.want(name, number, what)
	if !ok {
		return
	}
	v, err := strconv.Atoi(f.value.text)
	if err != nil || !plainNumber(f.value.text) {
		o.report(o.at(name), f.line, f.value.text, "is not "+what, decimalHint)
		return
	}
	*into = v
}

func (o object) decimal(name string, into *float64) {
	f, ok := o.want(name, number, "a number")
	if !ok {
		return
	}
	v, err := strconv.ParseFloat(f.value.text, 64)
	if err != nil || !plainNumber(f.value.text) {
		o.report(o.at(name), f.line, f.value.text, "is not a number", decimalHint)
		return
	}
	*into = v
}

func (o object) duration(name string, into *domain.Duration) {
	f, ok := o.find(name)
	if !ok {
		return
	}
	const hint = "write a number with its unit: 90s, 10m, 1h30m"
	switch f.value.kind {
	case number:
		if f.value.text == "0" {
			*into = 0
			return
		}
		o.report(o.at(name), f.line, f.value.text, "has no unit", hint)
	case text:
		d, err := time.ParseDuration(f.value.text)
		if err != nil {
			o.report(o.at(name), f.line, f.value.text, "is no duration", durationHint(f.value.text, hint))
			return
		}
		*into = domain.Duration(d)
	default:
		o.wrong(o.at(name), f.line, f.value, "a duration such as 90s")
	}
}

// find gives the field whatever it is, unless it has been refused.
func (o object) find(name string) (field, bool) {
	for _, f := range o.n.fields {
		if f.name == name {
			return f, !o.bad[o.at(name)]
		}
	}
	return field{}, false
}

// durationHint knows the units that people miss.
func durationHint(s, hint string) string {
	for unit, hours := range map[string]int{"d": 24, "w": 7 * 24} {
		if n, err := strconv.Atoi(strings.TrimSuffix(s, unit)); err == nil && strings.HasSuffix(s, unit) && n < 100_000 {
			return fmt.Sprintf("write %dh", n*hours)
		}
	}
	return hint
}

func (o object) instant(name string) *time.Time {
	f, ok := o.want(name, text, "text: an instant such as 2026-12-01T00:00:00Z")
	if !ok {
		return nil
	}
	t, err := time.Parse(time.RFC3339, f.value.text)
	if err != nil || strings.Contains(f.value.text, ",") {
		hint := "write it with its offset: 2026-12-01T00:00:00Z"
		if _, err := time.Parse(time.DateOnly, f.value.text); err == nil {
			hint = "write " + f.value.text + "T00:00:00Z"
		}
		o.report(o.at(name), f.line, f.value.text, "is no instant", hint)
		return nil
	}
	t = t.UTC()
	return &t
}

// texts reads a list of text.
func (o object) texts(name string) []string {
	f, ok := o.want(name, list, "a list of text")
	if !ok {
		return nil
	}
	return o.items(name, f.value)
}

// items reads the items of a list; none if one of them is refused.
func (o object) items(name string, n *node) []string {
	out := make([]string, 0, len(n.items))
	for i, item := range n.items {
		if item.kind != text {
			o.wrong(fmt.Sprintf("%s[%d]", o.at(name), i), item.line, item, "text")
			o.bad[o.at(name)] = true
			continue
		}
		if !o.r.write(len(item.text), item.line) {
			return nil
		}
		out = append(out, item.text)
	}
	if len(out) < len(n.items) {
		return nil
	}
	return out
}

const decimalHint = "write it in decimal digits, without a leading 0 or +"

// plainNumber reports whether a number is written as JSON writes it.
func plainNumber(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	whole, rest := digits, ""
	if i := strings.IndexAny(digits, ".eE"); i >= 0 {
		whole, rest = digits[:i], digits[i:]
	}
	if whole == "" || whole != "0" && whole[0] == '0' || !allDigits(whole) {
		return false
	}
	if fraction, ok := strings.CutPrefix(rest, "."); ok {
		if i := strings.IndexAny(fraction, "eE"); i >= 0 {
			fraction, rest = fraction[:i], fraction[i:]
		} else {
			rest = ""
		}
		if !allDigits(fraction) {
			return false
		}
	}
	if rest == "" {
		return true
	}
	exponent := rest[1:]
	if strings.HasPrefix(exponent, "+") || strings.HasPrefix(exponent, "-") {
		exponent = exponent[1:]
	}
	return allDigits(exponent)
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
