package domain

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// The events that every run has are written without reflection, and their names
// in the order in which jsonb keeps them, shorter ones first: PostgreSQL looks
// whether they are sorted before it sorts them. They hold what json.Marshal
// writes. All others, and text that needs escapes, are left to it.

// appender appends its JSON to b, or reports false.
type appender interface {
	appendJSON(b []byte) ([]byte, bool)
}

func (e RunScheduled) appendJSON(b []byte) ([]byte, bool) {
	for _, text := range []string{e.Job, string(e.Origin), e.Nominal, e.Queue, e.Kind, e.Key, e.Reason} {
		if !plainText(text) {
			return nil, false
		}
	}
	b = append(append(append(b, `{"job":"`...), e.Job...), '"')
	b = appendText(b, `,"key":"`, e.Key)
	if len(e.Args) > 0 {
		args := bytes.NewBuffer(append(b, `,"args":`...))
		if json.Compact(args, e.Args) != nil {
			return nil, false
		}
		b = args.Bytes()
	}
	b = append(append(append(b, `,"kind":"`...), e.Kind...), `","queue":"`...)
	b = appendID(append(append(b, e.Queue...), `","job_id":"`...), e.JobID)
	b = append(append(append(b, `","origin":"`...), e.Origin...), '"')
	b = appendText(b, `,"reason":"`, e.Reason)
	b = appendText(b, `,"nominal":"`, e.Nominal)
	if e.CatchUp {
		b = append(b, `,"catch_up":true`...)
	}
	b = strconv.AppendInt(append(b, `,"priority":`...), int64(e.Priority), 10)
	b, ready := appendTime(append(b, `,"ready_at":`...), e.ReadyAt)
	if e.RetryOf != nil {
		b = append(appendID(append(b, `,"retry_of":"`...), *e.RetryOf), '"')
	}
	b = strconv.AppendInt(append(b, `,"job_version":`...), int64(e.JobVersion), 10)
	b, scheduled := appendTime(append(b, `,"scheduled_at":`...), e.ScheduledAt)
	return append(b, '}'), ready && scheduled
}

func (e RunClaimed) appendJSON(b []byte) ([]byte, bool) {
	b = appendID(append(b, `{"claim_id":"`...), e.ClaimID)
	b = strconv.AppendInt(append(b, `","dispatch":`...), int64(e.Dispatch), 10)
	b, ok := appendTime(append(b, `,"lease_until":`...), e.LeaseUntil)
	return append(b, '}'), ok
}

func (e RunStarted) appendJSON(b []byte) ([]byte, bool) {
	if !plainText(e.Worker) {
		return nil, false
	}
	b = appendID(append(b, `{"token":"`...), e.Token)
	b = append(append(append(b, `","worker":"`...), e.Worker...), `","attempt":`...)
	b = appendID(append(strconv.AppendInt(b, int64(e.Attempt), 10), `,"claim_id":"`...), e.ClaimID)
	b, ok := append(b, '"'), true
	if e.Deadline != nil {
		b, ok = appendTime(append(b, `,"deadline":`...), *e.Deadline)
	}
	b, until := appendTime(append(b, `,"lease_until":`...), e.LeaseUntil)
	return append(b, '}'), ok && until
}

func (e RunSucceeded) appendJSON(b []byte) ([]byte, bool) {
	b = strconv.AppendInt(append(b, `{"attempt":`...), int64(e.Attempt), 10)
	b = appendID(append(b, `,"claim_id":"`...), e.ClaimID)
	return append(b, `"}`...), true
}

func appendID(b []byte, id uuid.UUID) []byte {
	b = append(hex.AppendEncode(b, id[:4]), '-')
	b = append(hex.AppendEncode(b, id[4:6]), '-')
	b = append(hex.AppendEncode(b, id[6:8]), '-')
	b = append(hex.AppendEncode(b, id[8:10]), '-')
	return hex.AppendEncode(b, id[10:])
}

// appendText appends plain text behind its name; empty text is left out.
func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return append(append(append(b, name...), text...), '"')
}

// appendTime writes what time.RFC3339Nano does, of which every run has half a dozen.
// It leaves years that RFC 3339 has no form for to the general encoder, which
// refuses them.
func appendTime(b []byte, t time.Time) ([]byte, bool) {
	if t.Location() != time.UTC {
		return b, false
	}
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return b, false
	}
	hour, minute, second := t.Clock()
	b = append(b, '"', byte('0'+year/1000), byte('0'+year/100%10), byte('0'+year/10%10), byte('0'+year%10), '-')
	b = append(b, byte('0'+month/10), byte('0'+month%10), '-', byte('0'+day/10), byte('0'+day%10), 'T')
	b = append(b, byte('0'+hour/10), byte('0'+hour%10), ':', byte('0'+minute/10), byte('0'+minute%10), ':', byte('0'+second/10), byte('0'+second%10))
	if ns := t.Nanosecond(); ns > 0 {
		b = append(b, '.')
		for unit := 100_000_000; ns > 0; unit /= 10 { // no zeros at the end
			b = append(b, byte('0'+ns/unit))
			ns %= unit
		}
	}
	return append(b, 'Z', '"'), true
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
