package schedule

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func refused(t *testing.T, expr string, o Options) *Error {
	t.Helper()
	_, err := Parse(expr, o)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%q: got %v, want an *Error", expr, err)
	}
	return e
}

func TestErrorMessages(t *testing.T) {
	for _, c := range []struct {
		expr   string
		code   Code
		field  string
		value  string
		offset int
		text   string
	}{
		{"60 * * * *", CodeRange, "minute", "60", 0, "minute: 60 is out of range 0-59"},
		{"0 24 * * *", CodeRange, "hour", "24", 2, "hour: 24 is out of range 0-23 (midnight is 0)"},
		{"* * * *", CodeFields, "schedule", "* * * *", 0, "4 fields, expected 5: minute hour day-of-month month day-of-week"},
		{"0 30 2 * * *", CodeSeconds, "schedule", "0 30 2 * * *", 0, "6 fields: seconds are not supported (did you mean `30 2 * * *`?)"},
		{"*/90 * * * *", CodeStep, "minute", "90", 2, "minute: step 90 exceeds the field and would only match :00 (for every 90 minutes use `@every 90m`)"},
		{"0 0 30 2 *", CodeNever, "day-of-month", "30", 4, "never fires: February has no day 30 (use L for the last day of the month)"},
		{"@every 1d", CodeInterval, "schedule", "1d", 7, "@every: \"1d\" is not a duration (a day is not always 24 hours: use `@daily` or `@every 24h`)"},
		{"@every 1500ms", CodeInterval, "schedule", "1500ms", 7, "@every: 1500ms is not a whole number of seconds (write whole seconds, minutes or hours such as 45s, 90m or 1h30m)"},
		{"0 9 * * Monday", CodeValue, "day-of-week", "Monday", 8, "day-of-week: unknown name \"Monday\" (did you mean MON?)"},
		{"0 9 * * 1,tues", CodeValue, "day-of-week", "tues", 10, "day-of-week: unknown name \"tues\" (did you mean TUE?)"},
		{"0 9 * * +8", CodeRange, "day-of-week", "8", 9, "day-of-week: 8 is out of range 0-7"},
		{"50-10 * * * *", CodeBackwards, "minute", "50-10", 0, "minute: range 50-10 runs backwards (write 50-59,0-10)"},
		{"TZ=UTC 0 9 * * *", CodeZonePre, "schedule", "TZ=UTC", 0, "put the time zone in `time_zone`, not in the expression"},
		{"cron_tz=UTC 0 9 * * *", CodeZonePre, "schedule", "cron_tz=UTC", 0, "put the time zone in `time_zone`, not in the expression"},
		{"@at tomorrow", CodeAt, "schedule", "tomorrow", 4, "@at: \"tomorrow\" is not an RFC 3339 instant (write an instant with its offset such as `@at 2027-01-01T00:00:00Z`)"},
		{"@at 2027-01-01T00:00:00", CodeAt, "schedule", "2027-01-01T00:00:00", 4, "@at: \"2027-01-01T00:00:00\" is not an RFC 3339 instant (write an instant with its offset such as `@at 2027-01-01T00:00:00Z`)"},
		{"@at 2027-02-30T00:00:00Z", CodeAt, "schedule", "2027-02-30T00:00:00Z", 4, "@at: \"2027-02-30T00:00:00Z\" is not an RFC 3339 instant (write an instant with its offset such as `@at 2027-01-01T00:00:00Z`)"},
		{"@at 2027-01-01T00:00:00.0000001Z", CodeAt, "schedule", "2027-01-01T00:00:00.0000001Z", 4, "@at: 2027-01-01T00:00:00.0000001Z is finer than a microsecond"},
		{"@Daily", CodeMacro, "schedule", "@Daily", 0, "unknown macro \"@Daily\" (did you mean @daily?)"},
		{"@every5m", CodeMacro, "schedule", "@every5m", 0, "unknown macro \"@every5m\" (did you mean `@every 5m`?)"},
		{"@reboot", CodeMacro, "schedule", "@reboot", 0, "unknown macro \"@reboot\" (there is no machine whose start could be meant)"},
		{"daily", CodeFields, "schedule", "daily", 0, "1 field, expected 5: minute hour day-of-month month day-of-week (did you mean @daily?)"},
		{"90m", CodeFields, "schedule", "90m", 0, "1 field, expected 5: minute hour day-of-month month day-of-week (did you mean `@every 90m`?)"},
		{strings.Repeat("1,", 128) + "1 * * * *", CodeLength, "schedule", strings.Repeat("1,", 32) + "…", 0, "265 bytes, at most 256 are accepted"},
	} {
		e := refused(t, c.expr, Options{})
		if e.Code != c.code || e.Field != c.field || e.Value != c.value || e.Offset != c.offset || e.Error() != c.text {
			t.Errorf("%q:\n got %s %s %q at %d: %s\nwant %s %s %q at %d: %s", c.expr, e.Code, e.Field, e.Value, e.Offset, e, c.code, c.field, c.value, c.offset, c.text)
		}
	}
}

func TestErrorJSON(t *testing.T) {
	e := refused(t, "0 24 * * *", Options{})
	got, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"code":"E_RANGE","field":"hour","value":"24","message":"hour: 24 is out of range 0-23","hint":"midnight is 0"}`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestOptionErrors(t *testing.T) {
	at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		o    Options
		code Code
		text string
	}{
		{Options{Zone: "EST5PDT"}, CodeZone, `unknown time zone "EST5PDT" (use an IANA name such as America/New_York)`},
		{Options{Start: at, End: at}, CodeBounds, "end_at: 2026-12-01T00:00:00Z is not after start_at 2026-12-01T00:00:00Z"},
		{Options{Exclude: []Date{{2026, 2, 29}}}, CodeDate, "exclude: 2026-02-29 is not in the calendar (write a date such as 2026-12-25)"},
		{Options{Zone: "Europe/Berlin", LoadZone: func(string) (*time.Location, error) { return nil, errors.New("gone") }}, CodeZone,
			`unknown time zone "Europe/Berlin" (use an IANA name such as America/New_York)`},
	} {
		if e := refused(t, "@daily", c.o); e.Code != c.code || e.Error() != c.text {
			t.Errorf("got %s: %v\nwant %s: %s", e.Code, e, c.code, c.text)
		}
	}
	for _, s := range []string{"2026-02-30", "2026-13-01", "26-01-01", "2026-1-1", "2026-01-01T00:00:00Z", ""} {
		var e *Error
		if _, err := ParseDate(s); !errors.As(err, &e) || e.Code != CodeDate || e.Field != "exclude" {
			t.Errorf("%q: %v", s, err)
		}
	}
	var d Date
	if err := json.Unmarshal([]byte(`"2026-12-25"`), &d); err != nil || d != (Date{2026, 12, 25}) {
		t.Errorf("%v %v", d, err)
	}
}

// TestEquivalent: different spellings of one schedule.
func TestEquivalent(t *testing.T) {
	for _, c := range [][2]string{
		{"0 9 * * 7", "0 9 * * 0"}, {"0 9 * * 7-2", "0 9 * * 0,1,2"}, {"0 9 * * 5-7", "0 9 * * FRI,sat,Sun"}, {"0 9 * * 7/2", "0 9 * * 0,2,4,6"},
		{"0 9 * * 7-7", "0 9 * * SUN"}, {"0 9 * * 1/2", "0 9 * * 1,3,5"}, {"0 9 * * 6-0", "0 9 * * 0,6"}, {"0 9 * * FRI-MON/2", "0 9 * * FRI,SUN"},
		{"0 9 * * 0-7/3", "0 9 * * 0,3,6"}, {"0 9 * * 7L", "0 9 * * sunl"}, {"0 9 * * 7#2", "0 9 * * SUN#2"}, {"0 9 ? * ?", "0 9 * * *"},
		{"0 9 ? * MON", "0 9 * * MON"}, {"0 9 13 * ?", "0 9 13 * *"}, {"0 9 1 * +*", "0 9 1 * *"}, {"0 22-4/2 * * *", "0 22,0,2,4 * * *"},
		{"0 9 1 11-2 *", "0 9 1 nov,dec,jan,feb *"}, {"5/15 * * * *", "5,20,35,50 * * * *"}, {"007 9 * * *", "7 9 * * *"}, {"0 9 l * *", "0 9 L * *"},
		{"0 9 15w,lw * *", "0 9 15W,LW * *"}, {"@midnight", "@daily"}, {"@hourly", "0 * * * *"}, {"@annually", "@yearly"}, {"@every 90m", "@every 1.5h"},
		{" @daily\t", "0 0 * * *"}, {"0 9 1-31 * MON", "0 9 * * *"},
	} {
		a, err := Parse(c[0], Options{})
		if err != nil {
			t.Errorf("%s: %v", c[0], err)
			continue
		}
		b, err := Parse(c[1], Options{})
		if err != nil {
			t.Errorf("%s: %v", c[1], err)
			continue
		}
		x, y := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 60 {
			f, _ := a.Next(x)
			g, _ := b.Next(y)
			if f != g {
				t.Errorf("%s fires at %v, %s at %v", c[0], f.At, c[1], g.At)
				break
			}
			x, y = f.At, g.At
		}
	}
}

// TestNeverIsExact compares the proof with a walk over every day of a
// 400-year cycle.
func TestNeverIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	never := 0
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	for range rounds {
		expr := strings.Join([]string{"0 0", pick("*", "29", "30", "31", "30,31", "8-31", "1-7", "L", "LW", "L-30", "L-29", "31W", "29W", "28-31", "*/30"),
			pick("2", "4", "2,4", "*", "6,9", "1"), pick("*", "+MON#1", "+TUE#5", "+FRI", "MON#5", "+SUNL", "+6#1,6#2")}, " ")
		p := newPlain(strings.NewReplacer("MON", "1", "TUE", "2", "FRI", "5", "SUN", "0", "SATL", "6L").Replace(expr))
		fires := false
		for d := dayOf(2000, 1, 1); d < dayOf(2400, 1, 1) && !fires; d++ {
			fires = p.match(d * day)
		}
		_, err := Parse(expr, Options{})
		if (err == nil) != fires {
			t.Fatalf("%s: fires is %v, but %v", expr, fires, err)
		}
		if !fires {
			never++
			if e := refused(t, expr, Options{}); e.Code != CodeNever {
				t.Fatalf("%s: %v", expr, e)
			}
		}
	}
	if never == 0 {
		t.Error("no schedule that never fires was tried")
	}
}
