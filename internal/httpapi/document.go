package httpapi

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookhq/daybook/worker/protocol"
)

// OpenAPI is the document of the API as YAML, as it is served.
func OpenAPI() ([]byte, error) { return documented().huma.OpenAPI().YAML() }

// documented is an API that can describe itself, and do nothing else.
func documented() *api {
	a := &api{Config: Config{Gather: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler), Events: http.NotFoundHandler()},
		mux: http.NewServeMux(), routes: map[string]*route{}}
	a.build()
	return a
}

// document completes the document, and serves it and the page made from it.
func (a *api) document() {
	a.describePlain()
	a.tidy()
	spec, err := json.Marshal(a.huma.OpenAPI())
	if err != nil {
		panic("the API's document cannot be written: " + err.Error()) // it is made of constants
	}
	page, policy := a.page()
	open := func() *route { return &route{timeout: requestTimeout, limit: maxJSON} }
	a.plain("GET /openapi.json", open(), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(spec)
	})
	html := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		_, _ = w.Write(page)
	}
	a.plain("GET /docs", open(), html)
	a.plain("GET /problems/{kind}", open(), func(w http.ResponseWriter, r *http.Request) {
		k := kind(r.PathValue("kind"))
		about, ok := kinds[k]
		if !ok {
			a.refuse(w, r, newProblem(kindNotFound, "there is no such type of problem: /docs lists them"))
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(string(k) + " (" + http.StatusText(about.status) + ")\n\n" + about.meaning + "\n"))
	})
}

// describePlain adds the operations that huma does not serve.
func (a *api) describePlain() {
	doc := a.huma.OpenAPI()
	answer := func(media, what string, schema *huma.Schema) map[string]*huma.Response {
		return map[string]*huma.Response{"200": {Description: what, Content: map[string]*huma.MediaType{media: {Schema: schema}}}}
	}
	text := &huma.Schema{Type: huma.TypeString}
	plain := func(path, id, summary, description string) {
		doc.AddOperation(&huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Tags: []string{"Health"}, Summary: summary, Description: description,
			Responses: answer("text/plain", "As it is", text)})
	}
	plain("/livez", "live", "Tell whether the process serves", "")
	plain("/readyz", "ready", "Tell whether the process can do its work", "503 and a problem if not.")
	plain("/metrics", "metrics", "Metrics for Prometheus", "")
	if a.Events != nil {
		a.describeEvents(answer("application/json", "A page of events", &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}))
	}
	for _, op := range workOps {
		o := &huma.Operation{OperationID: "work-" + op, Method: http.MethodPost, Path: protocol.HTTPPath(op), Tags: []string{"Worker protocol"},
			Summary: "Worker protocol: " + op, Description: "The same JSON as over NATS; see the worker protocol's description.",
			Responses: answer("application/json", "The protocol's reply", &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}),
			RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
				"application/json": {Schema: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}}}}}
		for _, s := range a.routes["POST "+protocol.HTTPPath(op)].scopes {
			o.Security = append(o.Security, map[string][]string{"token": {string(s)}})
		}
		doc.AddOperation(o)
	}
}

func (a *api) describeEvents(responses map[string]*huma.Response) {
	responses["200"].Content["text/event-stream"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	param := func(name, in, doc string) *huma.Param {
		return &huma.Param{Name: name, In: in, Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	a.huma.OpenAPI().AddOperation(&huma.Operation{OperationID: "list-events", Method: http.MethodGet, Path: "/v1/events", Tags: []string{"Events"},
		Summary: "Read or follow the log", Description: "In commit-safe order. As Server-Sent Events when asked for text/event-stream.",
		Security: []map[string][]string{{"token": {string(ScopeRead)}}},
		Parameters: []*huma.Param{param("after", "query", "Goes on where a page ended: its next. Or a position, or now for the end of the log"), param("type", "query", "Events of this type"),
			param("stream", "query", "Events of this run or job"), param("job", "query", "Events of the job of this name and of its runs"),
			param("since", "query", "Events of this instant or later"), param("until", "query", "Events of this instant or earlier"),
			param("limit", "query", "At most so many, up to 500"), param("wait", "query", "How long a page waits at the end of the log for an event, up to 25s"),
			param("format", "query", "cloudevent, or record for events as they stand in the log"), param("Last-Event-ID", "header", "Goes on where a stream broke")},
		Responses: responses})
}

// tidy takes out of the document what huma put there and what is not so.
func (a *api) tidy() {
	doc := a.huma.OpenAPI()
	for _, name := range []string{"ErrorModel", "ErrorDetail"} {
		delete(doc.Components.Schemas.Map(), name)
	}
	for _, s := range doc.Components.Schemas.Map() {
		for _, field := range s.Properties {
			if field.Type == huma.TypeArray {
				field.Nullable = false // a list without entries is [], or absent
			}
		}
	}
	for _, p := range doc.Paths {
		for _, op := range operationsOf(p) {
			if body := op.RequestBody; body != nil {
				delete(body.Content, "application/octet-stream")
			}
		}
	}
}

func operationsOf(p *huma.PathItem) []*huma.Operation {
	all := []*huma.Operation{p.Get, p.Put, p.Post, p.Delete}
	return slices.DeleteFunc(all, func(o *huma.Operation) bool { return o == nil })
}

// schemaName is the name of what a schema refers to.
func schemaName(s *huma.Schema) string {
	if s == nil {
		return ""
	}
	return strings.TrimPrefix(s.Ref, "#/components/schemas/")
}
