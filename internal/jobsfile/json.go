package jobsfile

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// loadJSON reads JSON that is known to be valid.
func (r *reader) loadJSON(src []byte) *node {
	d := jsonReader{r: r, src: src, line: 1, dec: json.NewDecoder(bytes.NewReader(src))}
	d.dec.UseNumber()
	return d.value(0)
}

type jsonReader struct {
	r       *reader
	src     []byte
	dec     *json.Decoder
	line    int
	counted int64 // bytes in which lines have been counted
}

// token gives the next token and the line on which it ends.
func (d *jsonReader) token() (json.Token, int) {
	t, err := d.dec.Token()
	if err != nil { // the source is valid, so this is the end of it
		return nil, d.line
	}
	at := d.dec.InputOffset()
	d.line += bytes.Count(d.src[d.counted:at], []byte{'\n'})
	d.counted = at
	return t, d.line
}

func (d *jsonReader) value(depth int) *node {
	t, line := d.token()
	n := &node{line: line}
	if !d.r.count(1, line) {
		return n
	}
	if depth > maxDepth {
		if !d.r.failed() {
			d.r.tooDeep(line)
		}
		return n
	}
	switch t := t.(type) {
	case bool:
		n.kind, n.text = boolean, fmt.Sprint(t)
	case json.Number:
		n.kind, n.text = number, t.String()
	case string:
		n.kind, n.text = text, t
	case json.Delim:
		if n.kind = mapping; t == '[' {
			n.kind = list
		}
		for d.dec.More() && !d.r.failed() {
			if n.kind == list {
				n.items = append(n.items, d.value(depth+1))
				continue
			}
			key, at := d.token()
			if len(n.fields) == maxFields {
				d.r.tooWide(at)
				return n
			}
			name, _ := key.(string)
			n.fields = append(n.fields, field{name: name, line: at, value: d.value(depth + 1)})
		}
		d.token()
	}
	return n
}
