package crashpoint

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestPointsAreDeclaredInFull(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range All() {
		if p.String() == "" || strings.Count(p.String(), ".") != 1 || seen[p.String()] {
			t.Errorf("point %d is named %q; want a name of its own, part.place", p, p)
		}
		seen[p.String()] = true
		if got, ok := byName(p.String()); !ok || got != p {
			t.Errorf("%s is found as %s", p, got)
		}
	}
}

func TestValuesThatArmNothingAreRefused(t *testing.T) {
	for v, want := range map[string]string{
		"claim.post_select":               "point:hit:action",
		"claim.post_select:1":             "point:hit:action",
		"claim.post_selekt:1:kill":        "claim.post_select",
		"claim.post_select:0:kill":        "from 1",
		"claim.post_select:x:kill":        "from 1",
		"claim.post_select:1:die":         "want kill, stop",
		"claim.post_select:1:sleep":       "positive duration",
		"claim.post_select:1:sleep=-1s":   "positive duration",
		"claim.pre_commit:1:error":        "cannot report an error",
		"claim.post_select:1:kill:please": "point:hit:action",
	} {
		if _, err := parse(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", v, err, want)
		}
	}
}

func TestOnlyTheHitThatWasAskedForFires(t *testing.T) {
	p, err := parse("claim.post_select:2:error")
	if err != nil {
		t.Fatal(err)
	}
	var got []bool
	for _, point := range []Point{ClaimPostSelect, ReaperPostSelect, ClaimPostSelect, ClaimPostSelect} {
		got = append(got, errors.Is(p.hit(point), ErrInjected))
	}
	if want := []bool{false, false, true, false}; !slices.Equal(got, want) {
		t.Errorf("fired %v, want %v", got, want)
	}
}
