package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookhq/daybook/domain/schedule"
)

func TestParseWhen(t *testing.T) {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	a := &app{zone: zone}
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]string{
		"2026-03-08T07:30:00Z":            "2026-03-08T07:30:00Z",
		"2026-03-08T07:30:00.5+01:00":     "2026-03-08T06:30:00.5Z",
		"2026-03-08T07:30Z":               "2026-03-08T07:30:00Z",
		"2026-03-08":                      "2026-03-08T05:00:00Z",
		"2026-03-09 07:30":                "2026-03-09T11:30:00Z",
		"2026-03-09T07:30:05":             "2026-03-09T11:30:05Z",
		"now":                             "2026-03-10T12:00:00Z",
		"90m":                             "2026-03-10T10:30:00Z",
		"7d":                              "2026-03-03T12:00:00Z",
		"1w1d1h":                          "",
		"1d12h":                           "2026-03-09T00:00:00Z",
		"2w":                              "2026-02-24T12:00:00Z",
		"":                                "",
		"-5m":                             "",
		"soon":                            "",
		"2026-13-01":                      "",
		"99999999999999999999d":           "",
		"2026-03-08T07:30:00Z and beyond": "",
	} {
		got, err := a.parseWhen("since", in, now, -1)
		if want == "" {
			if err == nil || exitOfError(err) != exitUsage {
				t.Errorf("%q: %s, %v; want a usage error", in, got, err)
			}
			continue
		}
		if err != nil || got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%q: %s, %v; want %s", in, got.UTC().Format(time.RFC3339Nano), err, want)
		}
	}
	if got, err := a.parseWhen("at", "15m", now, +1); err != nil || !got.Equal(now.Add(15*time.Minute)) {
		t.Errorf("15m from now: %s, %v", got, err)
	}
}

func exitOfError(err error) int {
	if e, ok := err.(*exitError); ok {
		return e.code
	}
	return exitFailed
}

func TestMachineZone(t *testing.T) {
	env := map[string]string{}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	root := func(link, timezone, content string) string {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		local := filepath.Join(dir, "etc", "localtime")
		var err error
		if link != "" {
			err = os.Symlink(link, local)
		} else if content != "" {
			err = os.WriteFile(local, []byte(content), 0o600)
		}
		if err == nil && timezone != "" {
			err = os.WriteFile(filepath.Join(dir, "etc", "timezone"), []byte(timezone), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, test := range []struct{ tz, root, want, from string }{
		{"Europe/Berlin", root("/usr/share/zoneinfo/Asia/Tokyo", "", ""), "Europe/Berlin", "TZ"},
		{":/usr/share/zoneinfo/Europe/Paris", root("", "", ""), "Europe/Paris", "TZ"},
		{"", root("/usr/share/zoneinfo/Asia/Tokyo", "Europe/Rome\n", ""), "Asia/Tokyo", "/etc/localtime"},
		{"", root("../usr/share/zoneinfo/Etc/UTC", "", ""), "Etc/UTC", "/etc/localtime"},
		{"", root("", "Europe/Rome\n", "TZif2"), "Europe/Rome", "/etc/timezone"},
		{"", root("/elsewhere/clock", "Europe/Rome\n", ""), "Europe/Rome", "/etc/timezone"},
		{"", root("", "", ""), "UTC", "the absence of /etc/localtime"},
		{"", root("", "", "TZif2"), "", ""},
		{"<+03>-3", root("", "", ""), "", ""},
	} {
		delete(env, "TZ")
		if test.tz != "" {
			env["TZ"] = test.tz
		}
		zone, from, err := machineZone(lookup, test.root)
		if zone != test.want || from != test.from || (err != nil) != (test.want == "") {
			t.Errorf("TZ %q: %q from %q, %v; want %q from %q", test.tz, zone, from, err, test.want, test.from)
		}
		if err == nil && schedule.CheckZone(zone) != nil {
			t.Errorf("%s is no zone for schedules", zone)
		}
	}
}
