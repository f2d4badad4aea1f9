package schedule

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

var march7 = time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC)

func TestPreviewText(t *testing.T) {
	s := mustSet(t, Options{Zone: "America/New_York"}, "30 2 * * *")
	const want = `Every day at 02:30 (America/New_York)
warning: 2026-03-08: 02:30 does not exist that day; moved to 03:30

Sat 2026-03-07 02:30 EST (-05:00)   07:30Z
Sun 2026-03-08 03:30 EDT (-04:00)   07:30Z   02:30 does not exist that day; moved to 03:30
Mon 2026-03-09 02:30 EDT (-04:00)   06:30Z

next clock changes for this schedule:
2026-03-08 02:00 -> 03:00 (-05:00 to -04:00): 02:30 does not exist that day; moved to 03:30
2026-11-01 02:00 -> 01:00 (-04:00 to -05:00): no fire is touched
`
	if got := s.Preview(march7, time.Time{}, 3).Text(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPreviewJSON(t *testing.T) {
	s := mustSet(t, Options{Zone: "America/New_York"}, "30 2 * * *")
	got, err := json.MarshalIndent(s.Preview(march7.AddDate(0, 0, 1), march7.AddDate(0, 0, 2), 5), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "description": "Every day at 02:30 (America/New_York)",
  "warnings": [
    {
      "code": "W_GAP",
      "message": "2026-03-08: 02:30 does not exist that day; moved to 03:30"
    }
  ],
  "fires": [
    {
      "at": "2026-03-08T07:30:00Z",
      "local": "2026-03-08T03:30:00-04:00",
      "nominal": "2026-03-08T02:30",
      "shift": "1h0m0s",
      "fold": 0,
      "note": "02:30 does not exist that day; moved to 03:30"
    }
  ],
  "clock_changes": [
    {
      "at": "2026-03-08T07:00:00Z",
      "from": "2026-03-08T02:00",
      "to": "2026-03-08T03:00",
      "before": "-05:00",
      "after": "-04:00",
      "effect": "02:30 does not exist that day; moved to 03:30"
    },
    {
      "at": "2026-11-01T06:00:00Z",
      "from": "2026-11-01T02:00",
      "to": "2026-11-01T01:00",
      "before": "-04:00",
      "after": "-05:00",
      "effect": "no fire is touched"
    }
  ]
}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	empty, err := json.Marshal(mustSet(t, Options{}, "@at 2020-01-01T00:00:00Z").Preview(march7, time.Time{}, 5))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(empty), `"fires":[],"clock_changes":[]`) {
		t.Errorf("lists without elements must stay lists: %s", empty)
	}
}

func TestPreviewLines(t *testing.T) {
	for _, c := range []struct{ expr, zone, after, want string }{
		{"30 23 * * *", "America/Nuuk", "2026-03-28T12:00:00Z", "Sun 2026-03-29 00:30 (-01:00)   01:30Z   2026-03-28 23:30 does not exist; moved to 2026-03-29 00:30"},
		{"30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z", "Sun 2026-11-01 01:30 EDT (-04:00)   05:30Z   01:30 comes twice that day; this is the first"},
		{"*/30 * * * *", "America/New_York", "2026-11-01T06:00:00Z", "Sun 2026-11-01 01:30 EST (-05:00)   06:30Z   01:30 comes twice that day; this is the second"},
		{"0 9 * * *", "Asia/Kathmandu", "2026-01-01T12:00:00Z", "Fri 2026-01-02 09:00 (+05:45)   03:15Z"},
		{"0 20 * * *", "America/New_York", "2026-01-01T12:00:00Z", "Thu 2026-01-01 20:00 EST (-05:00)   2026-01-02 01:00Z"},
		{"0 12 * * *", "Africa/Monrovia", "1972-01-05T00:00:00Z", "Wed 1972-01-05 12:00:00 MMT (-00:44:30)   12:44:30Z"},
		{"@at 2026-01-01T00:00:00.25Z", "Europe/Berlin", "2025-01-01T00:00:00Z", "Thu 2026-01-01 01:00:00.25 CET (+01:00)   00:00:00.25Z"},
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		p := mustSet(t, Options{Zone: c.zone}, c.expr).Preview(after, time.Time{}, 1)
		if got := p.Fires[0].Text(); got != c.want {
			t.Errorf("%s in %s:\n got %s\nwant %s", c.expr, c.zone, got, c.want)
		}
	}
}

func TestPreviewIsBounded(t *testing.T) {
	s := mustSet(t, Options{}, "@every 1s")
	if n := len(s.Preview(march7, time.Time{}, 1<<30).Fires); n != MaxPreview {
		t.Errorf("%d fires", n)
	}
	if n := len(s.Preview(march7, time.Time{}, -1).Fires); n != 0 {
		t.Errorf("%d fires", n)
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct{ expr, zone, want string }{
		{"0 9 * * *", "UTC", ""},
		{"*/15 * * * *", "America/New_York", ""},
		{"0 9 1-31 * MON", "UTC", ""},
		{"0 9 13 * FRI", "UTC", "W_EITHER_DAY both day fields are restricted: it fires when either matches; write +FRI to require both"},
		{"0 9 13 * +FRI", "UTC", ""},
		{"0 9 31 * *", "UTC", "W_SHORT_MONTHS fires in 7 of 12 months; use L for the last day"},
		{"0 9 30 * *", "UTC", "W_SHORT_MONTHS fires in 11 of 12 months; use L for the last day"},
		{"0 9 29 * *", "UTC", "W_SHORT_MONTHS fires in 11 of 12 months, and in February of leap years; use L for the last day"},
		{"0 9 29 2 *", "UTC", "W_SHORT_MONTHS fires in leap years only"},
		{"0 9 31W * *", "UTC", "W_SHORT_MONTHS fires in 7 of 12 months; use L for the last day"},
		{"0 9 30-31 * *", "UTC", "W_SHORT_MONTHS fires in 11 of 12 months; use L for the last day"},
		{"0 9 1,31 * *", "UTC", "W_SHORT_MONTHS day 31 exists in 7 of 12 months; use L for the last day"},
		{"0 9 31 1,3 *", "UTC", ""},
		{"0 9 25-31 * *", "UTC", ""},
		{"0 9 L * *", "UTC", ""},
		{"*/7 * * * *", "UTC", "W_STEP minute: */7 is uneven: the last step is 4 minutes"},
		{"5/15 * * * *", "UTC", ""},
		{"0 */5 * * *", "UTC", "W_STEP hour: */5 is uneven: the last step is 4 hours"},
		{"10-20/30 * * * *", "UTC", "W_STEP minute: 10-20/30 matches 10 only"},
		{"0 0 */2 * *", "UTC", "W_STEP day-of-month: */2 starts again at 1 every month, so the last step is not 2 days"},
		{"0 0 * * */2", "UTC", "W_STEP day-of-week: */2 is uneven: the last step is 1 day"},
		{"30 1 * * *", "America/New_York", "W_OVERLAP 2026-11-01: 01:30 comes twice that day; fires at the first (-04:00)"},
		{"0,30 2,3 * * *", "America/New_York", "W_GAP 2026-03-08: 02:00 and 02:30 do not exist that day; moved to 03:00 and 03:30, which are named too: one fire each"},
		{"*/15 1 * * *", "Europe/London", "W_GAP 2026-03-29: 4 fires from 01:00 to 01:45 do not exist that day; moved by 1 hour|" +
			"W_OVERLAP 2026-10-25: 4 fires from 01:00 to 01:45 come twice that day; each fires at the first (+01:00)"},
		{"15 2 * * *", "Australia/Lord_Howe", "W_GAP 2026-10-04: 02:15 does not exist that day; moved to 02:45"},
		{"30 23 * * *", "America/Nuuk", "W_GAP 2026-03-28: 23:30 does not exist that day; moved to 00:30 the next day|" +
			"W_OVERLAP 2026-10-24: 23:30 comes twice that day; fires at the first (-01:00)"},
		{"30 2 1 * *", "America/New_York", ""}, // the change is on another day
		{"@every 30s", "UTC", "W_FREQUENT every 30 seconds: more often than once a minute"},
		{"@every 1m", "UTC", ""},
		{"@every 24h", "UTC", ""},
		{"@every 24h", "America/New_York", "W_DRIFT counted in real time: at 2026-03-08T07:00:00Z the clock changes from -05:00 to -04:00 and the local time of every later fire with it; name a time of day to keep it"},
		{"@at 2020-01-01T00:00:00Z", "UTC", "W_NO_FIRE no fire after 2026-03-07T00:00:00Z"},
	} {
		s, err := Parse(c.expr, Options{Zone: c.zone})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range s.Warnings(march7) {
			got = append(got, w.Code+" "+w.Message)
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%s in %s:\n got %s\nwant %s", c.expr, c.zone, text, c.want)
		}
	}
}

func TestSetWarnings(t *testing.T) {
	text := func(s *Set) string {
		var out []string
		for _, w := range s.Warnings(march7) {
			out = append(out, w.Code+" "+w.Message)
		}
		return strings.Join(out, "|")
	}
	if got, want := text(mustSet(t, Options{}, "@daily", "@daily")), "W_DUPLICATE `@daily`: given twice; its instants fire one time"; got != want {
		t.Errorf("got %s", got)
	}
	if got, want := text(mustSet(t, Options{Start: march7.Add(time.Second)}, "* * * * *", "@every 60s")), "W_FREQUENT together 2880 fires a day: more often than once a minute"; got != want {
		t.Errorf("got %s", got)
	}
	o := Options{Start: march7, End: march7.Add(time.Hour)}
	if got, want := text(mustSet(t, o, "0 9 * * *")), "W_NO_FIRE never fires: start_at, end_at and the excluded dates leave nothing"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestClockChanges(t *testing.T) {
	for _, c := range []struct {
		zone  string
		exprs []string
		want  string
	}{
		{"UTC", []string{"0 2 * * *"}, ""},
		{"America/New_York", []string{"*/30 * * * *"}, "2026-03-08 02:00 -> 03:00 (-05:00 to -04:00): follows the clock: 01:30 (-05:00) is followed by 03:00 (-04:00), 30 minutes later|" +
			"2026-11-01 02:00 -> 01:00 (-04:00 to -05:00): follows the clock: 01:30 (-04:00) is followed by 01:00 (-05:00), 30 minutes later"},
		{"Australia/Lord_Howe", []string{"0 * * * *"}, "2026-04-05 02:00 -> 01:30 (+11:00 to +10:30): follows the clock: 01:00 (+11:00) is followed by 02:00 (+10:30), 90 minutes later|" +
			"2026-10-04 02:00 -> 02:30 (+10:30 to +11:00): follows the clock: 01:00 (+10:30) is followed by 03:00 (+11:00), 90 minutes later"},
		{"Europe/Berlin", []string{"@every 24h"}, "2026-03-29 02:00 -> 03:00 (+01:00 to +02:00): counted in real time: 01:00 (+01:00) is followed by 02:00 (+02:00), 24 hours later|" +
			"2026-10-25 03:00 -> 02:00 (+02:00 to +01:00): counted in real time: 02:00 (+02:00) is followed by 01:00 (+01:00), 24 hours later"},
		{"America/Nuuk", []string{"30 23 * * *", "0 9 * * *"}, "2026-03-28 23:00 -> 2026-03-29 00:00 (-02:00 to -01:00): `30 23 * * *`: 23:30 does not exist that day; moved to 00:30 the next day|" +
			"2026-10-25 00:00 -> 2026-10-24 23:00 (-01:00 to -02:00): `30 23 * * *`: 23:30 comes twice that day; fires at the first (-01:00)"},
		{"Europe/Berlin", []string{"0 9 * * *", "0 10 * * *"}, "2026-03-29 02:00 -> 03:00 (+01:00 to +02:00): no fire is touched|2026-10-25 03:00 -> 02:00 (+02:00 to +01:00): no fire is touched"},
	} {
		var got []string
		for _, ch := range mustSet(t, Options{Zone: c.zone}, c.exprs...).ClockChanges(march7) {
			got = append(got, ch.Text())
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%v in %s:\n got %s\nwant %s", c.exprs, c.zone, text, c.want)
		}
	}
}
