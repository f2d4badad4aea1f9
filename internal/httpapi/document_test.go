package httpapi

import (
	"bytes"
	"flag"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/openapi.yaml anew")

const documentFile = "../../docs/openapi.yaml"

func TestDocumentIsCurrent(t *testing.T) {
	got, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(documentFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/openapi.yaml is not what is served: go test ./internal/httpapi -run TestDocumentIsCurrent -update")
	}
}

// What people read names every route and every type of problem, and nothing else.
func TestGuideIsComplete(t *testing.T) {
	guide, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	for k := range kinds {
		if !bytes.Contains(guide, []byte("`"+string(k)+"`")) {
			t.Errorf("docs/http.md does not explain the problem %s", k)
		}
	}
	a := documented()
	for pattern := range a.routes {
		_, path, _ := strings.Cut(pattern, " ")
		if strings.HasPrefix(path, "/v1/work/") {
			path = "/v1/work/"
		}
		if !bytes.Contains(guide, []byte(path)) {
			t.Errorf("docs/http.md does not have %s", path)
		}
	}
	for _, m := range regexp.MustCompile("`/problems/([a-z-]+)`").FindAllSubmatch(guide, -1) {
		if _, ok := kinds[kind(m[1])]; !ok {
			t.Errorf("docs/http.md explains %s, which there is not", m[0])
		}
	}
}

func TestDocumentHasEveryRoute(t *testing.T) {
	a := documented()
	described := map[string]bool{}
	for path, item := range a.huma.OpenAPI().Paths {
		for _, op := range operationsOf(item) {
			pattern := op.Method + " " + path
			described[pattern] = true
			r := a.routes[pattern]
			if r == nil {
				t.Errorf("%s is described and not served", pattern)
				continue
			}
			if len(op.Security) != len(r.scopes) {
				t.Errorf("%s: security %v, want scopes %v", pattern, op.Security, r.scopes)
			}
		}
	}
	for pattern := range a.routes {
		switch pattern {
		case "GET /docs", "GET /openapi.json", "GET /problems/{kind}": // about the API, not of it
		default:
			if !described[pattern] {
				t.Errorf("%s is served and not described", pattern)
			}
		}
	}
}

func TestPagesLoadNothing(t *testing.T) {
	s := newSite(t)
	page := s.want(http.StatusOK, "GET", "/docs", "")
	if bytes.Contains(page.body, []byte("://")) || bytes.Contains(page.body, []byte("<script")) || bytes.Contains(page.body, []byte("<link")) {
		t.Error("the page refers to something beyond itself")
	}
	if !strings.Contains(page.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("policy %q", page.Header.Get("Content-Security-Policy"))
	}
	for pattern, r := range s.api.routes {
		_, path, _ := strings.Cut(pattern, " ")
		if len(r.scopes) > 0 && !bytes.Contains(page.body, []byte(path)) {
			t.Errorf("the page does not have %s", path)
		}
	}
	var doc struct {
		OpenAPI string                    `json:"openapi"`
		Paths   map[string]map[string]any `json:"paths"`
	}
	s.want(http.StatusOK, "GET", "/openapi.json", "").into(t, &doc)
	if !strings.HasPrefix(doc.OpenAPI, "3.1") || doc.Paths["/v1/runs/{id}"]["get"] == nil {
		t.Errorf("document of %s with %d paths", doc.OpenAPI, len(doc.Paths))
	}
	if about := s.want(http.StatusOK, "GET", "/problems/version-mismatch", ""); !bytes.Contains(about.body, []byte("If-Match")) {
		t.Errorf("explanation: %s", about.body)
	}
}
