package judge

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "save the good history anew")

// Histories that were saved before are judged as they were then, by every judge
// that comes after. What a fault of the program looked like is kept here: the
// folder's file "found" says which violations it must give.
func TestSavedHistories(t *testing.T) {
	if *update {
		p, _ := goodHistory(t)
		if err := p.Save(filepath.Join("testdata", "good")); err != nil {
			t.Fatal(err)
		}
	}
	dirs, err := filepath.Glob(filepath.Join("testdata", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no saved histories, error %v", err)
	}
	for _, dir := range dirs {
		h, err := Load(dir)
		if err != nil {
			t.Error(err)
			continue
		}
		report, v := h.Judge()
		want, err := os.ReadFile(filepath.Join(dir, "found"))
		if err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
		if have := strings.Join(v.Kinds(), "\n"); have != strings.TrimSpace(string(want)) {
			t.Errorf("%s: found %q, want %q\n%s", dir, have, want, v)
		}
		if report.Runs == 0 || report.Executions == 0 {
			t.Errorf("%s: nothing happened in it", dir)
		}
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "events.jsonl") {
		t.Errorf("an empty folder: %v", err)
	}
	p, _ := goodHistory(t)
	if err := p.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "acts.jsonl"), []byte("{}\n{\"at\": 7}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "acts.jsonl value 2") {
		t.Errorf("a damaged file: %v", err)
	}
}

// The page for readers names what is judged as the judge does.
func TestPageListsInvariants(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range Invariants {
		if row := "| " + i.ID + " | " + i.What + " |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/reliability.md has no line %q", row)
		}
	}
}
