package crontab

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Bounds on what is read. A line beyond MaxLine is a Problem; a file beyond one of the others is refused whole, as it is no
// crontab or would cost memory out of proportion.
const (
	MaxLine      = 64 << 10 // bytes
	MaxLines     = 500_000
	MaxErrors    = 10_000  // lines in error
	MaxVariables = 1000    // in effect at the same time
	maxCopied    = 2 << 20 // variables in all snapshots of the environment together
)

// Options say how a file is to be read.
type Options struct {
	// File names the file. Job names derive from it, so that the same file must always come under the same name:
	// give its absolute path.
	File string
	// System is the format with a user column, as in /etc/crontab and /etc/cron.d.
	System bool
	// Zone is the IANA time zone of the schedules above the first CRON_TZ; empty means UTC.
	Zone string
}

// File is a crontab as read, in the order of its lines.
type File struct {
	Entries  []Entry
	Problems []Problem
}

// Errors counts the problems of severity Error: the lines that would be left out.
func (f *File) Errors() int {
	n := 0
	for _, p := range f.Problems {
		if p.Severity == Error {
			n++
		}
	}
	return n
}

// Severity says what a Problem means for its line.
type Severity string

// The severities.
const (
	Skipped Severity = "skipped" // left out on purpose: @reboot
	Warning Severity = "warning" // taken over, with a difference or a doubt worth knowing
	Error   Severity = "error"   // cannot be honoured
)

// Problem is one line that is not taken over as it stands.
type Problem struct {
	Line     int      `json:"line"` // from 1
	Text     string   `json:"text"` // printable, shortened when long
	Reason   string   `json:"reason"`
	Severity Severity `json:"severity"`
}

func (p Problem) String() string {
	return fmt.Sprintf("line %d: %s: %s: %s", p.Line, p.Severity, p.Reason, p.Text)
}

// Parse reads a crontab. Bad lines are Problems; the error is for a file that cannot be read at all or exceeds a bound.
func Parse(r io.Reader, o Options) (*File, error) {
	p := newParser(o)
	lines := newLineReader(r)
	for {
		l, err := lines.next()
		if errors.Is(err, io.EOF) {
			return p.file, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", o.File, err)
		}
		p.line(l)
		if err := p.bounds(l.number); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", o.File, l.number, err)
		}
	}
}

func (p *parser) bounds(line int) error {
	switch {
	case line > MaxLines:
		return fmt.Errorf("more than %d lines", MaxLines)
	case p.errors > MaxErrors:
		return fmt.Errorf("more than %d lines cannot be honoured; is this a crontab?", MaxErrors)
	case p.env.copied > maxCopied:
		return fmt.Errorf("too many variables change between too many entries; set them together at the top")
	}
	return nil
}

// parser is the state between lines.
type parser struct {
	opt     Options
	file    *File
	env     variables
	zone    string
	zoneSet int // the line of the CRON_TZ in effect, or 0
	comment []string
	names   namer
	checked map[check]error
	errors  int
	crlf    bool // warned about
}

func newParser(o Options) *parser {
	return &parser{opt: o, file: &File{}, zone: o.Zone, names: newNamer(o.File), checked: map[check]error{}}
}

func (p *parser) problem(l line, s Severity, format string, args ...any) {
	if s == Error {
		p.errors++
	}
	p.file.Problems = append(p.file.Problems,
		Problem{Line: l.number, Text: printable(l.text), Reason: fmt.Sprintf(format, args...), Severity: s})
}

func (p *parser) line(l line) {
	if l.number == 1 && strings.HasPrefix(l.text, "\ufeff") {
		l.text = strings.TrimPrefix(l.text, "\ufeff")
		p.problem(l, Warning, "the file starts with a byte order mark, which cron would take for part of the line; it is dropped")
	}
	if l.crlf && !p.crlf {
		p.crlf = true
		p.problem(l, Warning, "lines end in CR LF; the CR, which cron would pass to the command, is dropped here and below")
	}
	l.text = strings.TrimLeft(l.text, " \t")
	switch {
	case l.text == "":
		p.comment = nil
	case l.text[0] == '#':
		p.remember(l.text)
	default:
		p.statement(l)
		p.comment = nil
	}
}

func (p *parser) statement(l line) {
	switch {
	case l.long:
		p.problem(l, Error, "longer than %d bytes", MaxLine)
		return
	case strings.ContainsRune(l.text, 0):
		p.problem(l, Error, "holds a NUL byte")
		return
	case !utf8.ValidString(l.text):
		p.problem(l, Error, "not valid UTF-8; convert the file, for example with iconv")
		return
	case l.unended:
		p.problem(l, Warning, "the last line does not end in a line break; cron would ignore it")
	}
	if name, value, ok := assignment(l.text); ok {
		p.assign(l, name, value)
		return
	}
	if reason := brokenAssignment(l.text); reason != "" {
		p.problem(l, Error, "%s", reason)
		return
	}
	p.entry(l)
}

// maxComment bounds the comment kept for an entry, in bytes.
const maxComment = 500

// remember keeps the block of comments directly above an entry. The customary line of column titles belongs to the
// file, and an entry that was commented out to itself; so does what stands above them.
func (p *parser) remember(text string) {
	text = strings.TrimSpace(strings.TrimLeft(text, "#"))
	if words := strings.Join(strings.Fields(text), " ") + " "; strings.HasPrefix(words, "m h dom mon dow ") || commentedOut(text) {
		p.comment = nil
		return
	}
	size := len(text)
	for _, c := range p.comment {
		size += len(c) + 1
	}
	if text != "" && size <= maxComment {
		p.comment = append(p.comment, clean(text))
	}
}

func commentedOut(text string) bool {
	expr, rest, err := timing(text)
	if err != nil || rest == "" {
		return false
	}
	for f := range strings.FieldsSeq(expr) {
		if f[0] != '@' && !timeField.MatchString(f) {
			return false
		}
	}
	return true
}

// clean makes text fit to be stored and shown; printable shortens it too.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return '\ufffd'
		}
		return r
	}, s)
}

func printable(s string) string {
	const limit = 200
	if len(s) <= limit {
		return strings.TrimRight(clean(s), " \t")
	}
	cut := limit
	for cut > limit-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return clean(s[:cut]) + "…"
}
