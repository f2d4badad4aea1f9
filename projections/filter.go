package projections

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// MaxPage is the most rows a list returns at once.
const MaxPage = 500

const standardPage = 50

// RunFilter says which runs to list. Empty fields do not filter.
type RunFilter struct {
	Job    string         `json:"job,omitempty"`
	States []domain.State `json:"states,omitempty"`
	Queue  string         `json:"queue,omitempty"`
	Kind   string         `json:"kind,omitempty"`
	Tag    string         `json:"tag,omitempty"`  // of a job that bears it now
	Since  time.Time      `json:"since,omitzero"` // scheduled at or after
	Until  time.Time      `json:"until,omitzero"` // scheduled before
	Text   string         `json:"text,omitempty"` // in the error's type or message, whatever the case

	Limit  int    `json:"-"` // 0 means 50, at most MaxPage
	Cursor string `json:"-"` // of the page before; empty for the first
}

// listing is a filter made ready for the statements.
type listing struct {
	RunFilter
	digest    string
	states    []domain.State // to merge, one range each; nil reads by the key alone
	below     uuid.UUID      // run ids wanted: from floor to before below
	floor     uuid.UUID
	since     time.Time
	until     time.Time
	scope     scope
	jobs      []uuid.UUID // of the scope ofJobs
	queueLeft string      // these are still to be compared row by row
	kindLeft  string
	tagLeft   string
	selective bool // there is such, so that few rows may remain
}

// scope is what a list's index begins with.
type scope int

const (
	everywhere scope = iota
	ofErrors         // runs with an error, whatever their state
	ofJobs
	ofKind
	ofQueue
	ofLane // a queue and a kind
)

type pageCursor struct {
	Format  int       `json:"v"`
	After   uuid.UUID `json:"after"`
	Filters string    `json:"filters"`
}

var (
	allIDs   = uuid.UUID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	earliest = time.Unix(0, 0).UTC()
	latest9k = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

func (f RunFilter) prepare() (listing, error) {
	l := listing{RunFilter: f, below: allIDs, since: earliest, until: latest9k}
	if f.Limit < 0 || f.Limit > MaxPage {
		return l, &FilterError{"limit", fmt.Sprintf("%d is not between 1 and %d", f.Limit, MaxPage)}
	}
	if l.Limit == 0 {
		l.Limit = standardPage
	}
	if err := l.chooseStates(); err != nil {
		return l, err
	}
	if !f.Since.IsZero() {
		l.since, l.floor = f.Since, idAt(f.Since.UnixMilli())
	}
	if !f.Until.IsZero() {
		l.until, l.below = f.Until, idAt(f.Until.UnixMilli()+1)
	}
	if !l.since.Before(l.until) {
		return l, &FilterError{"until", fmt.Sprintf("%s is not after since, %s", f.Until.Format(time.RFC3339Nano), f.Since.Format(time.RFC3339Nano))}
	}
	l.queueLeft, l.kindLeft, l.tagLeft = f.Queue, f.Kind, f.Tag
	switch {
	case f.Job != "":
		l.ofJobs(jobID(f.Job))
	case f.Text != "":
		l.scope = ofErrors
	case f.Kind != "" && f.Queue != "":
		l.within(ofLane)
		l.queueLeft, l.kindLeft = "", ""
	case f.Kind != "":
		l.within(ofKind)
		l.kindLeft = ""
	case f.Queue != "":
		l.within(ofQueue)
		l.queueLeft = ""
	}
	l.setSelective()
	return l, l.resume()
}

func (l *listing) within(s scope) {
	l.scope = s
	if l.states == nil {
		l.states = domain.States
	}
}

func (l *listing) ofJobs(ids ...uuid.UUID) {
	l.within(ofJobs)
	l.jobs = ids
}

func (l *listing) setSelective() {
	l.selective = l.queueLeft != "" || l.kindLeft != "" || l.tagLeft != "" || l.Text != ""
}

// fewTagged is up to how many jobs are listed by a range of runs for each. The
// runs of more jobs are frequent enough to be searched for.
const fewTagged = 10

// narrow makes the jobs that bear the tag the scope, if they are few.
func (l *listing) narrow(tagged []uuid.UUID) {
	if l.scope == ofJobs || l.scope == ofErrors || len(tagged) > fewTagged {
		return
	}
	l.queueLeft, l.kindLeft, l.tagLeft = l.Queue, l.Kind, ""
	l.ofJobs(tagged...)
	l.setSelective()
}

func (l *listing) chooseStates() error {
	for _, s := range l.States {
		if !slices.Contains(domain.States, s) {
			return &FilterError{"state", fmt.Sprintf("%q is none of %v", s, domain.States)}
		}
	}
	l.States = slices.Compact(slices.Sorted(slices.Values(l.States)))
	l.states = l.States
	if l.Text != "" && len(l.states) == 0 { // those that may have an error
		l.states = slices.DeleteFunc(slices.Clone(domain.States), func(s domain.State) bool { return s == domain.Succeeded || s == domain.Skipped })
	}
	if len(l.states) == 0 {
		l.states = nil
	}
	return nil
}

// resume goes on where the cursor's page ended.
func (l *listing) resume() error {
	b, err := json.Marshal(l.RunFilter)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	l.digest = hex.EncodeToString(sum[:8])
	if l.Cursor == "" {
		return nil
	}
	var c pageCursor
	raw, err := base64.RawURLEncoding.DecodeString(l.Cursor)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil || c.Format != 1 {
		return &FilterError{"cursor", "is none that a list of runs returned"}
	}
	if c.Filters != l.digest {
		return &FilterError{"cursor", "belongs to a list with other filters: repeat the filters of its first page, or leave the cursor out"}
	}
	if compareIDs(c.After, l.below) < 0 {
		l.below = c.After
	}
	return nil
}

func (l *listing) cursorAfter(id uuid.UUID) (string, error) {
	b, err := json.Marshal(pageCursor{Format: 1, After: id, Filters: l.digest})
	return base64.RawURLEncoding.EncodeToString(b), err
}

// idAt is the lowest id of a run whose instant is in that millisecond.
func idAt(milli int64) (id uuid.UUID) {
	for i := 5; i >= 0 && milli > 0; i-- {
		id[i] = byte(milli)
		milli >>= 8
	}
	return id
}
