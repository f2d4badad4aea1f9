package archtest

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// A test that skips itself looks like one that passes. Only internal/needs may,
// which fails instead where nothing may be left out.
func TestNoTestSkipsItself(t *testing.T) {
	for _, problem := range skipProblems(t, root) {
		t.Error(problem)
	}
}

func skipProblems(t *testing.T, dir string) (problems []string) {
	t.Helper()
	for _, f := range sources(t, dir) {
		if f.dir == "internal/needs" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			s, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
				problems = append(problems, f.name+" calls "+types.ExprString(s)+": internal/needs says what a test cannot do here, and fails where nothing may be left out")
			}
			return true
		})
	}
	return problems
}

func TestSkipsAreNoticed(t *testing.T) {
	dir := plant(t, map[string]string{
		"a/a_test.go":             "package a\nimport \"testing\"\nfunc TestA(t *testing.T) { t.Skip() }\n",
		"b/b.go":                  "package b\nimport \"testing\"\nfunc f(x testing.TB) { x.Skipf(\"no\") }\n",
		"c/c_test.go":             "package c\nimport \"testing\"\nfunc TestC(t *testing.T) { t.Run(\"c\", func(t *testing.T) { t.SkipNow() }) }\n",
		"c/d_test.go":             "package c\nimport \"testing\"\ntype world struct{ t *testing.T }\nfunc (w *world) f() { w.t.Skip(\"no\") }\n",
		"d/d.go":                  "package d\nfunc f(t struct{ Skipped int }) int { return t.Skipped }\n",
		"internal/needs/needs.go": "package needs\nimport \"testing\"\nfunc f(t testing.TB) { t.Skip() }\n",
	})
	got := skipProblems(t, dir)
	if len(got) != 4 || !strings.HasPrefix(got[0], "a/a_test.go calls t.Skip") || !strings.HasPrefix(got[1], "b/b.go calls x.Skipf") || !strings.HasPrefix(got[2], "c/c_test.go calls t.SkipNow") || !strings.HasPrefix(got[3], "c/d_test.go calls w.t.Skip") {
		t.Errorf("%q", got)
	}
}
