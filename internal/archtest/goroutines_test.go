package archtest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// Whoever starts goroutines has tests that find those left behind.
func TestGoroutinesAreLookedFor(t *testing.T) {
	for _, problem := range goroutineProblems(t, root) {
		t.Error(problem)
	}
}

func goroutineProblems(t *testing.T, dir string) (problems []string) {
	t.Helper()
	starts, looks, support := map[string]string{}, map[string]bool{}, map[string]bool{}
	for _, f := range sources(t, dir) {
		if slices.Contains(testSupport, f.dir) || strings.HasPrefix(f.dir, "examples/") {
			support[f.dir] = true
		}
		if f.test {
			for _, imp := range f.imports(t) {
				looks[f.dir] = looks[f.dir] || imp == leak || imp == module+"/internal/proctest" // whose Main looks
			}
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				starts[f.dir] = f.name
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" {
					starts[f.dir] = f.name
				}
			}
			return true
		})
	}
	for dir, name := range starts {
		if !looks[dir] && !support[dir] {
			problems = append(problems, name+" starts goroutines, and no test of "+dir+" looks for those that are left: goleak.VerifyTestMain in TestMain")
		}
	}
	slices.Sort(problems)
	return problems
}

func TestGoroutinesAreNoticed(t *testing.T) {
	dir := plant(t, map[string]string{
		"a/a.go":      "package a\nfunc f() { go f() }\n",
		"b/b.go":      "package b\nimport \"sync\"\nfunc f(w *sync.WaitGroup) { w.Go(func() {}) }\n",
		"c/c.go":      "package c\nfunc f() { go f() }\n",
		"c/c_test.go": "package c\nimport _ \"" + leak + "\"\n",
		"d/d_test.go": "package d\nfunc f() { go f() }\n",
	})
	got := goroutineProblems(t, dir)
	if len(got) != 2 || !strings.HasPrefix(got[0], "a/a.go") || !strings.HasPrefix(got[1], "b/b.go") {
		t.Errorf("%q", got)
	}
}
