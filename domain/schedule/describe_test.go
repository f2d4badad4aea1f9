package schedule

import (
	"testing"
	"time"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct{ expr, zone, want string }{
		{"* * * * *", "", "Every minute (UTC)"},
		{"*/15 * * * *", "", "Every 15 minutes (UTC)"},
		{"*/7 * * * *", "", "At minutes 0, 7, 14, ... 56 of every hour (UTC)"},
		{"30 2 * * *", "America/New_York", "Every day at 02:30 (America/New_York)"},
		{"0 9-17 * * MON-FRI", "Europe/London", "Monday to Friday, every hour from 09:00 to 17:00 (Europe/London)"},
		{"30 4 1,15 * 5", "", "At 04:30 on day 1 or 15 of the month, or on any Friday (UTC)"},
		{"0 0 13 * +FRI", "", "At 00:00 on day 13 of the month, if it is a Friday (UTC)"},
		{"0 18 LW * *", "", "At 18:00 on the last weekday (Mon-Fri) of the month (UTC)"},
		{"@every 90m", "America/New_York", "Every 90 minutes, counted from 1970-01-01 00:00 UTC"},
		{"@every 1h", "", "Every hour, counted from 1970-01-01 00:00 UTC"},
		{"@every 3661s", "", "Every 3661 seconds, counted from 1970-01-01 00:00 UTC"},
		{"@at 2027-01-01T00:00:00Z", "", "One time, at 2027-01-01T00:00:00Z"},
		{"@at 2027-01-01T00:00:00Z", "America/New_York", "One time, at 2027-01-01T00:00:00Z (2026-12-31 19:00 in America/New_York)"},
		{"@hourly", "", "Every hour (UTC)"},
		{"30 * * * *", "", "At minute 30 of every hour (UTC)"},
		{"0,15,40 * * * *", "", "At minutes 0, 15 and 40 of every hour (UTC)"},
		{"0-9 * * * *", "", "At minutes 0 to 9 of every hour (UTC)"},
		{"@daily", "", "Every day at 00:00 (UTC)"},
		{"@weekly", "", "Every Sunday at 00:00 (UTC)"},
		{"@monthly", "", "At 00:00 on day 1 of the month (UTC)"},
		{"@yearly", "", "At 00:00 on day 1 of January (UTC)"},
		{"0 9 * * MON,THU", "", "Every Monday and Thursday at 09:00 (UTC)"},
		{"0 9 * * 6,7", "", "Every Saturday and Sunday at 09:00 (UTC)"},
		{"0 9 * * FRI-MON", "", "Friday to Monday at 09:00 (UTC)"},
		{"*/15 * * * MON-FRI", "", "Monday to Friday, every 15 minutes (UTC)"},
		{"*/15 9-17 * * *", "", "Every day, every 15 minutes from 09:00 to 17:45 (UTC)"},
		{"* 9-17 * * *", "", "Every day, every minute from 09:00 to 17:59 (UTC)"},
		{"*/30 1 * * *", "", "Every day at 01:00 and 01:30 (UTC)"},
		{"0 */2 * * *", "", "Every day, every 2 hours from 00:00 to 22:00 (UTC)"},
		{"0 22-2 * * *", "", "Every day, every hour from 22:00 to 02:00 (UTC)"},
		{"0 6,12,18 * * *", "", "Every day at 06:00, 12:00 and 18:00 (UTC)"},
		{"0 0 29 2 *", "", "At 00:00 on day 29 of February (UTC)"},
		{"0 0 1 NOV-FEB *", "", "At 00:00 on day 1 of the month, only in November to February (UTC)"},
		{"0 0 * 7,8 *", "", "Every day at 00:00, only in July and August (UTC)"},
		{"0 9 * * MON#1", "", "At 09:00 on the first Monday of the month (UTC)"},
		{"0 17 * * FRIL", "", "At 17:00 on the last Friday of the month (UTC)"},
		{"0 17 * * WED,MON#1,FRIL", "", "At 17:00 on any Wednesday, the first Monday or the last Friday of the month (UTC)"},
		{"0 0 L-3 * *", "", "At 00:00 on the day 3 days before the last day of the month (UTC)"},
		{"0 0 1,L * *", "", "At 00:00 on day 1 or the last day of the month (UTC)"},
		{"0 12 15W * *", "", "At 12:00 on the weekday (Mon-Fri) nearest day 15 of the month (UTC)"},
		{"0 9 1-7 * +MON", "", "At 09:00 on days 1 to 7 of the month, if it is a Monday (UTC)"},
		{"0 0 */2 * MON", "", "At 00:00 on days 1, 3, 5, ... 31 of the month, if it is a Monday (UTC)"},
		{"0 0 1-31 * MON", "", "Every day at 00:00 (UTC)"},
		{"0 0 13 * MON-FRI", "", "At 00:00 on day 13 of the month, or on any day from Monday to Friday (UTC)"},
		{"0 0 13 6 FRI", "", "At 00:00 on day 13 of June, or on any Friday in June (UTC)"},
		{"1,2,4 3-5 * * *", "", "Every day at minutes 1, 2 and 4 of the hours 3 to 5 (UTC)"},
	} {
		s, err := Parse(c.expr, Options{Zone: c.zone})
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		if got := s.Describe(); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.expr, got, c.want)
		}
	}
}

func TestDescribeSet(t *testing.T) {
	start := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	set, err := ParseSet([]string{"30 2 * * *", "0 9 1 * *", "@every 24h"}, Options{
		Zone: "Europe/Berlin", Start: start, End: start.AddDate(1, 0, 0), Exclude: []Date{{2026, 12, 25}, {2026, 12, 26}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "Every day at 02:30; also at 09:00 on day 1 of the month; also every 24 hours, counted from 2026-12-01 00:00 UTC (Europe/Berlin)" +
		"; not before 2026-12-01T00:00:00Z; ends before 2027-12-01T00:00:00Z; not on 2 excluded dates"
	if got := set.Describe(); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}
