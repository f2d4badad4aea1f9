package schedule

import (
	"archive/zip"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestZoneNames(t *testing.T) {
	for _, name := range []string{"", "UTC", "America/New_York", "America/Argentina/Buenos_Aires", "Europe/Kiev", "US/Eastern", "CET", "Etc/GMT+5", "Etc/UTC", "GB-Eire"} {
		if err := CheckZone(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, hint := range map[string]string{
		"EST5PDT":             "use an IANA name such as America/New_York",
		"Local":               "the machine's own zone differs between machines; use an IANA name such as America/New_York",
		"utc":                 "did you mean UTC?",
		"PST":                 "an abbreviation fits several zones; did you mean America/Los_Angeles?",
		"+05:00":              "use an IANA name such as America/New_York; Etc/GMT-5 is fixed at +05:00",
		"UTC+2":               "use an IANA name such as America/New_York; Etc/GMT-5 is fixed at +05:00",
		"america/new_york":    "did you mean America/New_York?",
		"America/New York":    "did you mean America/New_York?",
		"Berlin":              "did you mean Europe/Berlin?",
		"new york":            "did you mean America/New_York?",
		"posixrules":          zoneHint,
		"Factory":             zoneHint,
		"right/Europe/Berlin": zoneHint,
		"posix/Europe/Berlin": zoneHint,
		"Europe/../../passwd": zoneHint,
		"/etc/localtime":      zoneHint,
		"Europe/Atlantis":     zoneHint,
		"Europe":              zoneHint,
		"Europe/":             zoneHint,
		"\x00":                zoneHint,
	} {
		var e *Error
		if err := CheckZone(name); !errors.As(err, &e) || e.Code != CodeZone || e.Field != "time_zone" || e.Hint != hint {
			t.Errorf("%q: got %v, want hint %q", name, err, hint)
		}
	}
}

// zoneNames lists the zones that come with Go.
func zoneNames(t *testing.T) []string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("where Go lies: %v", err)
	}
	z, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatalf("no list of zones: %v", err)
	}
	defer z.Close()
	var names []string
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, "/") && f.Name != "Factory" {
			names = append(names, f.Name)
		}
	}
	return names
}

// TestEveryCivilDay: in every zone a daily schedule fires one time for each
// civil date of the year, whatever the clock does.
func TestEveryCivilDay(t *testing.T) {
	names := zoneNames(t)
	exprs := []string{"0 0 * * *", "30 1 * * *", "30 2 * * *", "15 3 * * *", "45 23 * * *"}
	if testing.Short() {
		exprs = exprs[:1]
	}
	from, to := dayOf(2026, 1, 1), dayOf(2027, 1, 1)
	for _, name := range names {
		for _, expr := range exprs {
			s, err := Parse(expr, Options{Zone: name})
			if err != nil {
				t.Fatal(err)
			}
			want := from
			for f := range s.Between(time.Unix(from*day-3*day, 0), time.Unix(to*day+3*day, 0)) {
				d, err := ParseDate(f.Nominal[:10])
				if err != nil {
					t.Fatal(err)
				}
				if n := d.serial(); n < from || n >= to {
					continue
				} else if n != want {
					t.Fatalf("%s in %s: %s comes where %d was due", expr, name, f.Nominal, want)
				}
				want++
			}
			if want != to {
				t.Fatalf("%s in %s: %d of %d days", expr, name, want-from, to-from)
			}
		}
	}
}

// TestLeapDayStep: the bounds that the time package reports for a zone that
// changes by rule end before the last day of a leap year does.
func TestLeapDayStep(t *testing.T) {
	s, err := Parse("0 9 * * *", Options{Zone: "America/New_York"})
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2040, 12, 31, 20, 0, 0, 0, time.UTC)
	if f, ok := s.Next(from); !ok || !f.At.Equal(time.Date(2041, 1, 1, 14, 0, 0, 0, time.UTC)) {
		t.Errorf("got %v", f)
	}
	z, err := loadZone("America/New_York", nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(z.periods(dayOf(2040, 1, 1)*day, dayOf(2141, 1, 1)*day)); n != 2*101+1 {
		t.Errorf("%d offset periods in 101 years, want two changes a year", n)
	}
}

func TestFingerprint(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	print := func(expr, zone string, at time.Time) string {
		s, err := Parse(expr, Options{Zone: zone})
		if err != nil {
			t.Fatal(err)
		}
		return s.Fingerprint(at)
	}
	a := print("0 9 * * *", "America/New_York", from)
	if b := print("@every 1h", "US/Eastern", from); a != b {
		t.Errorf("the same data gives %s and %s", a, b)
	}
	if b := print("0 9 * * *", "America/Chicago", from); a == b {
		t.Error("other offsets give the same fingerprint")
	}
	// One change moved by a week, as when a government decides so.
	when := func(d int64) []int64 {
		return []int64{dayOf(2026, 3, 8)*day + 7*hour + d, dayOf(2026, 11, 1)*day + 6*hour}
	}
	offs := []int32{-5 * hour, -4 * hour, -5 * hour}
	prints := map[string]bool{}
	for _, d := range []int64{0, 7 * day} {
		z := &zone{loc: madeUpZone(t, when(d), offs)}
		prints[z.fingerprint(from.Unix())] = true
	}
	if len(prints) != 2 {
		t.Error("a moved change does not show")
	}
	// What lies behind the 18 months, or before them, does not matter.
	z := &zone{loc: madeUpZone(t, append(when(0), from.Unix()+fingerprintSpan+day), append(slices.Clone(offs), 0))}
	if !prints[z.fingerprint(from.Unix())] {
		t.Error("a change after 18 months shows")
	}
}

// TestConcurrentUse is for the race detector: one fresh zone and set, used by
// many at the same time.
func TestConcurrentUse(t *testing.T) {
	set, err := ParseSet([]string{"30 2 * * *", "*/7 9-17 * * MON-FRI", "@every 90m"}, Options{
		Zone: "Europe/Berlin", LoadZone: time.LoadLocation, Exclude: []Date{{2026, 12, 25}}})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(1999, 12, 30, 0, 0, 0, 0, time.UTC)
	want := set.Preview(at, time.Time{}, 200)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			other, err := ParseSet([]string{"30 2 * * *", "*/7 9-17 * * MON-FRI", "@every 90m"}, Options{Zone: "Europe/Berlin", Exclude: []Date{{2026, 12, 25}}})
			if err != nil {
				t.Error(err)
				return
			}
			for _, s := range []*Set{set, other} {
				got := s.Preview(at, time.Time{}, 200)
				for i := range got.Fires {
					if got.Fires[i].Text() != want.Fires[i].Text() {
						t.Errorf("fire %d differs", i)
						return
					}
				}
				if n := s.Count(at, at.AddDate(3, 0, 0)); n == 0 {
					t.Error("nothing counted")
				}
				s.Prev(at)
				s.Fingerprint(at)
			}
		})
	}
	wg.Wait()
}
