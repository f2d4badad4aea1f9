package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

var errInvalid = errors.New("not a valid expression")

type outcome string

const (
	agrees   outcome = "agrees"
	differs  outcome = "differs"
	refuses  outcome = "refuses"
	panics   outcome = "panics"
	stuck    outcome = "stuck"
	noAnswer outcome = "no answer in a second"
)

// TestAgreement runs every case of the test data through every library and
// prints how many of them fire where the data says. Only our own package has
// to agree; where others differ they mostly follow another rule on purpose.
func TestAgreement(t *testing.T) {
	data, err := os.ReadFile("../../domain/schedule/testdata/schedule_cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		ID, Expr, Zone string
		After          time.Time
		Want           []time.Time
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	for _, lib := range libraries {
		counts := map[outcome]int{}
		for _, c := range list {
			loc, err := time.LoadLocation(c.Zone)
			if err != nil {
				t.Fatal(err)
			}
			result := make(chan outcome, 1)
			go func() { result <- run(lib.parse, c.Expr, loc, c.After, c.Want) }()
			got := noAnswer
			select {
			case got = <-result:
			case <-time.After(time.Second): // the goroutine is lost: nothing can stop it
			}
			counts[got]++
			if lib.name == "daybook" && got != agrees {
				t.Errorf("%s: %s", c.ID, got)
			}
		}
		line := fmt.Sprintf("%-10s of %d:", lib.name, len(list))
		for _, o := range []outcome{agrees, differs, refuses, panics, stuck, noAnswer} {
			if counts[o] > 0 {
				line += fmt.Sprintf(" %d %s,", counts[o], o)
			}
		}
		t.Log(line[:len(line)-1])
	}
}

func run(parse func(string, *time.Location) (nexter, error), expr string, loc *time.Location, at time.Time, want []time.Time) (o outcome) {
	defer func() {
		if recover() != nil {
			o = panics
		}
	}()
	next, err := parse(expr, loc)
	if err != nil {
		return refuses
	}
	for _, w := range want {
		n, ok := next(at)
		if ok && !n.After(at) {
			return stuck
		}
		if !ok || !n.Equal(w) {
			return differs
		}
		at = n
	}
	return agrees
}
