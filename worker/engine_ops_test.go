package worker_test

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/worker/protocol"
)

func (e *engine) call(via, op string, body []byte) []byte {
	e.mu.Lock()
	intercept, answered := e.intercept, e.answered
	e.mu.Unlock()
	if intercept != nil {
		if reply, handled := intercept(via, op, body); handled {
			return reply
		}
	}
	reply := e.answer(via, op, body)
	if answered != nil {
		reply = answered(via, op, body, reply)
	}
	return reply
}

func (e *engine) setIntercept(f func(via, op string, body []byte) ([]byte, bool)) {
	e.mu.Lock()
	e.intercept = f
	e.mu.Unlock()
}

func (e *engine) setAnswered(f func(via, op string, body, reply []byte) []byte) {
	e.mu.Lock()
	e.answered = f
	e.mu.Unlock()
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func errorReply(code protocol.ErrorCode) []byte {
	return encode(protocol.Reply[int]{Error: &protocol.Error{Code: code, Message: "as the test wants it"}})
}

// each decodes a request of items and answers every one of them.
func each[I, R any](e *engine, body []byte, f func(I) R) []byte {
	var req struct{ Items []I }
	if err := json.Unmarshal(body, &req); err != nil {
		return errorReply(protocol.CodeInvalid)
	}
	var reply protocol.Reply[R]
	e.mu.Lock()
	for _, item := range req.Items {
		reply.Results = append(reply.Results, f(item))
	}
	e.mu.Unlock()
	return encode(reply)
}

func (e *engine) answer(via, op string, body []byte) []byte {
	line := func(r *fakeRun) { e.log = append(e.log, op+" "+r.name+" "+via) }
	switch op {
	case protocol.OpStart:
		return each(e, body, func(i protocol.StartItem) protocol.StartResult {
			e.starts, e.startedVia = append(e.starts, i), append(e.startedVia, via)
			r := e.runs[i.ClaimID]
			if r == nil {
				e.log = append(e.log, "start of an unknown run")
				return protocol.StartResult{Status: protocol.StatusRefused, Code: protocol.UnknownRun}
			}
			line(r)
			return e.startRun(r, i.Token)
		})
	case protocol.OpHeartbeat:
		return each(e, body, func(i protocol.HeartbeatItem) protocol.HeartbeatResult {
			r := e.runs[i.ClaimID]
			line(r)
			r.beats = append(r.beats, i)
			if r.end != "" {
				return protocol.HeartbeatResult{Status: protocol.StatusRefused, Code: protocol.StaleClaim}
			}
			r.until = time.Now().Add(e.lease)
			return protocol.HeartbeatResult{LeaseRemaining: protocol.Duration(e.lease), Cancel: r.cancel}
		})
	case protocol.OpComplete:
		return each(e, body, func(i protocol.CompleteItem) protocol.Result {
			r := e.runs[i.ClaimID]
			line(r)
			r.done = i
			return r.finish(op)
		})
	case protocol.OpFail:
		return each(e, body, func(i protocol.FailItem) protocol.FailResult {
			r := e.runs[i.ClaimID]
			line(r)
			r.fail = i
			if res := r.finish(op); res.Status == protocol.StatusRefused {
				return protocol.FailResult{Status: res.Status, Code: res.Code}
			}
			return protocol.FailResult{Next: protocol.NextFailed}
		})
	case protocol.OpSnooze:
		return each(e, body, func(i protocol.SnoozeItem) protocol.Result {
			r := e.runs[i.ClaimID]
			line(r)
			r.snooze = i
			return r.finish(op)
		})
	case protocol.OpRelease:
		return each(e, body, func(i protocol.ReleaseItem) protocol.Result {
			r := e.runs[i.ClaimID]
			line(r)
			r.release, r.started = i, true
			return r.finish(op)
		})
	case protocol.OpPresence:
		var p protocol.PresenceRequest
		if json.Unmarshal(body, &p) != nil {
			return errorReply(protocol.CodeInvalid)
		}
		e.mu.Lock()
		e.presence = append(e.presence, p)
		e.mu.Unlock()
		return []byte(`{}`)
	case protocol.OpEnqueue:
		return each(e, body, e.enqueue)
	}
	return errorReply(protocol.CodeUnknownOp)
}

func (e *engine) startRun(r *fakeRun, token uuid.UUID) protocol.StartResult {
	switch {
	case r.end != "":
		return protocol.StartResult{Status: protocol.StatusRefused, Code: protocol.StaleClaim}
	case r.started && r.token != token:
		return protocol.StartResult{Status: protocol.StatusRefused, Code: protocol.AlreadyStarted}
	case !r.started:
		r.started, r.token, r.until = true, token, time.Now().Add(e.lease)
	}
	return protocol.StartResult{
		Status: protocol.StatusStarted, RunID: r.claim.RunID, Job: "job-" + r.name, JobID: uuid.NewSHA1(uuid.Nil, []byte(r.name)), Kind: r.lane.Kind,
		Origin: "request", Args: json.RawMessage(r.args), Target: json.RawMessage(`{"argv":["true"]}`), Attempt: 1, MaxAttempts: 5,
		ScheduledAt: protocol.At(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), Timeout: protocol.Duration(r.timeout), Deadline: protocol.Duration(r.timeout),
		LeaseRemaining: protocol.Duration(time.Until(r.until)),
	}
}

func (r *fakeRun) finish(op string) protocol.Result {
	switch {
	case !r.started:
		return protocol.Result{Status: protocol.StatusRefused, Code: protocol.NotStarted}
	case r.end == op:
		return protocol.Result{Status: protocol.StatusUnchanged}
	case r.end != "":
		return protocol.Result{Status: protocol.StatusRefused, Code: protocol.Terminal}
	}
	r.end = op
	return protocol.Result{Status: protocol.StatusRecorded}
}

func (e *engine) enqueue(i protocol.EnqueueItem) protocol.EnqueueResult {
	if i.Job == "missing" {
		return protocol.EnqueueResult{Error: &protocol.Error{Code: protocol.CodeNotFound, Message: "no job of that name"}}
	}
	key := i.Job + "/" + i.Key
	id, ok := e.keys[key]
	if !ok {
		id = uuid.New()
		e.keys[key] = id
	}
	e.log = append(e.log, "enqueue "+string(i.Args))
	return protocol.EnqueueResult{RunID: id, Created: !ok}
}
