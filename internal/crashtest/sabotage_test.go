//go:build linux

package crashtest

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sabotage is a program, or a schema, without one of the things that the
// guarantee rests on.
type sabotage struct {
	edits  []edit
	sql    []string
	faults []string
	caught []string // violations, any of which gives it away
}

// edit is a replacement in a file of the copy that is built.
type edit struct{ file, old, new string }

// fits reports whether the file still has the one place to break.
func (e edit) fits(file []byte) bool { return strings.Count(string(file), e.old) == 1 }

var sabotages = map[string]sabotage{
	"no fence": {
		edits: []edit{
			{"domain/run_decide.go", "case r.ClaimID == claim && r.State == Running:", "case r.State == Running:"},
			{"domain/run.go", "case r.State != Running || r.ClaimID != claim:", "case r.State != Running:"},
		},
		faults: []string{"worker cut off from everything", "worker frozen", "outcome of another claim"},
		caught: []string{"fence"},
	},
	"start without compare-and-set": {
		edits: []edit{
			{"domain/run_decide.go", "case r.State == Running && r.Token != c.Token:", "case false:"},
		},
		faults: []string{"worker frozen", "worker frozen"},
		caught: []string{"claim executed twice", "execution without start"},
	},
	"reaper without its guard": {
		edits: []edit{
			{"eventstore/expire.go", "FROM claims WHERE lease_until <= now() ORDER BY run_id LIMIT $1", "FROM claims WHERE lease_until - interval '7 s' <= now() ORDER BY run_id LIMIT $1"},
			{"eventstore/free.go", "ON h.run_id = c.run_id WHERE c.lease_until <= now())", "ON h.run_id = c.run_id)"},
			{"domain/run_decide.go", "case r.LeaseUntil.After(now):\n\t\treturn refuse(r, CodeLeaseLive)", "case false:"},
		},
		caught: []string{"early expiry"},
	},
	"no unique key": {
		sql:    []string{"ALTER TABLE run_keys DROP CONSTRAINT run_keys_pkey"},
		caught: []string{"key twice", "lost request"},
	},
	"outbox outside of the transaction": {
		edits: []edit{
			{"eventstore/claim.go", "out.Enqueue(b, tx.now,", "out.Enqueue(later, tx.now,"},
			{"eventstore/claim.go", "	b := &pgx.Batch{}\n	rows.queueClaims(b)", "	b, later := &pgx.Batch{}, &pgx.Batch{}\n	rows.queueClaims(b)"},
			{"eventstore/claim.go", "	committed()\n", "	if err := s.loops.SendBatch(ctx, later).Close(); err != nil {\n		return failed, err\n	}\n	committed()\n"},
		},
		caught: []string{"claim without dispatch", "dispatch without claim"},
	},
}

// TestSabotagesFit keeps the edits up with the program: the long test finds out
// only when it runs.
func TestSabotagesFit(t *testing.T) {
	for name, s := range sabotages {
		for _, e := range s.edits {
			b, err := os.ReadFile(filepath.Join("..", "..", e.file))
			if err != nil {
				t.Fatal(err)
			}
			if !e.fits(b) {
				t.Errorf("%s: %s: want %q one time, to break it", name, e.file, e.old)
			}
		}
	}
}

// TestSabotage has the judge catch programs that are broken on purpose. One that
// it lets pass would show that it looks at nothing.
func TestSabotage(t *testing.T) {
	needTorture(t)
	for name, s := range sabotages {
		t.Run(name, func(t *testing.T) {
			program := binary
			if len(s.edits) > 0 {
				program = buildBroken(t, s.edits)
			}
			r, seed := newSeededRand(t)
			c := newCluster(t, r, options{program: program})
			if len(s.sql) > 0 {
				c.sql(s.sql...)
			}
			c.begin()
			time.Sleep(3 * time.Second)
			for _, kind := range s.faults {
				c.fault(kind)
			}
			h := c.end(settings("sabotage "+name, seed))
			save(t, c.dir, h, c.logs()...)
			_, v := h.Judge()
			if !slices.ContainsFunc(s.caught, v.Has) {
				t.Errorf("not caught; want one of %q, have:\n%s", s.caught, v)
				return
			}
			t.Logf("caught: %q\n%s", v.Kinds(), v)
		})
	}
}

// buildBroken builds the program from a copy of the module with the edits in it.
func buildBroken(t *testing.T, edits []edit) string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, rel)
		switch {
		case d.IsDir() && (d.Name() == ".git" || rel == "bin"):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case strings.HasSuffix(rel, "_test.go") || !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		name := filepath.Join(dir, e.file)
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !e.fits(b) {
			t.Fatalf("%s: want %q one time, to break it", e.file, e.old)
		}
		if err := os.WriteFile(name, []byte(strings.Replace(string(b), e.old, e.new, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "broken")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, "./cmd/daybook")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the broken program: %v\n%s", err, out)
	}
	return program
}
