package bench

import (
	"strconv"
	"strings"
)

// Table is the report's rows for people: columns without a figure are left out.
func Table(rep Report) (titles []string, rows [][]string) {
	columns := []struct {
		title string
		text  func(Result) string
	}{
		{"", func(r Result) string { return r.Name }},
		{"rate", func(r Result) string { return number(r.Rate) }},
		{"batch", func(r Result) string { return number(float64(r.Batch)) }},
		{"claimers", func(r Result) string { return number(float64(r.Claimers)) }},
		{"runs", func(r Result) string { return number(float64(r.Runs)) }},
		{"runs/s", func(r Result) string { return number(r.RunsPerSecond) }},
		{"until caught up", func(r Result) string { return number(r.CaughtUp) }},
		{"p50 ms", func(r Result) string { return millis(r.P50) }},
		{"p99 ms", func(r Result) string { return millis(r.P99) }},
		{"p99.9 ms", func(r Result) string { return millis(r.P999) }},
		{"max ms", func(r Result) string { return millis(r.Max) }},
		{"µs/run: database + engine + broker + worker", func(r Result) string { return r.CPU.String() }},
		{"others", func(r Result) string { return r.CPU.text(func(c CPU) float64 { return c.Other }) }},
		{"stolen", func(r Result) string { return r.CPU.text(func(c CPU) float64 { return c.Stolen }) }},
		{"WAL B/run", func(r Result) string { return number(float64(r.WAL)) }},
		{"engine MB", func(r Result) string { return number(float64(r.PeakRSS["engine"] >> 20)) }},
		{"worker MB", func(r Result) string { return number(float64(r.PeakRSS["worker"] >> 20)) }},
		{"duplicates", func(r Result) string {
			if r.Duplicates == nil {
				return ""
			}
			return strconv.Itoa(*r.Duplicates)
		}},
		{"rounds", func(r Result) string {
			var s strings.Builder
			for _, v := range r.Rounds {
				s.WriteString(" " + number(v))
			}
			return s.String()
		}},
	}
	rows = make([][]string, len(rep.Results))
	for _, c := range columns {
		some := false
		cells := make([]string, len(rep.Results))
		for i, r := range rep.Results {
			cells[i] = c.text(r)
			some = some || cells[i] != ""
		}
		if !some {
			continue
		}
		titles = append(titles, c.title)
		for i := range rows {
			rows[i] = append(rows[i], cells[i])
		}
	}
	return titles, rows
}

func number(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func millis(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
