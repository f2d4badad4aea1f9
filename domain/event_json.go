package domain

import (
	"strconv"
	"time"

	"github.com/google/uuid"
)

// The events that every run has are written without reflection; the result is
// what json.Marshal writes. All others, and text that needs escapes, are left to
// it.

// appender appends its JSON to b, or reports false.
type appender interface {
	appendJSON(b []byte) ([]byte, bool)
}

func (e RunClaimed) appendJSON(b []byte) ([]byte, bool) {
	b = appendID(append(b, `{"claim_id":"`...), e.ClaimID)
	b, ok := appendTime(append(b, `","lease_until":`...), e.LeaseUntil)
	b = strconv.AppendInt(append(b, `,"dispatch":`...), int64(e.Dispatch), 10)
	return append(b, '}'), ok
}

func (e RunStarted) appendJSON(b []byte) ([]byte, bool) {
	if !plainText(e.Worker) {
		return nil, false
	}
	b = appendID(append(b, `{"claim_id":"`...), e.ClaimID)
	b = appendID(append(b, `","token":"`...), e.Token)
	b = append(append(append(b, `","worker":"`...), e.Worker...), `","attempt":`...)
	b = strconv.AppendInt(b, int64(e.Attempt), 10)
	b, ok := appendTime(append(b, `,"lease_until":`...), e.LeaseUntil)
	if e.Deadline != nil && ok {
		b, ok = appendTime(append(b, `,"deadline":`...), *e.Deadline)
	}
	return append(b, '}'), ok
}

func (e RunSucceeded) appendJSON(b []byte) ([]byte, bool) {
	b = appendID(append(b, `{"claim_id":"`...), e.ClaimID)
	b = strconv.AppendInt(append(b, `","attempt":`...), int64(e.Attempt), 10)
	return append(b, '}'), true
}

func appendID(b []byte, id uuid.UUID) []byte {
	const digits = "0123456789abcdef"
	for i, v := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		b = append(b, digits[v>>4], digits[v&15])
	}
	return b
}

// appendTime leaves years that RFC 3339 has no form for to the general encoder,
// which refuses them.
func appendTime(b []byte, t time.Time) ([]byte, bool) {
	if t.Location() != time.UTC || t.Year() < 0 || t.Year() > 9999 {
		return b, false
	}
	return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"'), true
}

// plainText reports text that JSON holds as it is.
func plainText(s string) bool {
	for _, c := range []byte(s) {
		if c < 0x20 || c > 0x7e || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}
