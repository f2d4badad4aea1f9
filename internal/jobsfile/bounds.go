package jobsfile

import (
	"fmt"

	"github.com/goccy/go-yaml/token"
)

// What the parser is given is bounded beforehand, by its tokens. It calls itself
// for each level of values and for each field of a mapping, its time grows with
// the square of the fields of a mapping, of the values that are left out and of
// the documents, and it needs some hundred bytes for each token. A file of people comes nowhere
// near; one made to hurt takes minutes.
const (
	maxTokens = 1 << 19
	maxFields = 1000 // of one mapping
	maxEmpty  = 1000 // values left out
)

// shape walks over the tokens of a file.
type shape struct {
	r            *reader
	open         []frame // brackets, outermost first
	block        []frame // mappings outside of brackets, by their columns
	line         int
	begun        int // levels that begin on this line, outside of brackets
	marks        int // tags and anchors in a row
	empty        int
	begins, ends int // marks of documents
}

// frame is a list or mapping that is open.
type frame struct {
	mapping bool
	column  int
	fields  int
}

// bounded reports whether the parser may have the tokens.
func (r *reader) bounded(tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		r.add(Problem{Message: fmt.Sprintf("the file has %d words and signs, at most %d are read", len(tokens), maxTokens), Hint: "split it into several files"})
		return false
	}
	s := shape{r: r}
	for _, tk := range tokens {
		if !s.take(tk) {
			return false
		}
	}
	return true
}

func (s *shape) take(tk *token.Token) bool {
	if tk.Position.Line != s.line {
		s.line, s.begun = tk.Position.Line, 0
	}
	flow := len(s.open) > 0
	switch tk.Type {
	case token.SequenceStartType, token.MappingStartType:
		s.open = append(s.open, frame{mapping: tk.Type == token.MappingStartType, fields: 1})
	case token.SequenceEndType, token.MappingEndType:
		if flow {
			s.open = s.open[:len(s.open)-1]
		}
	case token.CollectEntryType:
		if flow && !s.field(&s.open[len(s.open)-1]) {
			return false
		}
	case token.SequenceEntryType:
		s.begun++
		s.leave(tk.Position.Column)
	case token.MappingValueType:
		if !flow && !s.key(tk) {
			return false
		}
	case token.DocumentHeaderType:
		s.begins++
	case token.DocumentEndType:
		s.ends++
	case token.MappingKeyType:
		s.r.add(Problem{Line: s.line, Value: "?", Message: "a key must be text", Hint: "write it as key: value"})
		return false
	}
	if n := len(s.open); isEmpty(tk, n > 0 && s.open[n-1].mapping) {
		s.empty++
	}
	switch {
	case tk.Type == token.TagType || tk.Type == token.AnchorType:
		s.marks++
	case tk.PreviousType() != token.AnchorType: // otherwise it is the anchor's name
		s.marks = 0
	}
	switch {
	case len(s.open) > maxDepth || s.begun > maxDepth || s.marks > maxDepth:
		s.r.tooDeep(s.line)
		return false
	case s.begins > 1 || s.ends > 1:
		s.r.severalDocuments(s.line)
		return false
	case s.empty > maxEmpty:
		s.r.add(Problem{Line: s.line, Message: fmt.Sprintf("the file leaves out more than %d values", maxEmpty), Hint: "give a value or remove the field"})
		return false
	}
	return true
}

// key counts a field of a block mapping. Its column tells which.
func (s *shape) key(tk *token.Token) bool {
	column := tk.Position.Column
	if tk.Prev != nil {
		column = tk.Prev.Position.Column
	}
	s.begun++
	s.leave(column)
	if n := len(s.block); n == 0 || s.block[n-1].column < column {
		s.block = append(s.block, frame{mapping: true, column: column})
	}
	return s.field(&s.block[len(s.block)-1])
}

// leave forgets the mappings further to the right.
func (s *shape) leave(column int) {
	for n := len(s.block); n > 0 && s.block[n-1].column > column; n-- {
		s.block = s.block[:n-1]
	}
}

func (s *shape) field(f *frame) bool {
	if f.fields++; f.mapping && f.fields > maxFields {
		s.r.tooWide(s.line)
		return false
	}
	return true
}

func (r *reader) severalDocuments(line int) {
	r.add(Problem{Line: line, Message: "the file holds several documents", Hint: "put all jobs into one list, or into files of their own"})
}

func (r *reader) tooWide(line int) {
	r.add(Problem{Line: line, Message: fmt.Sprintf("a mapping has more than %d fields", maxFields)})
}

// isEmpty reports whether the parser has to put a value after the token, where
// none is written.
func isEmpty(tk *token.Token, inFlowMapping bool) bool {
	next := tk.Next
	switch tk.Type {
	case token.SequenceEntryType:
		return next == nil || next.Type == token.SequenceEntryType && next.Position.Line > tk.Position.Line
	case token.MappingValueType:
		if next == nil || next.Type == token.CollectEntryType || next.Type == token.MappingEndType || next.Type == token.SequenceEndType {
			return true
		}
		return !inFlowMapping && next.Position.Line > tk.Position.Line && tk.Prev != nil && next.Position.Column <= tk.Prev.Position.Column &&
			!(next.Type == token.SequenceEntryType && next.Position.Column == tk.Prev.Position.Column)
	case token.CollectEntryType, token.MappingStartType, token.SequenceStartType, token.MappingEndType, token.SequenceEndType:
		return false
	}
	// A key without a colon, in braces.
	return inFlowMapping && tk.Prev != nil && (tk.Prev.Type == token.MappingStartType || tk.Prev.Type == token.CollectEntryType) &&
		next != nil && (next.Type == token.CollectEntryType || next.Type == token.MappingEndType)
}
