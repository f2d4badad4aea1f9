package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/daybookhq/daybook"
	root   = "../.."
)

// sourceFile is a parsed Go file of this module.
type sourceFile struct {
	name string // from the module's root, with slashes
	dir  string // the package, "." for the root
	test bool
	ast  *ast.File
	fset *token.FileSet
}

// sources parses every Go file below dir, whatever its build constraints,
// without nested modules and test data. It reads the files itself: what a
// subprocess such as go list reads, the test cache does not see, and it would
// go on reporting success.
func sources(t *testing.T, dir string) []sourceFile {
	t.Helper()
	var files []sourceFile
	walk(t, dir, func(name string) bool {
		base := path.Base(name)
		if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
			return false
		}
		_, err := os.Stat(filepath.Join(dir, name, "go.mod"))
		return err != nil
	}, func(name string, src []byte) {
		if !strings.HasSuffix(name, ".go") {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%v", err)
			return
		}
		files = append(files, sourceFile{name: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), ast: f, fset: fset})
	})
	return files
}

// walk calls visit for every regular file below dir; enter says which
// directories to look into.
func walk(t *testing.T, dir string, enter func(name string) bool, visit func(name string, content []byte)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		switch {
		case name == ".":
		case d.IsDir():
			if !enter(name) {
				return fs.SkipDir
			}
		case d.Type().IsRegular():
			b, err := os.ReadFile(file)
			if os.IsNotExist(err) { // an editor's, meanwhile gone
				return nil
			}
			if err != nil {
				return err
			}
			visit(name, b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// imports returns the import paths of the file by the names they have in it.
func (f sourceFile) imports(t *testing.T) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "_" || name == "." {
			name += p // there may be several
		}
		m[name] = p
	}
	return m
}

func binary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 }

// plant writes files below a fresh directory, to try the checks on.
func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
