package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/internal/crashtest/judge"
)

// trial is a line of crashpoints.json.
type trial struct {
	Point, Action string
	Passed        bool
	Again         int
}

// sabotaged begins the names of histories in which something must be found.
const sabotaged = "sabotage "

// table writes what the folder's histories and trials come to, for people, and
// reports whether all is as it should be.
func table(w io.Writer, dir string) (ok bool, err error) {
	ok = true
	var trials []trial
	b, err := os.ReadFile(filepath.Join(dir, "crashpoints.json"))
	if err == nil {
		err = json.Unmarshal(b, &trials)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if len(trials) > 0 {
		ok = points(w, trials)
	}
	dirs, err := filepath.Glob(filepath.Join(dir, "*", "settings.json"))
	if err != nil {
		return false, err
	}
	all := total{times: map[string]int{}, strikes: map[string]int{}, repeated: map[string]int{}}
	var histories, sabotages []string
	for _, name := range dirs {
		h, err := judge.Load(filepath.Dir(name))
		if err != nil {
			return false, err
		}
		report, v := h.Judge()
		if what, is := strings.CutPrefix(h.Settings.Name, sabotaged); is {
			sabotages = append(sabotages, fmt.Sprintf("| %s | %s |", what, strings.Join(v.Kinds(), ", ")))
			ok = ok && v.String() != ""
			continue
		}
		ok = ok && v.String() == ""
		histories = append(histories, all.add(h, report, v))
	}
	if len(histories) > 0 {
		all.print(w, histories)
	}
	if len(sabotages) > 0 {
		fmt.Fprint(w, "\n| removed on purpose | found by the judge as |\n|---|---|\n", strings.Join(sabotages, "\n"), "\n")
	}
	skipped, err := filepath.Glob(filepath.Join(dir, "*.skipped"))
	for _, name := range skipped {
		why, err := os.ReadFile(name)
		if err != nil {
			return false, err
		}
		fmt.Fprintf(w, "\nNot done here, and so not shown: %s", why)
	}
	return ok, err
}

// points writes the outcomes at the crash points, a line each.
func points(w io.Writer, trials []trial) (ok bool) {
	type cell struct{ passed, all int }
	rows := map[string]map[string]cell{}
	again, runs := map[string]int{}, 0
	ok = true
	for _, t := range trials {
		if rows[t.Point] == nil {
			rows[t.Point] = map[string]cell{}
		}
		c := rows[t.Point][t.Action]
		c.all++
		if t.Passed {
			c.passed++
		}
		ok = ok && t.Passed
		rows[t.Point][t.Action] = c
		again[t.Point] += t.Again
		runs++
	}
	fmt.Fprintf(w, "%d trials: each crash point at its first and second hit, its work finished by the same replica and by another one.\n\n", runs)
	fmt.Fprint(w, "| crash point | killed | frozen past its leases | error | executed again |\n|---|---|---|---|---|\n")
	for _, p := range slices.Sorted(maps.Keys(rows)) {
		text := func(action string) string {
			if c := rows[p][action]; c.all > 0 {
				return fmt.Sprintf("%d of %d", c.passed, c.all)
			}
			return "–"
		}
		fmt.Fprintf(w, "| `%s` | %s | %s | %s | %d |\n", p, text("kill"), text("pause"), text("error"), again[p])
	}
	return ok
}

// total adds histories up.
type total struct {
	times, strikes, repeated map[string]int
	commits                  int
}

func (a *total) add(h judge.History, r judge.Report, v *judge.Violations) string {
	for kind, n := range r.Faults {
		a.times[kind] += n
		a.strikes[kind] += r.Strikes[kind]
	}
	for kind, n := range r.Repeated {
		a.repeated[kind] += n
	}
	a.commits += h.Settings.CommitsLost
	explained := 0
	for _, n := range r.Repeated {
		explained += n
	}
	faults := 0
	for _, n := range r.Faults {
		faults += n
	}
	verdict := "none"
	if v.String() != "" {
		verdict = strings.Join(v.Kinds(), ", ")
	}
	late := "–"
	if n := len(r.Lateness); n > 0 {
		late = fmt.Sprintf("%s, %s", r.Lateness[n/2].Round(time.Millisecond), r.Lateness[n*99/100].Round(10*time.Millisecond))
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d, %d | %s | %s |", h.Settings.Name, h.Settings.Seed, faults, r.Runs, r.Executions, r.Duplicates, explained, late, verdict)
}

func (a *total) print(w io.Writer, histories []string) {
	fmt.Fprint(w, "\n| history | seed | faults | runs | executions | beyond one of a run, explained | start after instant: median, 99 of 100 | violations |\n|---|---|---|---|---|---|---|---|\n")
	fmt.Fprint(w, strings.Join(histories, "\n"), "\n\n")
	fmt.Fprint(w, "| fault | times | runs in hand when it came | executions beyond one that it explains |\n|---|---|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(a.times)) {
		fmt.Fprintf(w, "| %s | %d | %d | %d |\n", kind, a.times[kind], a.strikes[kind], a.repeated[kind])
	}
	fmt.Fprintf(w, "\nAnswers to a COMMIT that were lost on the way: %d.\n", a.commits)
}
