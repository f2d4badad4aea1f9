package protocol

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Encode is json.Marshal without HTML escapes. The messages of which there are thousands a second are written without
// reflection and, in JSON given by others, keep its white space.
func Encode(v any) ([]byte, error) {
	if a, ok := v.(appender); ok {
		if b, ok := a.appendJSON(nil); ok {
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

// fielder sets one of its fields, or reports false if it takes the general decoder.
type fielder interface {
	setField(key []byte, v value) bool
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
	for i := 0; ok && i < len(items); i++ {
		a, is := any(&items[i]).(appender)
		if !is {
			return nil, false
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
		at, err := r.ScheduledAt.MarshalText()
		ok = ok && err == nil
		dst = append(append(append(dst, `,"scheduled_at":"`...), at...), '"')
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

func (i *StartItem) setField(key []byte, v value) (ok bool) {
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

func (i *CompleteItem) setField(key []byte, v value) (ok bool) {
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

func (r *Result) setField(key []byte, v value) (ok bool) {
	var s string
	switch string(key) {
	case "status":
		s, ok = v.text()
		r.Status = Status(s)
	case "code":
		s, ok = v.text()
		r.Code = RefusalCode(s)
	}
	return ok
}

func (h *Hint) setField(key []byte, v value) (ok bool) {
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

func (r *StartResult) setField(key []byte, v value) (ok bool) {
	var s string
	switch string(key) {
	case "status":
		s, ok = v.text()
		r.Status = Status(s)
	case "code":
		s, ok = v.text()
		r.Code = RefusalCode(s)
	case "run_id":
		r.RunID, ok = v.id()
	case "job":
		r.Job, ok = v.text()
	case "job_id":
		r.JobID, ok = v.id()
	case "kind":
		r.Kind, ok = v.text()
	case "origin":
		r.Origin, ok = v.text()
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

func (v value) duration() (Duration, bool) {
	s, ok := v.text()
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	return Duration(d), err == nil
}
