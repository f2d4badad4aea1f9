package httpapi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsHTML string

//go:embed docs.css
var docsCSS string

// page makes the page of the document: one file that loads nothing, so that it
// can be read where there is no other network.
func (a *api) page() (html []byte, policy string) {
	t := template.Must(template.New("docs").Funcs(template.FuncMap{"schema": schemaText, "style": func() template.CSS { return template.CSS(docsCSS) }}).Parse(docsHTML))
	var b bytes.Buffer
	if err := t.Execute(&b, a.pageData()); err != nil {
		panic("the API's page cannot be written: " + err.Error()) // it is made of constants
	}
	sum := sha256.Sum256([]byte(docsCSS))
	return b.Bytes(), "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

type docsPage struct {
	Info     *huma.Info
	Groups   []docsGroup
	Schemas  []docsSchema
	Problems []docsProblem
}

type docsGroup struct {
	Name       string
	Operations []docsOperation
}

type docsOperation struct {
	*huma.Operation
	Scopes    string
	BodyTypes []docsBody
	Answers   []docsAnswer
}

type docsBody struct {
	Media  string
	Schema *huma.Schema
}

type docsAnswer struct {
	Status string
	*huma.Response
	Bodies []docsBody
}

type docsSchema struct {
	Name   string
	Fields []docsField
}

type docsField struct {
	Name     string
	Required bool
	Schema   *huma.Schema
}

type docsProblem struct {
	Kind    kind
	Status  int
	Meaning string
}

func (a *api) pageData() docsPage {
	doc := a.huma.OpenAPI()
	p := docsPage{Info: doc.Info}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, op := range operationsOf(doc.Paths[path]) {
			p.add(op)
		}
	}
	order := []string{tagJobs, tagRuns, "Events", tagOperations, "Worker protocol", "Health"}
	slices.SortFunc(p.Groups, func(a, b docsGroup) int {
		return cmp.Compare(slices.Index(order, a.Name), slices.Index(order, b.Name))
	})
	schemas := doc.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		p.Schemas = append(p.Schemas, docsSchema{name, fieldsOf(schemas[name])})
	}
	for k, about := range kinds {
		p.Problems = append(p.Problems, docsProblem{k, about.status, about.meaning})
	}
	slices.SortFunc(p.Problems, func(a, b docsProblem) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Kind, b.Kind))
	})
	return p
}

func (p *docsPage) add(op *huma.Operation) {
	d := docsOperation{Operation: op}
	var scopes []string
	for _, s := range op.Security {
		scopes = append(scopes, s["token"]...)
	}
	d.Scopes = strings.Join(scopes, " or ")
	if op.RequestBody != nil {
		d.BodyTypes = bodiesOf(op.RequestBody.Content)
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		if status != "default" {
			d.Answers = append(d.Answers, docsAnswer{status, op.Responses[status], bodiesOf(op.Responses[status].Content)})
		}
	}
	i := slices.IndexFunc(p.Groups, func(g docsGroup) bool { return g.Name == op.Tags[0] })
	if i < 0 {
		i = len(p.Groups)
		p.Groups = append(p.Groups, docsGroup{Name: op.Tags[0]})
	}
	p.Groups[i].Operations = append(p.Groups[i].Operations, d)
}

func bodiesOf(content map[string]*huma.MediaType) (out []docsBody) {
	for _, media := range slices.Sorted(maps.Keys(content)) {
		out = append(out, docsBody{media, content[media].Schema})
	}
	return out
}

func fieldsOf(s *huma.Schema) (out []docsField) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		out = append(out, docsField{name, slices.Contains(s.Required, name), s.Properties[name]})
	}
	return out
}

// schemaText writes a schema as markup: a name that leads to its description, or
// a word.
func schemaText(s *huma.Schema) template.HTML {
	switch {
	case s == nil:
		return ""
	case s.Ref != "":
		name := template.HTMLEscapeString(schemaName(s))
		return template.HTML(`<a href="#schema-` + name + `">` + name + `</a>`)
	case s.Type == huma.TypeArray:
		return "list of " + schemaText(s.Items)
	case s.Type == "" && len(s.OneOf) > 0:
		var parts []string
		for _, one := range s.OneOf {
			parts = append(parts, string(schemaText(one)))
		}
		return template.HTML(strings.Join(parts, " or "))
	case s.Type == "":
		return "any"
	case s.Format == "date-time":
		return "instant"
	case len(s.Enum) > 0:
		var words []string
		for _, e := range s.Enum {
			if w, ok := e.(string); ok {
				words = append(words, template.HTMLEscapeString(w))
			}
		}
		return template.HTML(strings.Join(words, " | "))
	}
	return template.HTML(template.HTMLEscapeString(s.Type))
}
