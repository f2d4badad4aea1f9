package schedule

import (
	"fmt"
	"math/bits"
	"strings"
)

// fields returns the five fields of a cron expression, macros spelled out.
func (s *Schedule) fields() []word {
	words := split(s.expr)
	if len(words) == 1 {
		words = split(macros[words[0].text])
	}
	return words
}

// shortMonths warns about a day that some named months do not have.
func (c *cron) shortMonths(w word) string {
	d := 0 // the largest day that stands alone, or that everything waits for
	if !c.dom.full() && c.dom.days != 0 {
		if first := bits.TrailingZeros32(c.dom.days); first > 28 && c.dom.last == 0 && !c.dom.lastWeekday {
			d = first
		}
	}
	alone := d > 0 && c.dom.nearest == 0 && (c.and || c.dow.full())
	for _, it := range items(w) {
		if n, ok := number(strings.TrimRight(it.text, "wW")); ok && n > max(d, 28) {
			d, alone = n, d == 0 && c.dom.days&^(1<<n) == 0 && bits.OnesCount32(c.dom.nearest) <= 1 && c.dom.last == 0 && !c.dom.lastWeekday && (c.and || c.dow.full())
		}
	}
	if d == 0 {
		return ""
	}
	has, of := 0, 0
	for month := 1; month <= 12; month++ {
		if c.month>>month&1 != 0 {
			of++
			if monthLength(false, month) >= d {
				has++
			}
		}
	}
	february := c.month>>2&1 != 0 && d == 29
	switch {
	case has == of:
		return ""
	case alone && february && of == 1:
		return "fires in leap years only"
	case alone && february:
		return fmt.Sprintf("fires in %d of %d months, and in February of leap years; use L for the last day", has, of)
	case alone:
		return fmt.Sprintf("fires in %d of %d months; use L for the last day", has, of)
	}
	return fmt.Sprintf("day %d exists in %d of %d months; use L for the last day", d, has, of)
}

// stepWarnings reports steps whose stride is not the same all the way round,
// or that match a single value.
func (s *Schedule) stepWarnings() []string {
	var out []string
	specs := [5]*spec{&minuteSpec, &hourSpec, &domSpec, &monthSpec, &dowSpec}
	units := [5]string{"minute", "hour", "day", "month", "day"}
	for i, w := range s.fields() {
		for _, it := range items(word{strings.TrimPrefix(w.text, "+"), w.at}) {
			body, stepText, ok := strings.Cut(it.text, "/")
			if !ok {
				continue
			}
			f := specs[i]
			set, err := f.item(it)
			if err != nil {
				continue // parsed before; cannot be
			}
			n, _ := number(stepText)
			v := members(set)
			first, last := v[0], v[len(v)-1]
			stride := f.max - f.min + 1 - last + first
			switch {
			case len(v) == 1:
				out = append(out, fmt.Sprintf("%s: %s matches %d only", f.name, it.text, first))
			case strings.Contains(body, "-") || stride == n:
			case f == &domSpec:
				out = append(out, fmt.Sprintf("day-of-month: %s starts again at %d every month, so the last step is not %d days", it.text, first, n))
			default:
				out = append(out, fmt.Sprintf("%s: %s is uneven: the last step is %s", f.name, it.text, plural(stride, units[i])))
			}
		}
	}
	return out
}

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
