// Package archtest holds the rules of this repository that the compiler does
// not know, as tests: who may import whom, what the domain must not touch, and
// which words appear nowhere.
package archtest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestImports(t *testing.T) {
	for _, problem := range importProblems(t, root) {
		t.Error(problem)
	}
}

func importProblems(t *testing.T, dir string) (problems []string) {
	t.Helper()
	report := func(f sourceFile, format string, args ...any) {
		problems = append(problems, f.name+": "+fmt.Sprintf(format, args...))
	}
	strangers := map[string]bool{}
	for _, f := range sources(t, dir) {
		allowed, ok := policyFor(f.dir)
		if strangers[f.dir] {
			continue // said once
		}
		if !ok {
			strangers[f.dir] = true
			report(f, "the package %s has no import policy: decide its place and add it to the table", f.dir)
			continue
		}
		inDomain := f.dir == "domain" || strings.HasPrefix(f.dir, "domain/")
		support := slices.Contains(testSupport, f.dir)
		for name, imp := range f.imports(t) {
			standard := isStandard(imp)
			switch {
			case inDomain && strings.HasPrefix(name, "."):
				report(f, "a dot import of %s hides what is used", imp)
			case inDomain && !f.test && standard && slices.ContainsFunc(impure, func(p string) bool { return within(imp, p) }):
				report(f, "the domain is pure and must not import %s", imp)
			case inDomain && f.test && !standard && !matches("domain/...", imp) && imp != uuid:
				report(f, "tests of the domain need nothing but it and %s, not %s", uuid, imp)
			case f.test: // else free to use what it needs
			case standard && within(imp, "testing") && !support:
				report(f, "only tests and their support may import %s", imp)
			case !standard && !slices.ContainsFunc(allowed, func(p string) bool { return matches(p, imp) }):
				report(f, "%s must not import %s", f.dir, strings.TrimPrefix(imp, module+"/"))
			case slices.ContainsFunc(testSupport, func(p string) bool { return matches(p, imp) }) && !support:
				report(f, "only tests may import %s", imp)
			}
		}
	}
	return problems
}

// policyFor finds the row of a package: its own, or that of the nearest tree.
func policyFor(dir string) ([]string, bool) {
	if allowed, ok := policy[dir]; ok {
		return allowed, true
	}
	for d := dir; d != "."; d = path.Dir(d) {
		if allowed, ok := policy[d+"/..."]; ok {
			return allowed, true
		}
	}
	return nil, false
}

// matches says whether an import is meant by a pattern of the table, which
// names packages of this module without the module.
func matches(pattern, imp string) bool {
	if pattern == "..." {
		return true
	}
	base, tree := strings.CutSuffix(pattern, "/...")
	if isStandard(base) {
		base = module + "/" + base
	}
	return imp == base || tree && within(imp, base)
}

// within says whether p is base or below it.
func within(p, base string) bool { return p == base || strings.HasPrefix(p, base+"/") }

// isStandard uses that only the standard library's paths have no dot in their
// first element.
func isStandard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

func TestImportsAreNoticed(t *testing.T) {
	file := func(pkg string, imports ...string) string {
		src := "package " + pkg + "\n"
		for _, i := range imports {
			src += "import " + i + "\n"
		}
		return src
	}
	bad := map[string]string{
		"domain/a.go":            file("domain", `"os/exec"`),
		"domain/b.go":            file("domain", `"`+module+`/eventstore"`),
		"domain/c_test.go":       file("domain", `"github.com/jackc/pgx/v5"`),
		"domain/d.go":            file("domain", `. "time"`),
		"domain/schedule/a.go":   file("schedule", `x "context"`),
		"eventstore/a.go":        file("eventstore", `_ "`+module+`/outbox"`),
		"outbox/a.go":            file("outbox", `"github.com/nats-io/nats.go"`),
		"worker/a.go":            file("worker", `"`+module+`/domain"`),
		"internal/engine/a.go":   file("engine", `"github.com/nats-io/nats-server/v2/server"`),
		"internal/engine/b.go":   file("engine", `"testing"`),
		"cmd/daybook/a.go":       file("main", `"`+module+`/internal/pgtest"`),
		"internal/newcomer/a.go": file("newcomer"),
		"a.go":                   file("daybook"),
		"examples/hello/main.go": file("main", `"`+module+`/internal/engine"`),
	}
	good := map[string]string{
		"domain/ok.go":              file("domain", `"time"`, `"github.com/google/uuid"`),
		"domain/ok_test.go":         file("domain", `"os"`, `"testing"`),
		"eventstore/ok_test.go":     file("eventstore", `"`+module+`/internal/pgtest"`),
		"internal/engine/ok.go":     file("engine", `"context"`, `"github.com/nats-io/nats.go"`),
		"internal/pgtest/ok.go":     file("pgtest", `"testing"`),
		"cmd/daybook/ok.go":         file("main", `"github.com/spf13/cobra"`),
		"internal/tools/some/ok.go": file("main", `"`+module+`/internal/devpg"`),
		"domain/testdata/skip.go":   file("x", `"os"`),
		"deploy/nested/go.mod":      "module nested",
		"deploy/nested/skip.go":     file("x", `"os"`),
	}
	all := map[string]string{}
	for _, m := range []map[string]string{bad, good} {
		maps.Copy(all, m)
	}
	var seen []string
	for _, p := range importProblems(t, plant(t, all)) {
		name, _, _ := strings.Cut(p, ":")
		seen = append(seen, name)
		if _, ok := bad[name]; !ok {
			t.Errorf("reported without reason: %s", p)
		}
	}
	for name := range bad {
		if !slices.Contains(seen, name) {
			t.Errorf("%s was not reported", name)
		}
	}
}
