package schedule

import (
	"fmt"
	"strings"
	"time"
)

// MaxPreview is the largest number of fires of one Preview.
const MaxPreview = 100_000

// Preview is what a schedule will do, ready to be shown as JSON or text.
type Preview struct {
	Description  string        `json:"description"`
	Warnings     []Warning     `json:"warnings"`
	Fires        []PreviewFire `json:"fires"`
	ClockChanges []ClockChange `json:"clock_changes"`
}

// PreviewFire is one fire of a Preview.
type PreviewFire struct {
	At      time.Time `json:"at"`             // UTC
	Local   string    `json:"local"`          // what the clock shows, with its offset: 2026-03-08T03:30:00-04:00
	Nominal string    `json:"nominal"`        // the civil time that the schedule names: 2026-03-08T02:30
	Shift   string    `json:"shift"`          // as a Go duration, "0s" when the fire was not moved
	Fold    uint8     `json:"fold"`           // see Fire.Fold
	Note    string    `json:"note,omitempty"` // a clock change in words

	zone *zone
}

// Preview lists the first n fires in (after, until]; a zero until is no limit,
// and n is capped at MaxPreview. Warnings and clock changes look ahead from
// after.
func (s *Schedule) Preview(after, until time.Time, n int) Preview {
	return (&Set{[]*Schedule{s}}).Preview(after, until, n)
}

// Preview lists the first n fires in (after, until]; a zero until is no limit,
// and n is capped at MaxPreview. Warnings and clock changes look ahead from
// after.
func (s *Set) Preview(after, until time.Time, n int) Preview {
	p := Preview{
		Description:  s.Describe(),
		Warnings:     s.Warnings(after),
		Fires:        []PreviewFire{},
		ClockChanges: s.ClockChanges(after),
	}
	n = min(n, MaxPreview)
	if until.IsZero() {
		until = time.Unix(latest+day, 0)
	}
	if n <= 0 {
		return p
	}
	z := s.parts[0].zone
	for f := range s.Between(after, until) {
		p.Fires = append(p.Fires, z.preview(f))
		if len(p.Fires) == n {
			break
		}
	}
	return p
}

func (z *zone) preview(f Fire) PreviewFire {
	off := z.offset(f.At.Unix())
	local := formatLabel(f.At.Unix()+off, int32(f.At.Nanosecond()))
	if len(local) == len("2006-01-02T15:04") {
		local += ":00"
	}
	p := PreviewFire{At: f.At, Local: local + formatOffset(off), Nominal: f.Nominal, Shift: f.Shift.String(), Fold: f.Fold, zone: z}
	if off == 0 {
		p.Local = local + "Z"
	}
	switch {
	case f.Shift != 0:
		date, clock, _ := strings.Cut(f.Nominal, "T")
		p.Note = fmt.Sprintf("%s does not exist that day; moved to %s", clock, clockOf(f.At.Unix()+off, 0))
		if date != local[:len(date)] {
			p.Note = fmt.Sprintf("%s %s does not exist; moved to %s %s", date, clock, local[:len(date)], clockOf(f.At.Unix()+off, 0))
		}
	case f.Fold == 1:
		p.Note = fmt.Sprintf("%s comes twice that day; this is the first", f.Nominal[len("2006-01-02T"):])
	case f.Fold > 1:
		p.Note = fmt.Sprintf("%s comes twice that day; this is the second", f.Nominal[len("2006-01-02T"):])
	}
	return p
}

// Text writes the fire as one line: local time, UTC and the note.
func (p PreviewFire) Text() string {
	if p.zone == nil {
		return p.Local
	}
	local := p.At.In(p.zone.loc)
	abbr, _ := local.Zone()
	offset := formatOffset(p.zone.offset(p.At.Unix()))
	if strings.ContainsAny(abbr[:1], "+-") {
		abbr = "" // the data has no letters for this zone
	} else {
		abbr += " "
	}
	layout := "Mon 2006-01-02 15:04"
	utc := "15:04Z"
	if p.At.Second() != 0 || local.Second() != 0 || p.At.Nanosecond() != 0 {
		layout, utc = layout+":05.999999999", "15:04:05.999999999Z"
	}
	if local.Format(time.DateOnly) != p.At.Format(time.DateOnly) {
		utc = time.DateOnly + " " + utc
	}
	line := fmt.Sprintf("%s %s(%s)   %s", local.Format(layout), abbr, offset, p.At.Format(utc))
	if p.Note != "" {
		line += "   " + p.Note
	}
	return line
}

// Text writes the whole preview for a terminal, ending in a newline.
func (p Preview) Text() string {
	var b strings.Builder
	fmt.Fprintln(&b, p.Description)
	for _, w := range p.Warnings {
		fmt.Fprintln(&b, "warning:", w.Message)
	}
	if len(p.Fires) > 0 {
		b.WriteByte('\n')
	}
	for _, f := range p.Fires {
		fmt.Fprintln(&b, f.Text())
	}
	if len(p.ClockChanges) > 0 {
		fmt.Fprintln(&b, "\nnext clock changes for this schedule:")
	}
	for _, c := range p.ClockChanges {
		fmt.Fprintln(&b, c.Text())
	}
	return b.String()
}

// Text writes the change as one line.
func (c ClockChange) Text() string {
	from, to := c.From[len("2006-01-02T"):], strings.Replace(c.To, "T", " ", 1)
	if c.From[:len(time.DateOnly)] == c.To[:len(time.DateOnly)] {
		to = c.To[len("2006-01-02T"):]
	}
	return fmt.Sprintf("%s %s -> %s (%s to %s): %s", c.From[:len(time.DateOnly)], from, to, c.Before, c.After, c.Effect)
}
