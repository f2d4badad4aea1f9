package httpapi

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/daybookhq/daybook/worker/protocol"
)

// workTimeout is longer than a poll may wait.
const workTimeout = 90 * time.Second

var workOps = []string{
	protocol.OpPoll, protocol.OpStart, protocol.OpHeartbeat, protocol.OpComplete, protocol.OpFail, protocol.OpSnooze, protocol.OpRelease,
	protocol.OpPresence, protocol.OpEnqueue,
}

// workRoutes serve the worker protocol: the bytes are those that go over NATS.
func (a *api) workRoutes() {
	for _, op := range workOps {
		scopes := []Scope{ScopeWork}
		if op == protocol.OpEnqueue {
			scopes = append(scopes, ScopeEnqueue)
		}
		a.plain("POST "+protocol.HTTPPath(op), &route{scopes: scopes, limit: maxBatch, timeout: workTimeout}, func(w http.ResponseWriter, r *http.Request) {
			body, p := readAll(r, maxBatch)
			if p != nil {
				a.refuse(w, r, p)
				return
			}
			actor := "" // leaves it to the claims
			if who := callOf(r.Context()).who; who.token {
				actor = who.actor
			}
			reply(w, a.Work.Handle(r.Context(), op, actor, body))
		})
	}
}

// reply sends the protocol's own answer, with a status that proxies and people
// understand.
func reply(w http.ResponseWriter, body []byte) {
	var head struct {
		Error *protocol.Error `json:"error"`
	}
	w.Header().Set("Content-Type", "application/json")
	if json.Unmarshal(body, &head) == nil && head.Error != nil {
		w.WriteHeader(workStatus(head.Error.Code))
	}
	_, _ = w.Write(body)
}

func workStatus(code protocol.ErrorCode) int {
	switch code {
	case protocol.CodeInvalid:
		return http.StatusBadRequest
	case protocol.CodeUnauthorized:
		return http.StatusUnauthorized
	case protocol.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case protocol.CodeUnknownOp, protocol.CodeNotFound:
		return http.StatusNotFound
	case protocol.CodeConflict:
		return http.StatusConflict
	case protocol.CodeUnavailable:
		return http.StatusServiceUnavailable
	case protocol.CodeInternal:
	}
	return http.StatusInternalServerError
}
