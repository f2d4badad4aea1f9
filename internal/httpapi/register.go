package httpapi

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/projections"
)

// apiVersion is the version of the document: of the paths, not of the program.
const apiVersion = "1"

func (a *api) humaConfig() huma.Config {
	names := map[reflect.Type]string{
		reflect.TypeFor[projections.Output](): "AttemptOutput", // beside the output itself
	}
	registry := huma.NewMapRegistry("#/components/schemas/", func(t reflect.Type, hint string) string {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if name, ok := names[t]; ok {
			return name
		}
		return huma.DefaultSchemaNamer(t, hint)
	})
	registry.RegisterTypeAlias(reflect.TypeFor[domain.Duration](), reflect.TypeFor[string]())
	c := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{Title: "Daybook", Version: apiVersion,
				Description: "Jobs, their runs and their history. Instants are RFC 3339 in UTC, durations are Go's (\"90s\", \"10m\"), ids are text. " +
					"Answers may get more fields; requests with a field that the operation does not know are refused."},
			Components: &huma.Components{Schemas: registry, SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer", Description: "A token made by `daybook token create`. Without any token in the deployment, requests from the same machine need none."},
			}},
		},
		Formats:                      map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers: []huma.Transformer{func(ctx huma.Context, _ string, v any) (any, error) {
			if m, ok := v.(*huma.ErrorModel); ok {
				return a.complete(ctx.Context(), fromHuma(m)), nil
			}
			return v, nil
		}},
	}
	c.AllowAdditionalPropertiesByDefault = true // of answers; requests say otherwise
	return c
}

// operation is what there is to say of one.
type operation struct {
	id, method, path string
	tag              string
	summary          string
	description      string
	scopes           []Scope
	creates          bool
	waits            bool          // mostly: see route
	long             bool          // answers with lines for as long as it takes
	limit            int64         // 0: maxJSON
	timeout          time.Duration // 0: requestTimeout
	statuses         []int         // of success, the standard one first; none: 200
	body             *huma.RequestBody
}

// handle registers an operation with the handler that carries it out.
func handle[I, O any](a *api, o operation, h func(ctx context.Context, in *I) (*O, error)) {
	if o.limit == 0 {
		o.limit = maxJSON
	}
	if o.timeout == 0 && !o.long {
		o.timeout = requestTimeout
	}
	a.routes[o.method+" "+o.path] = &route{scopes: o.scopes, creates: o.creates, limit: o.limit, timeout: o.timeout, waits: o.waits}
	op := a.described(o)
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := h(ctx, in)
		if err != nil {
			return nil, a.complete(ctx, problemOf(err))
		}
		return out, nil
	})
	// Other successes have the same body.
	if len(o.statuses) > 1 {
		standard := op.Responses[strconv.Itoa(o.statuses[0])]
		for _, s := range o.statuses[1:] {
			same := &huma.Response{Description: http.StatusText(s), Headers: maps.Clone(standard.Headers)}
			if s != http.StatusNotModified {
				same.Content = standard.Content
			}
			op.Responses[strconv.Itoa(s)] = same
		}
	}
}

func (a *api) described(o operation) huma.Operation {
	registry := a.huma.OpenAPI().Components.Schemas
	op := huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary, Description: o.description, Tags: []string{o.tag},
		DefaultStatus: http.StatusOK, MaxBodyBytes: o.limit + 1, BodyReadTimeout: requestTimeout,
		RequestBody: o.body, SkipValidateBody: o.body != nil,
		Responses: map[string]*huma.Response{"default": {
			Description: "A problem",
			Content:     map[string]*huma.MediaType{problemType: {Schema: registry.Schema(reflect.TypeFor[Problem](), true, "Problem")}},
		}},
	}
	if o.long {
		op.Responses["200"] = &huma.Response{Description: "Lines of JSON", Content: map[string]*huma.MediaType{jsonLines: {Schema: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}}}}
	}
	if len(o.statuses) > 0 {
		op.DefaultStatus = o.statuses[0]
	}
	for _, s := range o.scopes {
		op.Security = append(op.Security, map[string][]string{"token": {string(s)}})
	}
	if o.creates {
		op.Parameters = append(op.Parameters, &huma.Param{Name: idempotencyHeader, In: "header", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "Up to 255 visible ASCII characters of the caller's choice. The same key with the same request, within 24 hours, gives the answer of the first and makes nothing more."})
	}
	return op
}
