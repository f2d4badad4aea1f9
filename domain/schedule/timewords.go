package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

func (c *cron) timeWords() timeText {
	minutes, hours := members(c.minute), members(uint64(c.hour))
	every := even(minutes)
	if c.elapsed() {
		return wholeDay(minutes, every)
	}
	total := len(minutes) * len(hours)
	first, last, run := ring(hours, 24)
	from, to := clock(first, minutes[0]), clock(last, minutes[len(minutes)-1])
	step := progression(hours)
	switch {
	case len(minutes) == 1 && run && len(hours) >= 4:
		return timeText{text: "every hour from " + from + " to " + to, rate: true}
	case len(minutes) == 1 && step > 1 && len(hours) >= 4:
		return timeText{text: fmt.Sprintf("every %d hours from %s to %s", step, clock(hours[0], minutes[0]), clock(hours[len(hours)-1], minutes[0])), rate: true}
	case len(minutes) == 1 || total <= 4:
		return timeText{text: "at " + list(times(minutes, hours), "and")}
	case every == 1 && run:
		return timeText{text: "every minute from " + from + " to " + to, rate: true}
	case every > 1 && run:
		return timeText{text: fmt.Sprintf("every %d minutes from %s to %s", every, from, to), rate: true}
	case total <= 6:
		return timeText{text: "at " + list(times(minutes, hours), "and")}
	}
	of := " of the hours " + numbers(hours, "and")
	if len(hours) == 1 {
		of = " of hour " + strconv.Itoa(hours[0])
	} else if run {
		of = fmt.Sprintf(" of the hours %d to %d", first, last)
	}
	switch {
	case every == 1:
		return timeText{text: "every minute" + of, rate: true}
	case every > 1:
		return timeText{text: fmt.Sprintf("every %d minutes%s", every, of), rate: true}
	}
	return timeText{text: "at minutes " + numbers(minutes, "and") + of}
}

func wholeDay(minutes []int, every int) timeText {
	t := timeText{whole: true}
	switch {
	case every == 1:
		t.text, t.rate = "every minute", true
	case every > 1:
		t.text, t.rate = fmt.Sprintf("every %d minutes", every), true
	case len(minutes) == 1 && minutes[0] == 0:
		t.text, t.rate = "every hour", true
	case len(minutes) == 1:
		t.text = fmt.Sprintf("at minute %d of every hour", minutes[0])
	default:
		t.text = "at minutes " + numbers(minutes, "and") + " of every hour"
	}
	return t
}

// members lists the bits of a set.
func members(set uint64) []int {
	var out []int
	for ; set != 0; set &= set - 1 {
		out = append(out, bits.TrailingZeros64(set))
	}
	return out
}

// even returns n if the minutes are 0, n, 2n … over the whole hour without a
// shorter last step, else 0.
func even(minutes []int) int {
	if len(minutes) < 2 || minutes[0] != 0 {
		return 0
	}
	n := progression(minutes)
	if n == 0 || n*len(minutes) != 60 {
		return 0
	}
	return n
}

// progression returns the constant difference of neighbours, or 0.
func progression(v []int) int {
	if len(v) < 2 {
		return 0
	}
	n := v[1] - v[0]
	for i := range v[1:] {
		if v[i+1]-v[i] != n {
			return 0
		}
	}
	return n
}

// ring reports whether values follow each other on a circle of the given size
// without a hole, and where that run begins and ends.
func ring(v []int, size int) (first, last int, ok bool) {
	holes := 0
	first, last = v[0], v[len(v)-1]
	for i, x := range v {
		next := v[(i+1)%len(v)]
		if (x+1)%size != next {
			holes++
			first, last = next, x
		}
	}
	return first, last, holes <= 1
}

func clock(h, m int) string { return fmt.Sprintf("%02d:%02d", h, m) }

func times(minutes, hours []int) []string {
	var out []string
	for _, h := range hours {
		for _, m := range minutes {
			out = append(out, clock(h, m))
		}
	}
	return out
}

// list joins with commas and a last word: a, b and c.
func list(items []string, last string) string {
	if n := len(items) - 1; n > 0 {
		return strings.Join(items[:n], ", ") + " " + last + " " + items[n]
	}
	return items[0]
}

// numbers writes 0, 7, 14, ... 56 for long even steps, 3 to 9 for runs, and a
// plain list otherwise.
func numbers(v []int, last string) string {
	n := len(v)
	switch step := progression(v); {
	case step == 1 && n >= 3:
		return fmt.Sprintf("%d to %d", v[0], v[n-1])
	case step > 1 && n > 4:
		return fmt.Sprintf("%d, %d, %d, ... %d", v[0], v[1], v[2], v[n-1])
	}
	items := make([]string, 0, n)
	for i := 0; i < n; {
		j := i
		for j+1 < n && v[j+1] == v[j]+1 {
			j++
		}
		if j-i >= 2 {
			items = append(items, fmt.Sprintf("%d to %d", v[i], v[j]))
		} else {
			j = i
			items = append(items, strconv.Itoa(v[i]))
		}
		i = j + 1
	}
	return list(items, last)
}
