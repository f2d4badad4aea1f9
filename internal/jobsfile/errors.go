package jobsfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`  // from 1; 0 where the whole file is meant
	Field   string `json:"field,omitempty"` // jobs[2].retry.max
	Value   string `json:"value,omitempty"` // as it was written, shortened
	Code    string `json:"code,omitempty"`  // of a refused schedule, E_RANGE and so on
	Message string `json:"message"`         // what is wrong
	Hint    string `json:"hint,omitempty"`  // what would be right
}

func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	if p.Value != "" {
		b.WriteString(strconv.Quote(p.Value) + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// maxProblems bounds what is kept of a file in which nothing is right.
const maxProblems = 1000

// Errors is why a file is refused: every problem in the order of its lines.
type Errors struct {
	Problems []Problem
	More     int // problems beyond the first 1000, which are not kept
}

// Error lists the problems, one a line.
func (e *Errors) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Error())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\nand %d more problems", e.More)
	}
	return b.String()
}

func (r *reader) add(p Problem) {
	if len(r.problems) == maxProblems {
		r.more++
		return
	}
	p.File, p.Value = r.name, shorten(p.Value)
	r.problems = append(r.problems, p)
}

func (r *reader) failed() bool { return len(r.problems) > 0 }

func (r *reader) errors() error {
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return &Errors{Problems: r.problems, More: r.more}
}

// shorten keeps a value readable whatever the file holds.
func shorten(s string) string {
	const limit = 80
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= limit {
		return s
	}
	cut := limit
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
