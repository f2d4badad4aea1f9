package domain

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Every combination of the three policies is refused naming both fields, or has
// its row in the documentation.
func TestPoliciesTogether(t *testing.T) {
	page, err := os.ReadFile("../docs/schedules.md")
	if err != nil {
		t.Fatal(err)
	}
	limits := map[string]*Concurrency{"none": nil, "one": {Limit: 1}, "three": {Limit: 3}, "three a key": {Limit: 3, Key: "tenant"}}
	for _, misfire := range []Misfire{MisfireLatest, MisfireSkip, MisfireAll} {
		for _, overlap := range []Overlap{OverlapSkip, OverlapQueue, OverlapReplace, OverlapAllow} {
			row := fmt.Sprintf("| `%s` | `%s` | ", misfire, overlap)
			if n := strings.Count(string(page), row); n != 1 {
				t.Errorf("the page has %d rows %q", n, row)
			}
			for name, limit := range limits {
				s := goldenSpec()
				s.Misfire, s.Overlap, s.Concurrency = misfire, overlap, limit
				contradictsMisfire := misfire == MisfireAll && overlap == OverlapReplace
				contradictsLimit := name == "three" && (overlap == OverlapQueue || overlap == OverlapReplace)
				text := ""
				for _, e := range s.Validate() {
					text += e.Error() + "\n"
				}
				switch {
				case contradictsMisfire && (!strings.Contains(text, "overlap: ") || !strings.Contains(text, "misfire: all")):
					t.Errorf("misfire %s, overlap %s: refusal says %q", misfire, overlap, text)
				case contradictsLimit && (!strings.Contains(text, "concurrency.limit: ") || !strings.Contains(text, "overlap: "+string(overlap))):
					t.Errorf("overlap %s, limit %s: refusal says %q", overlap, name, text)
				case !contradictsMisfire && !contradictsLimit && text != "":
					t.Errorf("misfire %s, overlap %s, limit %s: refused: %s", misfire, overlap, name, text)
				case contradictsMisfire != strings.Contains(string(page), row+"refused"):
					t.Errorf("the page and the code differ on misfire %s with overlap %s", misfire, overlap)
				}
			}
		}
	}
}
