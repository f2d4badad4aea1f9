package domain

import (
	"strconv"
	"time"

	"github.com/google/uuid"
)

// The events that every run has are read without reflection, too, as far as they
// have the form in which the log gives them back. Whatever else there is, an
// escape, a member of a later version, a null, is left to encoding/json, which
// decides what it means.

// members reads an object of plain strings and whole numbers.
type members struct {
	rest []byte
	key  []byte
}

// name reads a member's name and the colon behind it.
func (m *members) name() (ok bool) {
	m.space()
	if m.key, ok = m.text(); !ok {
		return false
	}
	m.space()
	ok = m.skip(':')
	m.space()
	return ok
}

// end reports whether the object ends here, and the text with it.
func (m *members) end() bool {
	m.space()
	if !m.skip('}') {
		return false
	}
	m.space()
	return len(m.rest) == 0
}

func (m *members) skip(c byte) bool {
	if len(m.rest) == 0 || m.rest[0] != c {
		return false
	}
	m.rest = m.rest[1:]
	return true
}

func (m *members) space() {
	for len(m.rest) > 0 && (m.rest[0] == ' ' || m.rest[0] == '\n' || m.rest[0] == '\t' || m.rest[0] == '\r') {
		m.rest = m.rest[1:]
	}
}

func (m *members) text() ([]byte, bool) {
	if !m.skip('"') {
		return nil, false
	}
	for i, c := range m.rest {
		switch {
		case c == '"':
			s := m.rest[:i]
			m.rest = m.rest[i+1:]
			return s, true
		case c == '\\' || c < ' ' || c > '~':
			return nil, false
		}
	}
	return nil, false
}

func (m *members) id(to *uuid.UUID) bool {
	s, ok := m.text()
	if !ok || len(s) != 36 {
		return false
	}
	id, err := uuid.ParseBytes(s)
	*to = id
	return err == nil
}

func (m *members) time(to *time.Time) bool {
	s, ok := m.text()
	return ok && to.UnmarshalText(s) == nil
}

func (m *members) number(to *int) bool {
	n := 0
	for n < len(m.rest) && n < 10 && m.rest[n] >= '0' && m.rest[n] <= '9' {
		n++
	}
	if n == 0 || n > 1 && m.rest[0] == '0' || n < len(m.rest) && m.rest[n] != ',' && m.rest[n] != '}' {
		return false
	}
	v, err := strconv.Atoi(string(m.rest[:n]))
	m.rest = m.rest[n:]
	*to = v
	return err == nil
}

// scan reads an object, each member by f, and reports whether all of it has been
// read. A key that comes again replaces what came before, as in encoding/json.
func scan(data []byte, f func(m *members) bool) bool {
	m := members{rest: data}
	m.space()
	if !m.skip('{') {
		return false
	}
	for m.name() && f(&m) {
		m.space()
		if !m.skip(',') {
			return m.end()
		}
	}
	return false
}

func scanClaimed(data []byte) (e RunClaimed, ok bool) {
	ok = scan(data, func(m *members) bool {
		switch string(m.key) {
		case "claim_id":
			return m.id(&e.ClaimID)
		case "lease_until":
			return m.time(&e.LeaseUntil)
		case "dispatch":
			return m.number(&e.Dispatch)
		}
		return false
	})
	return e, ok
}

func scanStarted(data []byte) (e RunStarted, ok bool) {
	ok = scan(data, func(m *members) bool {
		switch string(m.key) {
		case "claim_id":
			return m.id(&e.ClaimID)
		case "token":
			return m.id(&e.Token)
		case "worker":
			s, ok := m.text()
			e.Worker = string(s)
			return ok
		case "attempt":
			return m.number(&e.Attempt)
		case "lease_until":
			return m.time(&e.LeaseUntil)
		case "deadline":
			e.Deadline = new(time.Time)
			return m.time(e.Deadline)
		}
		return false
	})
	return e, ok
}

func scanSucceeded(data []byte) (e RunSucceeded, ok bool) {
	ok = scan(data, func(m *members) bool {
		switch string(m.key) {
		case "claim_id":
			return m.id(&e.ClaimID)
		case "attempt":
			return m.number(&e.Attempt)
		}
		return false
	})
	return e, ok
}

// quick decodes by scan what it can, and the rest as all other events.
func quick[E Event](scan func([]byte) (E, bool)) func([]byte) (Event, error) {
	return func(data []byte) (Event, error) {
		if e, ok := scan(data); ok {
			return e, nil
		}
		return decode[E](data)
	}
}
