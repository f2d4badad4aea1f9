package schedule

import (
	"testing"
	"time"
)

var benchCases = []struct{ name, expr, zone string }{
	{"minutely", "* * * * *", "America/New_York"},
	{"quarter", "*/15 * * * *", "Europe/Berlin"},
	{"busy", "*/5 9-17 * * MON-FRI", "America/New_York"},
	{"daily", "30 2 * * *", "America/New_York"},
	{"dailyUTC", "30 2 * * *", "UTC"},
	{"monthly", "0 18 LW * *", "Europe/London"},
	{"yearly", "0 0 1 1 *", "Asia/Kathmandu"},
	{"leap", "0 0 29 2 *", "America/New_York"},
	{"rare", "0 0 * 2 MON#5", "America/New_York"},
	{"interval", "@every 90m", "America/New_York"},
}

var benchFrom = time.Date(2026, 3, 5, 12, 34, 56, 0, time.UTC)

func BenchmarkNext(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			s, err := Parse(c.expr, Options{Zone: c.zone})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			at := benchFrom
			for i := 1; b.Loop(); i++ {
				f, ok := s.Next(at)
				if at = f.At; !ok || i%16 == 0 {
					at = benchFrom
				}
			}
		})
	}
}

func BenchmarkPrev(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			s, err := Parse(c.expr, Options{Zone: c.zone})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Prev(benchFrom)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(c.expr, Options{Zone: c.zone}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("never", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Parse("0 0 8-31 * +MON#1", Options{}); err == nil {
				b.Fatal("accepted")
			}
		}
	})
}

func BenchmarkCount(b *testing.B) {
	for _, c := range []struct {
		name, expr string
		days       int
	}{{"minutes30d", "* * * * *", 30}, {"minutes10y", "* * * * *", 3650}, {"daily10y", "30 2 * * *", 3650}, {"interval10y", "@every 90s", 3650}} {
		b.Run(c.name, func(b *testing.B) {
			s, err := Parse(c.expr, Options{Zone: "America/New_York"})
			if err != nil {
				b.Fatal(err)
			}
			until := benchFrom.AddDate(0, 0, c.days)
			for b.Loop() {
				s.Count(benchFrom, until)
			}
		})
	}
}

// BenchmarkSetCount is the costly way to count: with several expressions the
// instants are merged one by one.
func BenchmarkSetCount(b *testing.B) {
	s, err := ParseSet([]string{"*/5 * * * *", "*/7 9-17 * * *"}, Options{Zone: "America/New_York"})
	if err != nil {
		b.Fatal(err)
	}
	until := benchFrom.AddDate(1, 0, 0)
	for b.Loop() {
		s.Count(benchFrom, until)
	}
}

// BenchmarkPage is the one-time cost of a zone's first use, per century.
func BenchmarkPage(b *testing.B) {
	z, err := loadZone("America/New_York", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		z.makePage(1)
	}
}
