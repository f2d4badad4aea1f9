package jobsfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// kind says what a value is.
type kind int

const (
	nothing kind = iota
	boolean
	number
	text
	list
	mapping
)

func (k kind) String() string {
	return [...]string{"empty", "true or false", "a number", "text", "a list", "a mapping"}[k]
}

// node is a value of the file, be it YAML or JSON. An alias shares the node of
// its anchor.
type node struct {
	kind   kind
	line   int
	text   string // of text, and of other scalars as they are written
	items  []*node
	fields []field
}

// field is an entry of a mapping.
type field struct {
	name  string
	line  int
	value *node
}

func (n *node) get(name string) *node {
	for _, f := range n.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// shown is the value for messages.
func (n *node) shown() string {
	switch n.kind {
	case boolean, number, text:
		return n.text
	default:
		return ""
	}
}

// reader reads one file and gathers its problems.
type reader struct {
	name     string
	options  Options
	problems []Problem
	more     int
	nodes    int // made so far, and copied by merging
	written  int // nodes written out as JSON
}

func newReader(name string, o Options) *reader { return &reader{name: name, options: o} }

// load reads the source into nodes.
func (r *reader) load(src []byte) *node {
	if len(src) > MaxBytes {
		r.add(Problem{Message: fmt.Sprintf("the file has %d bytes, at most %d (1 MiB) are read", len(src), MaxBytes), Hint: "split it into several files"})
		return nil
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	for i, line := 0, 1; i < len(src); {
		c, size := utf8.DecodeRune(src[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			r.add(Problem{Line: line, Message: "the file is not UTF-8", Hint: "save it as UTF-8"})
			return nil
		case c == '\n':
			line++
		}
		i += size
	}
	if json.Valid(src) {
		return r.loadJSON(src)
	}
	return r.loadYAML(src)
}

// count charges nodes; false when there are too many.
func (r *reader) count(n, line int) bool {
	before := r.nodes
	r.nodes += n
	if before <= maxNodes && r.nodes > maxNodes {
		r.add(Problem{Line: line, Message: fmt.Sprintf("the file has more than %d values, with what its aliases stand for", maxNodes), Hint: "split it into several files"})
	}
	return r.nodes <= maxNodes
}

func (r *reader) tooDeep(line int) {
	r.add(Problem{Line: line, Message: fmt.Sprintf("values are nested more than %d deep", maxDepth)})
}
