package schedule

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDocumentation keeps docs/schedules.md true: its words, its first listing
// and its lists of codes.
func TestDocumentation(t *testing.T) {
	b, err := os.ReadFile("../../docs/schedules.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	_, table, _ := strings.Cut(doc, "| expression | in words |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := regexp.MustCompile("(?m)^\\| `(.+?)` \\| (.+) \\|$").FindAllStringSubmatch(table, -1)
	if len(rows) < 8 {
		t.Fatalf("%d rows in the table of words", len(rows))
	}
	for _, row := range rows {
		s, err := Parse(row[1], Options{})
		if err != nil {
			t.Error(err)
		} else if s.Describe() != row[2] {
			t.Errorf("%s is described as %q, the page says %q", row[1], s.Describe(), row[2])
		}
	}
	s := mustSet(t, Options{Zone: "America/New_York"}, "30 2 * * *")
	if text := s.Preview(march7, time.Time{}, 3).Text(); !strings.Contains(doc, "```\n"+text+"```") {
		t.Errorf("the page does not show\n%s", text)
	}
	for _, file := range []string{"errors.go", "warnings.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		codes := regexp.MustCompile(`= "([EW]_[A-Z_]+)"`).FindAllStringSubmatch(string(source), -1)
		if len(codes) == 0 {
			t.Errorf("no codes in %s", file)
		}
		for _, c := range codes {
			if !strings.Contains(doc, "`"+c[1]+"`") {
				t.Errorf("%s is not on the page", c[1])
			}
		}
	}
}
