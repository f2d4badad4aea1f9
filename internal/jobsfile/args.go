package jobsfile

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// maxWritten bounds what values become when their aliases are written out.
const maxWritten = 4 * MaxBytes

// write charges bytes that are written out; false when there are too many.
func (r *reader) write(n, line int) bool {
	before := r.written
	r.written += n + 1
	if before <= maxWritten && r.written > maxWritten {
		r.add(Problem{Line: line, Message: fmt.Sprintf("the values take more than %d bytes with what their aliases stand for", maxWritten), Hint: "split the file into several"})
	}
	return r.written <= maxWritten
}

// args writes a value as JSON, its numbers with the digits they have.
func (o object) args(name string) json.RawMessage {
	f, ok := o.find(name)
	if !ok {
		return nil
	}
	if f.value.kind == nothing {
		o.wrong(o.at(name), f.line, f.value, "")
		return nil
	}
	w := argsWriter{o: o}
	w.value(&trail{name: o.at(name)}, f.value, 0)
	if w.refused {
		o.bad[o.at(name)] = true
		return nil
	}
	return w.b.Bytes()
}

// trail is the way to a value, spelled out only for a problem.
type trail struct {
	up    *trail
	name  string // of a field; the first is a whole path
	index int    // of an item
}

func (t *trail) String() string {
	switch {
	case t.up == nil:
		return t.name
	case t.name == "":
		return fmt.Sprintf("%s[%d]", t.up, t.index)
	}
	return object{path: t.up.String()}.at(t.name)
}

type argsWriter struct {
	o       object
	b       bytes.Buffer
	refused bool
}

func (w *argsWriter) refuse(t *trail, line int, value, message, hint string) {
	w.refused = true
	w.o.report(t.String(), line, value, message, hint)
}

func (w *argsWriter) value(t *trail, n *node, depth int) {
	if !w.o.r.write(len(n.text), n.line) {
		w.refused = true
		return
	}
	if depth > maxDepth {
		w.refused = true
		w.o.r.tooDeep(n.line)
		return
	}
	switch n.kind {
	case nothing:
		w.b.WriteString("null")
	case boolean:
		w.b.WriteString(n.text)
	case number:
		if !plainNumber(n.text) {
			w.refuse(t, n.line, n.text, "is a number that JSON does not know", decimalHint+", or in quotes")
		}
		w.b.WriteString(n.text)
	case text:
		w.quote(n.text)
	case list:
		w.b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				w.b.WriteByte(',')
			}
			w.value(&trail{up: t, index: i}, item, depth+1)
		}
		w.b.WriteByte(']')
	case mapping:
		w.mapping(t, n, depth)
	}
}

func (w *argsWriter) mapping(t *trail, n *node, depth int) {
	if from := n.get("from_env"); from != nil && from.kind == text && len(n.fields) == 1 {
		w.refuse(t, n.line, "", "from_env is read in exec.env alone, and args are stored as they are written", "give the variable to the command in exec.env, or have your worker read it")
		return
	}
	lines := make(map[string]int, len(n.fields))
	w.b.WriteByte('{')
	for i, f := range n.fields {
		inner := &trail{up: t, name: f.name}
		if first, twice := lines[f.name]; twice {
			w.refuse(inner, f.line, "", fmt.Sprintf("is given twice, first on line %d", first), "")
		}
		lines[f.name] = f.line
		if !w.o.r.write(len(f.name), f.line) {
			w.refused = true
			return
		}
		if i > 0 {
			w.b.WriteByte(',')
		}
		w.quote(f.name)
		w.b.WriteByte(':')
		w.value(inner, f.value, depth+1)
	}
	w.b.WriteByte('}')
}

func (w *argsWriter) quote(s string) {
	e := json.NewEncoder(&w.b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // text always encodes
	w.b.Truncate(w.b.Len() - 1)
}
