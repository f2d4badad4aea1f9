package protocol

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Encode is json.Marshal without HTML escapes. The messages of which there are thousands a second are written without
// reflection and, in JSON given by others, keep its white space.
func Encode(v any) ([]byte, error) {
	if a, ok := v.(appender); ok {
		if b, ok := a.appendJSON(make([]byte, 0, 192)); ok { // an item
			return b, nil
		}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}

// Decode is json.Unmarshal into a zero value. The messages of which there are thousands a second are read without
// reflection if they are written as Encode does; the result is the same.
func Decode(b []byte, v any) error {
	if d, ok := v.(decoder); ok && d.decodeJSON(b) {
		return nil
	}
	return json.Unmarshal(b, v)
}

// appender appends its JSON to dst, or reports false if it takes the general encoder.
type appender interface {
	appendJSON(dst []byte) ([]byte, bool)
}

// decoder sets itself from b, or reports false, unchanged, if it takes the general decoder.
type decoder interface {
	decodeJSON(b []byte) bool
}

// fielder sets one of its fields, or reports false if it takes the general decoder. Texts that are those of
// the item before in the list, the zero item at its beginning, are taken from there instead of made again.
type fielder[T any] interface {
	setField(key []byte, v value, before *T) bool
}

func (q StartRequest) appendJSON(dst []byte) ([]byte, bool) {
	dst = append(dst, `{"worker_id":`...)
	dst, ok := appendString(dst, q.WorkerID)
	dst = append(dst, `,"items":`...)
	return closeList(dst, q.Items, ok)
}

func (q CompleteRequest) appendJSON(dst []byte) ([]byte, bool) {
	return closeList(append(dst, `{"items":`...), q.Items, true)
}

func (r Reply[R]) appendJSON(dst []byte) ([]byte, bool) {
	if r.Error != nil || len(r.Results) == 0 {
		return nil, false
	}
	return closeList(append(dst, `{"results":`...), r.Results, true)
}

// closeList appends a list and the end of the object around it.
func closeList[T any](dst []byte, items []T, ok bool) ([]byte, bool) {
	if items == nil {
		return nil, false
	}
	dst = append(dst, '[')
	first := len(dst)
	for i := 0; ok && i < len(items); i++ {
		a, is := any(&items[i]).(appender)
		if !is {
			return nil, false
		}
		if i == 1 { // the items are of about one size
			dst = slices.Grow(dst, (len(items)-1)*(len(dst)-first+8)+2)
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst, ok = a.appendJSON(dst)
	}
	return append(dst, "]}"...), ok
}

func (i StartItem) appendJSON(dst []byte) ([]byte, bool) {
	dst = appendClaim(dst, i.RunID, i.ClaimID)
	dst = append(dst, `,"token":"`...)
	dst = appendID(dst, i.Token)
	return append(dst, `"}`...), true
}

func (i CompleteItem) appendJSON(dst []byte) ([]byte, bool) {
	if i.Output != nil {
		return nil, false
	}
	dst = appendClaim(dst, i.RunID, i.ClaimID)
	dst, ok := appendRaw(dst, `,"result":`, i.Result)
	if i.Ran != 0 {
		dst = append(append(append(dst, `,"ran":"`...), i.Ran.String()...), '"')
	}
	return append(dst, '}'), ok
}

func (r *Result) appendJSON(dst []byte) ([]byte, bool) {
	if r.Error != nil || r.Status == "" {
		return nil, false
	}
	dst = append(dst, `{"status":`...)
	dst, ok := appendString(dst, string(r.Status))
	if ok && r.Code != "" {
		dst = append(dst, `,"code":`...)
		dst, ok = appendString(dst, string(r.Code))
	}
	return append(dst, '}'), ok
}

func (r *StartResult) appendJSON(dst []byte) ([]byte, bool) {
	if r.Status != StatusStarted || r.Code != "" || r.Error != nil || r.RunID == uuid.Nil || r.JobID == uuid.Nil {
		return nil, false
	}
	ok := true
	text := func(key, s string) {
		if s != "" && ok {
			dst, ok = appendString(append(dst, key...), s)
		}
	}
	raw := func(key string, b json.RawMessage) {
		if ok {
			dst, ok = appendRaw(dst, key, b)
		}
	}
	number := func(key string, n int) {
		if n != 0 {
			dst = strconv.AppendInt(append(dst, key...), int64(n), 10)
		}
	}
	duration := func(key string, d Duration) {
		if d != 0 {
			dst = append(append(append(append(dst, key...), '"'), d.String()...), '"')
		}
	}
	dst = append(dst, `{"status":"started","run_id":"`...)
	dst = append(appendID(dst, r.RunID), '"')
	text(`,"job":`, r.Job)
	dst = append(dst, `,"job_id":"`...)
	dst = append(appendID(dst, r.JobID), '"')
	text(`,"kind":`, r.Kind)
	text(`,"origin":`, r.Origin)
	raw(`,"args":`, r.Args)
	raw(`,"target":`, r.Target)
	number(`,"attempt":`, r.Attempt)
	number(`,"max_attempts":`, r.MaxAttempts)
	if !r.ScheduledAt.IsZero() {
		at := r.ScheduledAt.UTC()
		ok = ok && at.Year() >= 0 && at.Year() <= 9999
		dst = append(at.AppendFormat(append(dst, `,"scheduled_at":"`...), timeLayout), '"')
	}
	duration(`,"timeout":`, r.Timeout)
	duration(`,"deadline":`, r.Deadline)
	duration(`,"lease_remaining":`, r.LeaseRemaining)
	text(`,"traceparent":`, r.Traceparent)
	return append(dst, '}'), ok
}

func appendClaim(dst []byte, run, claim uuid.UUID) []byte {
	dst = append(dst, `{"run_id":"`...)
	dst = appendID(dst, run)
	dst = append(dst, `","claim_id":"`...)
	dst = appendID(dst, claim)
	return append(dst, '"')
}

func appendID(dst []byte, id uuid.UUID) []byte {
	dst = append(hex.AppendEncode(dst, id[:4]), '-')
	dst = append(hex.AppendEncode(dst, id[4:6]), '-')
	dst = append(hex.AppendEncode(dst, id[6:8]), '-')
	dst = append(hex.AppendEncode(dst, id[8:10]), '-')
	return hex.AppendEncode(dst, id[10:])
}

// appendString appends s quoted if it needs no escapes.
func appendString(dst []byte, s string) ([]byte, bool) {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return nil, false
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"'), true
}

// appendRaw appends a field whose value is JSON already; absent if there is none.
func appendRaw(dst []byte, key string, raw json.RawMessage) ([]byte, bool) {
	if len(raw) == 0 {
		return dst, true
	}
	if !json.Valid(raw) {
		return nil, false // the general encoder says why
	}
	return append(append(dst, key...), raw...), true
}

func (q *StartRequest) decodeJSON(b []byte) bool {
	var out StartRequest
	ok := scanAll(b, func(key []byte, v value) (ok bool) {
		switch string(key) {
		case "worker_id":
			out.WorkerID, ok = v.text()
		case "items":
			out.Items, ok = decodeList[StartItem](v)
		}
		return ok
	})
	if ok {
		*q = out
	}
	return ok
}

func (q *CompleteRequest) decodeJSON(b []byte) bool {
	var items []CompleteItem
	ok := scanAll(b, func(key []byte, v value) (ok bool) {
		if string(key) == "items" {
			items, ok = decodeList[CompleteItem](v)
		}
		return ok
	})
	if ok {
		*q = CompleteRequest{items}
	}
	return ok
}

func (r *Reply[R]) decodeJSON(b []byte) bool {
	var results []R
	ok := scanAll(b, func(key []byte, v value) (ok bool) {
		if string(key) == "results" {
			results, ok = decodeList[R](v)
		}
		return ok
	})
	if ok {
		*r = Reply[R]{Results: results}
	}
	return ok
}

func (i *StartItem) setField(key []byte, v value, _ *StartItem) (ok bool) {
	switch string(key) {
	case "run_id":
		i.RunID, ok = v.id()
	case "claim_id":
		i.ClaimID, ok = v.id()
	case "token":
		i.Token, ok = v.id()
	}
	return ok
}

func (i *CompleteItem) setField(key []byte, v value, _ *CompleteItem) (ok bool) {
	switch string(key) {
	case "run_id":
		i.RunID, ok = v.id()
	case "claim_id":
		i.ClaimID, ok = v.id()
	case "result":
		i.Result, ok = v.json()
	case "ran":
		i.Ran, ok = v.duration()
	}
	return ok
}

func (r *Result) setField(key []byte, v value, before *Result) (ok bool) {
	switch string(key) {
	case "status":
		r.Status, ok = textAs(v, before.Status)
	case "code":
		r.Code, ok = textAs(v, before.Code)
	}
	return ok
}

func (h *Hint) setField(key []byte, v value, _ *Hint) (ok bool) {
	switch string(key) {
	case "run_id":
		h.RunID, ok = v.id()
	case "claim_id":
		h.ClaimID, ok = v.id()
	case "lease_until":
		h.LeaseUntil, ok = v.time()
	}
	return ok
}

func (r *StartResult) setField(key []byte, v value, before *StartResult) (ok bool) {
	switch string(key) {
	case "status":
		r.Status, ok = textAs(v, before.Status)
	case "code":
		r.Code, ok = textAs(v, before.Code)
	case "run_id":
		r.RunID, ok = v.id()
	case "job":
		r.Job, ok = textAs(v, before.Job)
	case "job_id":
		r.JobID, ok = v.id()
	case "kind":
		r.Kind, ok = textAs(v, before.Kind)
	case "origin":
		r.Origin, ok = textAs(v, before.Origin)
	case "args":
		r.Args, ok = v.json()
	case "target":
		r.Target, ok = v.json()
	case "attempt":
		r.Attempt, ok = v.number()
	case "max_attempts":
		r.MaxAttempts, ok = v.number()
	case "scheduled_at":
		r.ScheduledAt, ok = v.time()
	case "timeout":
		r.Timeout, ok = v.duration()
	case "deadline":
		r.Deadline, ok = v.duration()
	case "lease_remaining":
		r.LeaseRemaining, ok = v.duration()
	case "traceparent":
		r.Traceparent, ok = v.text()
	}
	return ok
}

// duration is a Go duration. Of the usual ones, a few whole units and a fraction of seconds at most, nothing is made.
func (v value) duration() (Duration, bool) {
	if d, ok := v.plainDuration(); ok {
		return d, true
	}
	s, ok := v.text()
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	return Duration(d), err == nil
}

// plainDuration reads hours, minutes and seconds, as time.Duration writes them from a second on.
func (v value) plainDuration() (d Duration, ok bool) {
	if len(v) < 4 || len(v) > 22 || v[0] != '"' || v[len(v)-1] != '"' {
		return 0, false
	}
	rest := v[1 : len(v)-1]
	for len(rest) > 0 {
		n, digits := time.Duration(0), 0
		for ; digits < len(rest) && digits < 6 && rest[digits]-'0' <= 9; digits++ {
			n = 10*n + time.Duration(rest[digits]-'0')
		}
		rest = rest[digits:]
		var part time.Duration // below a second, in ns
		if digits > 0 && len(rest) > 0 && rest[0] == '.' {
			scale := 100 * time.Millisecond
			rest = rest[1:]
			for ; len(rest) > 0 && scale > 0 && rest[0]-'0' <= 9; rest = rest[1:] {
				part += scale * time.Duration(rest[0]-'0')
				scale /= 10
			}
			if len(rest) != 1 || rest[0] != 's' {
				return 0, false
			}
		}
		var unit time.Duration
		switch {
		case digits == 0 || len(rest) == 0:
		case rest[0] == 'h':
			unit = time.Hour
		case rest[0] == 'm' && (len(rest) == 1 || rest[1] != 's'):
			unit = time.Minute
		case rest[0] == 's':
			unit = time.Second
		}
		if unit == 0 {
			return 0, false
		}
		rest = rest[1:]
		d += Duration(n*unit + part)
	}
	return d, true
}
