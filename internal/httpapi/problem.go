package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/jobsfile"
	"github.com/daybookhq/daybook/projections"
	"github.com/daybookhq/daybook/worker/protocol"
)

// kind names a type of problem. It is the end of the type's URI, which programs
// may compare: it does not change.
type kind string

const (
	kindMalformed     kind = "malformed"
	kindInvalid       kind = "invalid"
	kindCursor        kind = "invalid-cursor"
	kindDefinition    kind = "invalid-definition"
	kindBackfill      kind = "backfill-refused"
	kindKeyReused     kind = "idempotency-key-reused"
	kindKeyBusy       kind = "idempotency-key-in-use"
	kindUnauthorized  kind = "unauthorized"
	kindForbidden     kind = "forbidden"
	kindCrossOrigin   kind = "cross-origin"
	kindHost          kind = "host-not-allowed"
	kindNotFound      kind = "not-found"
	kindRetired       kind = "retired"
	kindNoPath        kind = "unknown-path"
	kindInProgress    kind = "operation-in-progress"
	kindMethod        kind = "method-not-allowed"
	kindNotAcceptable kind = "not-acceptable"
	kindArchived      kind = "job-archived"
	kindOwned         kind = "job-owned"
	kindFinished      kind = "run-finished"
	kindNotFinished   kind = "run-not-finished"
	kindConflict      kind = "conflict"
	kindVersion       kind = "version-mismatch"
	kindTooLarge      kind = "too-large"
	kindMediaType     kind = "unsupported-media-type"
	kindSlowBody      kind = "body-timeout"
	kindInternal      kind = "internal"
	kindUnavailable   kind = "unavailable"
	kindOverloaded    kind = "overloaded"
	kindNotReady      kind = "not-ready"
	kindTimeout       kind = "timeout"
)

// kinds are all types of problems, with their status and what they mean.
var kinds = map[kind]struct {
	status  int
	meaning string
}{
	kindMalformed:     {400, "The request cannot be read: it is no valid JSON, or a header is not as it should be."},
	kindInvalid:       {422, "Parameters or body are not what the operation takes. Every violation is listed in errors."},
	kindCursor:        {400, "The cursor is none of this list, or belongs to a list with other filters."},
	kindDefinition:    {422, "The job's definition is refused as a whole. Every problem is listed in errors, with what would be right."},
	kindBackfill:      {422, "The range cannot be backfilled: the job has no schedule, or the range is not in its decided past."},
	kindKeyReused:     {422, "The Idempotency-Key was used before, for another request."},
	kindKeyBusy:       {409, "The first request with this Idempotency-Key is still being carried out. Repeat it later."},
	kindUnauthorized:  {401, "There is no token in the request, or it is unknown, expired or revoked."},
	kindForbidden:     {403, "The token does not have the scope that the operation needs."},
	kindCrossOrigin:   {403, "A browser sent the request for a page of another origin."},
	kindHost:          {403, "Without tokens, the API answers on this machine's loopback addresses and under their names only."},
	kindRetired:       {410, "The log has let go of what was asked for, which was older than it is kept. The answer names the low mark or the file that it was exported to."},
	kindNotFound:      {404, "There is no such job, run, output, token or projection."},
	kindNoPath:        {404, "There is no such path in this version of the API."},
	kindInProgress:    {409, "Such an operation is under way: one at a time is."},
	kindMethod:        {405, "The path exists, but not for this method. The header Allow lists those that it has."},
	kindNotAcceptable: {406, "None of the media types that the request accepts can be given."},
	kindArchived:      {409, "The job is archived. Applying a definition brings it back."},
	kindOwned:         {409, "The job belongs to a file and is changed there."},
	kindFinished:      {409, "The run has ended, so that it cannot be cancelled any more."},
	kindNotFinished:   {409, "The run has not ended, so that it cannot be retried yet."},
	kindConflict:      {409, "Somebody else changed the same thing at the same time. Look again."},
	kindVersion:       {412, "The job is not in the version that If-Match names: it has changed since it was read."},
	kindTooLarge:      {413, "The request is larger than the operation takes."},
	kindMediaType:     {415, "The body's media type is none that the operation takes."},
	kindSlowBody:      {408, "The body did not arrive in time."},
	kindInternal:      {500, "A fault of the server. Its log tells more, under the request's id."},
	kindUnavailable:   {503, "The database cannot be reached or is busy. Nothing is known to have changed: repeat the request, with an Idempotency-Key if it creates."},
	kindOverloaded:    {503, "Too many requests are being served. Repeat it later."},
	kindNotReady:      {503, "The process is not ready to serve."},
	kindTimeout:       {504, "The answer took too long. Ask for less, for example a shorter range."},
}

// Violation is one thing that is wrong with a request.
type Violation struct {
	Location string `json:"location,omitempty" doc:"Where: body.retry.max, query.limit, path.id"`
	Message  string `json:"message" doc:"What is wrong"`
	Value    string `json:"value,omitempty" doc:"What was given, shortened"`
	Hint     string `json:"hint,omitempty" doc:"What would be right"`
	Code     string `json:"code,omitempty" doc:"Of a refused schedule: E_RANGE and so on"`
	Line     int    `json:"line,omitempty" doc:"Line of the body, from 1"`
}

// Problem is why a request was refused (RFC 9457).
type Problem struct {
	Type      string      `json:"type" doc:"Kind of problem; stable. Its path leads to an explanation"`
	Title     string      `json:"title" doc:"The status in words"`
	Status    int         `json:"status" doc:"The HTTP status"`
	Detail    string      `json:"detail,omitempty" doc:"What happened in this case"`
	Instance  string      `json:"instance,omitempty" doc:"Path of the request"`
	RequestID string      `json:"request_id,omitempty" doc:"Id of the request, as in the server's log"`
	Errors    []Violation `json:"errors,omitempty" doc:"Every violation"`

	Conflicts []client.Conflict `json:"conflicts,omitempty" doc:"Of job-owned: the jobs, and what owns them"`
	State     domain.State      `json:"state,omitempty" doc:"Of run-finished and run-not-finished: the run's"`

	headers http.Header
	cause   error // for the log
}

func newProblem(k kind, detail string) *Problem {
	status := kinds[k].status
	return &Problem{Type: "/problems/" + string(k), Title: http.StatusText(status), Status: status, Detail: detail}
}

func (p *Problem) with(v ...Violation) *Problem {
	p.Errors = append(p.Errors, v...)
	return p
}

func (p *Problem) header(name, value string) *Problem {
	if p.headers == nil {
		p.headers = http.Header{}
	}
	p.headers.Set(name, value)
	return p
}

func (p *Problem) Error() string { return p.Detail }

// GetStatus is for huma.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders is for huma.
func (p *Problem) GetHeaders() http.Header { return p.headers }

// ContentType is for huma.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// problemOf says what an error means to the caller.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if p := refusalOf(err); p != nil {
		return p
	}
	switch {
	case errors.Is(err, eventstore.ErrNotFound):
		return newProblem(kindNotFound, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return newProblem(kindTimeout, "the answer took too long")
	case errors.Is(err, eventstore.ErrVersionConflict):
		return newProblem(kindConflict, err.Error())
	case isUnavailable(err):
		p := newProblem(kindUnavailable, "the database cannot be reached or is busy").header("Retry-After", "1")
		p.cause = err
		return p
	}
	p := newProblem(kindInternal, "the server failed; its log tells more")
	p.cause = err
	return p
}

// isUnavailable leaves out what only looks transient because it is no error of
// the database at all.
func isUnavailable(err error) bool {
	if errors.Is(err, eventstore.ErrUnknownOutcome) || errors.Is(err, context.Canceled) {
		return true
	}
	if era, ok := errors.AsType[*eventstore.EraMismatchError](err); ok && era != nil {
		return true
	}
	return isDatabase(err) && eventstore.IsTransient(err)
}

// refusalOf knows the errors that are decisions.
func refusalOf(err error) *Problem {
	if e, ok := errors.AsType[*domain.JobRefusal](err); ok {
		switch e.Code {
		case domain.JobUnknown:
			return newProblem(kindNotFound, e.Error())
		case domain.JobIsGone:
			return newProblem(kindArchived, e.Error())
		case domain.JobConflict:
			return newProblem(kindConflict, e.Error())
		}
	}
	if e, ok := errors.AsType[*domain.Refusal](err); ok {
		if e.Code == domain.CodeUnknownRun {
			return newProblem(kindNotFound, e.Error())
		}
		return newProblem(kindConflict, e.Error())
	}
	if e, ok := errors.AsType[*eventstore.RetiredError](err); ok {
		return newProblem(kindRetired, e.Error())
	}
	if e, ok := errors.AsType[*projections.BehindError](err); ok {
		return newProblem(kindUnavailable, e.Error()).header("Retry-After", "1")
	}
	if e, ok := errors.AsType[*eventstore.RequestError](err); ok {
		return invalid(Violation{Location: "body." + e.Field, Message: e.Why})
	}
	if e, ok := errors.AsType[*projections.FilterError](err); ok {
		if e.Field == "cursor" {
			return newProblem(kindCursor, e.Error())
		}
		return invalid(Violation{Location: "query." + e.Field, Message: e.Why})
	}
	if e, ok := errors.AsType[*eventstore.BackfillError](err); ok {
		return newProblem(kindBackfill, e.Error())
	}
	if e, ok := errors.AsType[*jobsfile.Errors](err); ok {
		return definitionProblem(e)
	}
	if e, ok := errors.AsType[*client.ConflictError](err); ok {
		p := newProblem(kindOwned, e.Error())
		p.Conflicts = e.Conflicts
		return p
	}
	if e, ok := errors.AsType[*client.FinishedError](err); ok {
		p := newProblem(kindFinished, e.Error())
		p.State = e.State
		return p
	}
	if e, ok := errors.AsType[*client.NotFinishedError](err); ok {
		p := newProblem(kindNotFinished, e.Error())
		p.State = e.State
		return p
	}
	if e, ok := errors.AsType[*projections.UnknownProjectionError](err); ok {
		return newProblem(kindNotFound, e.Error())
	}
	if errors.Is(err, projections.ErrRebuilding) {
		return newProblem(kindInProgress, err.Error())
	}
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return protocolProblem(e)
	}
	return nil
}

func invalid(v ...Violation) *Problem {
	return newProblem(kindInvalid, "the request is not what the operation takes").with(v...)
}

func definitionProblem(e *jobsfile.Errors) *Problem {
	p := newProblem(kindDefinition, "the definition is refused; nothing was changed")
	for _, one := range e.Problems {
		at := "body"
		if one.Field != "" {
			at += "." + one.Field
		}
		p.Errors = append(p.Errors, Violation{Location: at, Message: one.Message, Value: one.Value, Hint: one.Hint, Code: one.Code, Line: one.Line})
	}
	return p
}

func protocolProblem(e *protocol.Error) *Problem {
	switch e.Code {
	case protocol.CodeNotFound, protocol.CodeUnknownOp:
		return newProblem(kindNotFound, e.Message)
	case protocol.CodeConflict:
		return newProblem(kindArchived, e.Message)
	case protocol.CodeInvalid:
		at, why, ok := strings.Cut(e.Message, ": ")
		if !ok {
			at, why = "", e.Message
		}
		return invalid(Violation{Location: strings.TrimSuffix("body."+at, "."), Message: why})
	case protocol.CodeTooLarge:
		return newProblem(kindTooLarge, e.Message)
	case protocol.CodeUnauthorized:
		return newProblem(kindUnauthorized, e.Message)
	case protocol.CodeUnavailable:
		p := newProblem(kindUnavailable, "the database cannot be reached or is busy").header("Retry-After", "1")
		p.cause = e
		return p
	case protocol.CodeInternal:
	}
	p := newProblem(kindInternal, "the server failed; its log tells more")
	p.cause = e
	return p
}

// fromHuma turns what huma found wrong with a request into a problem.
func fromHuma(m *huma.ErrorModel) *Problem {
	k, detail := kindInternal, m.Detail
	switch m.Status {
	case http.StatusBadRequest:
		k = kindMalformed
	case http.StatusUnprocessableEntity:
		k, detail = kindInvalid, "the request is not what the operation takes"
	case http.StatusRequestEntityTooLarge:
		k = kindTooLarge
	case http.StatusRequestTimeout:
		k = kindSlowBody
	case http.StatusUnsupportedMediaType:
		k, detail = kindMediaType, "send application/json"
	case http.StatusNotAcceptable:
		k = kindNotAcceptable
	}
	p := newProblem(k, detail)
	for _, e := range m.Errors {
		if e == nil {
			continue
		}
		v := Violation{Location: e.Location, Message: e.Message}
		if e.Location != "body" { // there it is the whole of it
			v.Value = shown(e.Value)
		}
		p.Errors = append(p.Errors, v)
	}
	return p
}

// shown is a refused value, shortened; nothing if it is a whole object.
func shown(v any) string {
	s, ok := v.(string)
	switch v.(type) {
	case float64, int64, int, bool, json.Number:
		s, ok = fmt.Sprint(v), true
	}
	const limit = 80
	if ok && len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// WriteProblem answers with a problem of one of this API's kinds, for handlers
// that are served beside its own.
func WriteProblem(w http.ResponseWriter, status int, name, detail string) {
	p := newProblem(kind(name), detail)
	p.Status, p.Title = status, http.StatusText(status)
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(p)
}
