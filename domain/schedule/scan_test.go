package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// randomExpr makes an expression that both sides can read.
func randomExpr(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	num := func(low, high int) string { return strconv.Itoa(low + r.IntN(high-low+1)) }
	minute := pick("*", "0", "30", "*/15", "*/7", "5/20", num(0, 59), num(0, 29)+","+num(30, 59), num(0, 20)+"-"+num(21, 59))
	hour := pick("*", "*", "0-23", "0", "1", "2", "3", "23", "*/2", "1-23/2", "0-5", "22-4", "22-2/2", num(0, 23), num(0, 3)+","+num(4, 23), "9-17")
	dom := pick("*", "*", "*", "?", "1", "L", "LW", "L-2", "15W", "1W", "31", "31W", "1-7", "*/2", num(1, 28)+","+num(1, 31), "10-20/3")
	month := pick("*", "*", "*", "3", "10-11", "11-4", "*/3", num(1, 12))
	dow := pick("*", "*", "*", "?", "0", "1-5", "5-1", "6,0", "+0", "+5-6", "0#1", "0L", "5#5", "*/2", "+1#2,5L", num(0, 6))
	return strings.Join([]string{minute, hour, dom, month, dow}, " ")
}

// compare checks one expression against the scan of rs over [from, to).
func compare(t *testing.T, loc *time.Location, rs []reading, expr string, from, to time.Time) {
	t.Helper()
	s, err := Parse(expr, Options{Zone: "UTC", LoadZone: func(string) (*time.Location, error) { return loc, nil }})
	if err != nil {
		if e, ok := err.(*Error); ok && e.Code == CodeNever {
			return
		}
		t.Fatalf("%s: %v", expr, err)
	}
	want := scan(rs, expr, from, to)
	var got []int64
	p := newPlain(expr)
	for f := range s.Between(from.Add(-1), to.Add(-1)) {
		got = append(got, f.At.Unix())
		if f.Shift != 0 || f.Fold != 0 || len(got)%61 == 1 {
			checkDress(t, rs, p, f)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s in %s from %s to %s: %d fires, the scan has %d; %s", expr, loc, from, to, len(got), len(want), firstDifference(got, want))
	}
	if n := s.Count(from.Add(-1), to.Add(-1)); n != len(want) {
		t.Fatalf("%s in %s: Count %d, the scan has %d", expr, loc, n, len(want))
	}
	var back []int64
	for at := to; len(back) <= len(want); {
		f, ok := s.Prev(at)
		if !ok || f.At.Before(from) {
			break
		}
		back = append(back, f.At.Unix())
		at = f.At
	}
	slices.Reverse(back)
	if !slices.Equal(back, want) {
		t.Fatalf("%s in %s: backwards %d fires, the scan has %d; %s", expr, loc, len(back), len(want), firstDifference(back, want))
	}
}

// checkDress checks what a fire says about its civil time.
func checkDress(t *testing.T, rs []reading, p *plain, f Fire) {
	t.Helper()
	nominal, err := time.Parse("2006-01-02T15:04", f.Nominal)
	if err != nil {
		t.Fatal(err)
	}
	label, at := nominal.Unix(), f.At.Unix()
	if !p.match(label) {
		t.Fatalf("%v: the schedule does not name %s", f.At, f.Nominal)
	}
	here := rs[(at-rs[0].at)/60]
	if shift := here.label - label; shift != int64(f.Shift/time.Second) {
		t.Fatalf("%v: shift %s, but the clock is %d s after %s", f.At, f.Shift, shift, f.Nominal)
	}
	shown, before := 0, 0
	for i := max(0, (at-rs[0].at)/60-5*24*60); i < int64(len(rs)) && rs[i].at < at+5*day; i++ {
		if rs[i].label == label {
			shown++
			if rs[i].at < at {
				before++
			}
		}
	}
	want := 0
	if shown > 1 {
		want = before + 1
	}
	if int(f.Fold) != want {
		t.Fatalf("%v: fold %d, want %d", f.At, f.Fold, want)
	}
}

func firstDifference(got, want []int64) string {
	for i := 0; i < len(got) || i < len(want); i++ {
		g, w := "none", "none"
		if i < len(got) {
			g = time.Unix(got[i], 0).UTC().Format(time.RFC3339)
		}
		if i < len(want) {
			w = time.Unix(want[i], 0).UTC().Format(time.RFC3339)
		}
		if g != w {
			return fmt.Sprintf("first difference: got %s, want %s", g, w)
		}
	}
	return "equal"
}

func TestAgainstClockScan(t *testing.T) {
	years := map[string][]int{
		"America/New_York": {2026, 2099, 2150}, "Europe/Berlin": {2026}, "Europe/London": {1968}, "Europe/Dublin": {2027},
		"Australia/Lord_Howe": {2026}, "Antarctica/Troll": {2026}, "America/Nuuk": {2023}, "America/Havana": {2026},
		"Africa/Casablanca": {2026}, "Africa/Cairo": {2014}, "Asia/Beirut": {2023}, "Asia/Gaza": {2011}, "Pacific/Apia": {2011},
		"Pacific/Kwajalein": {1993}, "Asia/Pyongyang": {2018}, "America/Caracas": {2016}, "Pacific/Chatham": {2028},
		"America/Sao_Paulo": {2018}, "Atlantic/Azores": {2026}, "America/Metlakatla": {2018}, "Asia/Kathmandu": {1986}, "UTC": {2000},
		"America/Argentina/San_Luis": {2008}, "Asia/Manila": {1978}, "Antarctica/Casey": {2020},
	}
	perYear := 8
	if testing.Short() {
		perYear = 3
	}
	for name, list := range years {
		for _, y := range list {
			t.Run(fmt.Sprint(name, "/", y), func(t *testing.T) {
				t.Parallel()
				loc, err := time.LoadLocation(name)
				if err != nil {
					t.Fatal(err)
				}
				from := time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC)
				to := from.AddDate(1, 0, 0)
				rs := readClock(loc, from.AddDate(0, 0, -4), to.AddDate(0, 0, 4))
				r := rand.New(rand.NewPCG(uint64(y), uint64(len(name))))
				for range perYear {
					compare(t, loc, rs, randomExpr(r), from, to)
				}
			})
		}
	}
}

// TestOddZones checks made-up zones whose changes follow each other within
// hours, with gaps whose labels come back and with changes at a page's edge.
func TestOddZones(t *testing.T) {
	edge := int64(pageOrigin + pageSpan)
	rounds := 80
	if testing.Short() {
		rounds = 20
	}
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 7))
		oddZone(t, r, edge)
	}
}

func oddZone(t *testing.T, r *rand.Rand, around int64) {
	t.Helper()
	around -= around % 60
	var when []int64
	var offs []int32
	at := around - 3*day + int64(r.IntN(2*24*60))*60
	offs = append(offs, int32(r.IntN(105)-52)*15*60)
	for range 1 + r.IntN(6) {
		when = append(when, at)
		offs = append(offs, int32(r.IntN(105)-52)*15*60)
		at += int64(1+r.IntN(36*60)) * 60
	}
	loc := madeUpZone(t, when, offs)
	from, to := time.Unix(around-9*day, 0).UTC(), time.Unix(at+9*day, 0).UTC()
	rs := readClock(loc, from.AddDate(0, 0, -4), to.AddDate(0, 0, 4))
	for range 6 {
		compare(t, loc, rs, randomExpr(r), from, to)
	}
}

// madeUpZone builds time zone data in the TZif format: offs[0] holds before
// when[0], offs[i+1] from when[i].
func madeUpZone(t *testing.T, when []int64, offs []int32) *time.Location {
	t.Helper()
	be := func(v int32) []byte { return []byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)} }
	b := append([]byte("TZif"), make([]byte, 16)...)
	for _, n := range []int{0, 0, 0, len(when), len(offs), 4} {
		b = append(b, be(int32(n))...)
	}
	for _, w := range when {
		b = append(b, be(int32(w))...)
	}
	for i := range when {
		b = append(b, byte(i+1))
	}
	for _, o := range offs {
		b = append(append(b, be(o)...), 0, 0)
	}
	b = append(b, "XXX\x00"...)
	loc, err := time.LoadLocationFromTZData("Made/Up", b)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}
