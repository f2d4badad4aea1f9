package domain

import (
	"time"

	"github.com/daybookhq/daybook/domain/schedule"
)

// Instants is the set of instants that the definition names; nil if it runs on
// request only.
func (s JobSpec) Instants() (*schedule.Set, error) {
	if len(s.Schedules) == 0 {
		return nil, nil
	}
	o := schedule.Options{Zone: s.TimeZone}
	if s.StartAt != nil {
		o.Start = *s.StartAt
	}
	if s.EndAt != nil {
		o.End = *s.EndAt
	}
	for _, day := range s.Exclude {
		d, err := schedule.ParseDate(day)
		if err != nil {
			return nil, err
		}
		o.Exclude = append(o.Exclude, d)
	}
	return schedule.ParseSet(s.Schedules, o)
}

// CivilKey names the civil time of a fire in its zone, if all of the set's
// schedules are of wall times: such a time runs one time, also when new zone
// data moves its instant. Otherwise it is empty.
func CivilKey(set *schedule.Set, f schedule.Fire) string {
	for _, s := range set.Schedules() {
		if s.Class() != schedule.ClassWall {
			return ""
		}
	}
	return f.Nominal + "[" + set.Zone() + "]"
}

// NextFire is the first instant of the job after the watermark; false if it is
// not active or has none.
func (j Job) NextFire(set *schedule.Set, watermark time.Time) (time.Time, bool) {
	if !j.Active() || set == nil {
		return time.Time{}, false
	}
	f, ok := set.Next(watermark)
	return f.At, ok
}
