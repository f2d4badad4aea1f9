package jobsfile

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// loadYAML reads YAML.
func (r *reader) loadYAML(src []byte) (root *node) {
	defer func() {
		// The parser indexes into its tokens; a source that it does not expect
		// must not take down who reads it.
		if p := recover(); p != nil {
			r.add(Problem{Message: fmt.Sprintf("the YAML parser gave up: %v", p)})
			root = nil
		}
	}()
	source := string(src)
	tokens := lexer.Tokenize(source)
	if !r.bounded(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(source, err)
		return nil
	}
	body := r.document(file)
	if body == nil {
		return &node{line: 1}
	}
	y := yamlReader{r: r, anchors: map[string]*node{}}
	return y.value(body, 0)
}

// document is the body of the only document, nil if there is none.
func (r *reader) document(file *ast.File) (body ast.Node) {
	for _, d := range file.Docs {
		_, directive := d.Body.(*ast.DirectiveNode)
		switch {
		case d.Body == nil || directive:
		case body != nil:
			r.severalDocuments(lineOf(d.Body))
			return nil
		default:
			body = d.Body
		}
	}
	return body
}

// syntax reports an error of the parser.
func (r *reader) syntax(source string, err error) {
	var at interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &at) {
		r.add(Problem{Message: "the file cannot be read as YAML: " + err.Error()})
		return
	}
	p := Problem{Message: at.GetMessage()}
	if tk := at.GetToken(); tk != nil && tk.Position != nil {
		p.Line = tk.Position.Line
	}
	p.Message = "the file is not valid YAML: " + p.Message
	p.Hint = needsQuotes(source, p.Line)
	r.add(p)
}

// needsQuotes recognises the commonest slip: an expression of a schedule begins
// with a character that means something else in YAML.
func needsQuotes(source string, line int) string {
	lines := strings.Split(source, "\n")
	for _, i := range []int{line - 1, line - 2} { // some errors are noticed one line late
		if i < 0 || i >= len(lines) {
			continue
		}
		_, value, found := strings.Cut(lines[i], ":")
		if value = strings.TrimSpace(value); found && value != "" && strings.ContainsAny(value[:1], "*@%&!`") {
			return "write the value in quotes: " + `"` + strings.Trim(value, `"'`) + `"`
		}
	}
	return ""
}

func lineOf(n ast.Node) int {
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		return tk.Position.Line
	}
	return 0
}

// yamlReader turns the parser's nodes into ours.
type yamlReader struct {
	r       *reader
	anchors map[string]*node
}

func (y *yamlReader) value(a ast.Node, depth int) *node {
	n := &node{line: lineOf(a)}
	if !y.r.count(1, n.line) {
		return n
	}
	if depth > maxDepth {
		y.r.tooDeep(n.line)
		return n
	}
	switch a := a.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		n.kind, n.text = boolean, fmt.Sprint(a.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = number, a.GetToken().Value
	case *ast.StringNode:
		n.kind, n.text = text, a.Value
		// The parser takes 1e3, and numbers that no machine integer holds, for
		// text; YAML does not.
		if a.Token.Type == token.StringType && plainScalar.MatchString(a.Value) {
			n.kind = number
		}
	case *ast.LiteralNode:
		n.kind, n.text = text, a.Value.Value
	case *ast.SequenceNode:
		n.kind = list
		for _, item := range a.Values {
			n.items = append(n.items, y.value(item, depth+1))
		}
	case *ast.MappingNode:
		n.kind = mapping
		for _, entry := range a.Values {
			y.entry(n, entry, depth)
		}
		n.merge()
	case *ast.MappingValueNode:
		n.kind = mapping
		y.entry(n, a, depth)
		n.merge()
	case *ast.AnchorNode:
		anchored := y.value(a.Value, depth)
		y.anchors[a.Name.String()] = anchored // known from here on, so nothing holds itself
		return anchored
	case *ast.AliasNode:
		name := a.Value.String()
		if anchored, ok := y.anchors[name]; ok {
			return anchored
		}
		y.r.add(Problem{Line: n.line, Value: "*" + name, Message: "no anchor of that name comes before it", Hint: needsQuotesAlias})
	case *ast.TagNode:
		y.r.add(Problem{Line: n.line, Value: a.Start.Value, Message: "tags are not understood", Hint: "write text in quotes, and numbers without"})
	default:
		y.r.add(Problem{Line: n.line, Message: fmt.Sprintf("%s is not understood", a.Type())})
	}
	return n
}

// plainScalar is what YAML reads as a decimal number if it has no quotes.
var plainScalar = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

const needsQuotesAlias = "text that begins with * needs quotes"

// mergeKey is the name under which what is merged is kept until the mapping is
// complete. It cannot be written: the source holds no invalid UTF-8.
const mergeKey = "\xff<<"

func (y *yamlReader) entry(n *node, entry *ast.MappingValueNode, depth int) {
	f := field{line: lineOf(entry.Key)}
	switch key := entry.Key.(type) {
	case *ast.StringNode:
		f.name = key.Value
	case *ast.MergeKeyNode:
		f.name = mergeKey
		f.value = y.value(entry.Value, depth+1)
		parts := []*node{f.value}
		if f.value.kind == list {
			parts = f.value.items
		}
		for _, part := range parts {
			if part.kind != mapping {
				y.r.add(Problem{Line: f.line, Field: "<<", Message: "is " + part.kind.String(), Hint: "want an alias of a mapping, or a list of such"})
				return
			}
			if !y.r.count(len(part.fields), f.line) {
				return
			}
		}
		f.value = &node{kind: list, line: f.line, items: parts}
		n.fields = append(n.fields, f)
		return
	default:
		y.r.add(Problem{Line: f.line, Value: entry.Key.GetToken().Value, Message: "a key must be text", Hint: "write it in quotes"})
		return
	}
	f.value = y.value(entry.Value, depth+1)
	n.fields = append(n.fields, f)
}

// merge adds the fields of merged mappings that the mapping does not have
// itself, earlier ones first.
func (n *node) merge() {
	var own []field
	var merged []*node
	have := map[string]bool{}
	for _, f := range n.fields {
		if f.name == mergeKey {
			merged = append(merged, f.value.items...)
			continue
		}
		own = append(own, f)
		have[f.name] = true
	}
	for _, m := range merged {
		for _, f := range m.fields {
			if !have[f.name] {
				have[f.name] = true
				own = append(own, f)
			}
		}
	}
	n.fields = own
}
