package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/crashtest/judge"
)

func TestTable(t *testing.T) {
	h, err := judge.Load("../../crashtest/judge/testdata/good")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	save := func(name string) {
		t.Helper()
		h.Settings.Name = name
		if err := h.Save(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	print := func() (string, bool) {
		t.Helper()
		var b strings.Builder
		ok, err := table(&b, dir)
		if err != nil {
			t.Fatal(err)
		}
		return b.String(), ok
	}
	save("good")
	write("crashpoints.json", `[{"point":"a.b","action":"kill","passed":true},{"point":"a.b","action":"kill","passed":true,"again":2}]`)
	write("clock.skipped", "there is no clock\n")
	text, ok := print()
	for _, want := range []string{"| `a.b` | 2 of 2 | – | – | 2 |", "| good | 0 | 1 | 16 | 16 | 3, 3 |", "| worker | 1 | 5 | 3 |", "there is no clock"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if !ok {
		t.Errorf("all is well, and it is said not to be:\n%s", text)
	}

	// What was broken on purpose must be found.
	save("sabotage none")
	if _, ok := print(); ok {
		t.Error("a sabotage that was not found is well")
	}
	h.Settings.Margin = -time.Minute
	save("sabotage none")
	if text, ok := print(); !ok || !strings.Contains(text, "| none | slow recovery |") {
		t.Errorf("a sabotage that was found is not well:\n%s", text)
	}
	save("slow")
	if _, ok := print(); ok {
		t.Error("a history with violations is well")
	}
	if err := os.RemoveAll(filepath.Join(dir, "slow")); err != nil {
		t.Fatal(err)
	}
	write("crashpoints.json", `[{"point":"a.b","action":"kill","passed":false}]`)
	if _, ok := print(); ok {
		t.Error("a trial that failed is well")
	}
}
