package archtest

import (
	"fmt"
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDomainIsPure(t *testing.T) {
	for _, problem := range purityProblems(t, filepath.Join(root, "domain")) {
		t.Error(problem)
	}
}

// purityProblems finds uses of the clock and of entropy, also as values
// (now := time.Now).
func purityProblems(t *testing.T, dir string) (problems []string) {
	t.Helper()
	for _, f := range sources(t, dir) {
		if f.test {
			continue
		}
		imports := f.imports(t)
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			imp := imports[pkg.Name]
			rule, ok := impureCalls[imp]
			name := sel.Sel.Name
			if ok && (slices.Contains(rule.names, name) ||
				len(rule.except) > 0 && strings.HasPrefix(name, "New") && !slices.Contains(rule.except, name)) {
				pos := f.fset.Position(sel.Pos())
				problems = append(problems, fmt.Sprintf("%s:%d: the domain takes the time and ids as arguments: no %s.%s", pos.Filename, pos.Line, imp, name))
			}
			return true
		})
	}
	return problems
}

func TestImpurityIsNoticed(t *testing.T) {
	dir := plant(t, map[string]string{
		"a.go": `package domain
import ("time"; id "github.com/google/uuid")
var now = time.Now
func f() { _ = id.NewString() }
func g() { _ = id.Must(id.NewV7()) }
func h(t time.Time) time.Duration { return time.Since(t) }
`,
		"schedule/ok.go": `package schedule
import ("time"; "github.com/google/uuid")
type clock struct{}
func (clock) Now() int { return 0 }
var c clock
var n = c.Now()
var d = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
var u = uuid.NewSHA1(uuid.Nil, nil)
`,
		"a_test.go": "package domain\nimport \"time\"\nvar started = time.Now()\n",
	})
	got := purityProblems(t, dir)
	var lines []string
	for _, p := range got {
		at, _, _ := strings.Cut(p, ": ")
		lines = append(lines, at)
	}
	if want := []string{"a.go:3", "a.go:4", "a.go:5", "a.go:6"}; !slices.Equal(lines, want) {
		t.Errorf("reported %q, want %v", got, want)
	}
}
