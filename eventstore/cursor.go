package eventstore

import (
	"errors"
	"regexp"
)

// Cursor is how far a reader of the whole log is. The zero Cursor is the
// beginning. Its fields are for storage only.
//
// A reader has everything that the snapshot Prev sees. While it is inside a
// window, it also has what Next sees up to Position.
type Cursor struct {
	Era      int    `json:"era"`
	Prev     string `json:"prev,omitempty"`
	Next     string `json:"next,omitempty"`
	Position int64  `json:"position,omitempty"`

	// What a snapshot does not see lies above its floor, transactions that it
	// saw open left aside. What it sees lies no higher than its ceiling; a window
	// with a ceiling is read slice by slice.
	PrevFloor   int64 `json:"prev_floor,omitempty"`
	NextFloor   int64 `json:"next_floor,omitempty"`
	NextCeiling int64 `json:"next_ceiling,omitempty"`

	// Low is the low mark that the reader knew when it began where it began.
	Low int64 `json:"low,omitempty"`
}

// Validate reports a cursor that cannot have come from a reader. What it accepts
// is at worst a wrong place.
func (c Cursor) Validate() error {
	if c.Era < 0 || min(c.Position, c.PrevFloor, c.NextFloor, c.NextCeiling, c.Low) < 0 || c.Next != "" && c.Prev == "" || c.Era > 0 && c.Prev == "" {
		return errors.New("not a place in the log")
	}
	for _, s := range []string{c.Prev, c.Next} {
		if s != "" && !snapshotText.MatchString(s) {
			return errors.New("not a place in the log")
		}
	}
	return nil
}

// snapshotText is how PostgreSQL writes a snapshot: xmin, xmax, and what was
// open in between.
var snapshotText = regexp.MustCompile(`^[0-9]{1,20}:[0-9]{1,20}:([0-9]{1,20}(,[0-9]{1,20})*)?$`)
