package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/projections"
)

// Kinds of problems that the API answers with. They are part of its contract.
const (
	kindInvalid      = "invalid"
	kindCursor       = "invalid-cursor"
	kindBackfill     = "backfill-refused"
	kindKeyBusy      = "idempotency-key-in-use"
	kindUnauthorized = "unauthorized"
	kindForbidden    = "forbidden"
	kindHost         = "host-not-allowed"
	kindNotFound     = "not-found"
	kindNoPath       = "unknown-path"
	kindMethod       = "method-not-allowed"
	kindArchived     = "job-archived"
	kindOwned        = "job-owned"
	kindFinished     = "run-finished"
	kindNotFinished  = "run-not-finished"
	kindConflict     = "conflict"
	kindVersion      = "version-mismatch"
	kindUnavailable  = "unavailable"
	kindOverloaded   = "overloaded"
	kindNotReady     = "not-ready"
	kindTimeout      = "timeout"
	kindBusy         = "operation-in-progress"
)

// APIError is a refusal that has no type of its own.
type APIError struct {
	Kind       string // of the problem, or empty
	Status     int
	Detail     string
	RequestID  string
	Violations []Violation
}

// Violation is one thing that is wrong with a request.
type Violation struct {
	Location string `json:"location"`
	Message  string `json:"message"`
	Value    string `json:"value"`
	Hint     string `json:"hint"`
}

func (e *APIError) Error() string {
	var b strings.Builder
	b.WriteString(e.Detail)
	for _, v := range e.Violations {
		fmt.Fprintf(&b, "\n%s: ", strings.TrimPrefix(v.Location, "body."))
		if v.Value != "" {
			fmt.Fprintf(&b, "%q ", v.Value)
		}
		b.WriteString(v.Message)
		if v.Hint != "" {
			b.WriteString(": " + v.Hint)
		}
	}
	if e.Status >= 500 && e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// away reports whether the server could not do what it was asked to, whatever
// that was.
func (e *APIError) away() bool {
	return e.Kind == kindKeyBusy || e.Status == http.StatusBadGateway || e.Status == http.StatusServiceUnavailable || e.Status == http.StatusGatewayTimeout
}

// passes reports whether the same request may soon be answered.
func (e *APIError) passes() bool { return e.away() && e.Kind != kindTimeout }

// AccessError says that the token does not do.
type AccessError struct {
	Status int
	Detail string
	Scope  string // one of which is wanted, as far as the engine says
	Given  bool   // there was a token
}

func (e *AccessError) Error() string {
	scope := ""
	if e.Scope != "" {
		scope = " with the scope " + strings.ReplaceAll(e.Scope, " ", " or ")
	}
	switch {
	case e.Status == http.StatusUnauthorized && !e.Given:
		return fmt.Sprintf("the engine wants a token, and there is none: set DAYBOOK_TOKEN to one%s; 'daybook token create' makes one, beside the database", scope)
	case e.Status == http.StatusUnauthorized:
		return fmt.Sprintf("%s: set DAYBOOK_TOKEN to one%s that is valid", e.Detail, scope)
	case e.Scope != "":
		return fmt.Sprintf("%s: set DAYBOOK_TOKEN to one that has it", e.Detail)
	}
	return e.Detail
}

// UnreachableError says that no answer came to what was asked, or none but that
// the server could not do it.
type UnreachableError struct {
	URL     string
	Asked   string
	Tries   int
	Took    time.Duration
	Unknown bool // it was a change, and may have been carried out
	Err     error
}

func (e *UnreachableError) Error() string {
	why := e.Err
	if u, ok := errors.AsType[*url.Error](why); ok {
		why = u.Err
	}
	text := fmt.Sprintf("%s: %s: %v", e.URL, e.Asked, why)
	if dial, ok := errors.AsType[*net.OpError](e.Err); ok && dial.Op == "dial" {
		text = fmt.Sprintf("%s cannot be reached: %v", e.URL, why)
	}
	if e.Tries > 1 {
		text += fmt.Sprintf(" (tried %d times in %s)", e.Tries, e.Took.Round(100*time.Millisecond))
	}
	if e.Unknown {
		text += ": it may have been carried out nonetheless: look before you repeat it"
	}
	return text
}

func (e *UnreachableError) Unwrap() []error {
	if e.Unknown {
		return []error{e.Err, eventstore.ErrUnknownOutcome}
	}
	return []error{e.Err}
}

// missingError says that there is no such thing.
type missingError struct {
	detail string
	job    string
}

func (e *missingError) Error() string { return e.detail }

// Is makes it the error that the database gives.
func (e *missingError) Is(target error) bool { return target == eventstore.ErrNotFound }

// As makes it a refusal, where a job was missing.
func (e *missingError) As(target any) bool {
	refusal, ok := target.(**domain.JobRefusal)
	if ok && e.job != "" {
		*refusal = &domain.JobRefusal{Name: e.job, Code: domain.JobUnknown}
		return true
	}
	return false
}

// problem is how the API says what is wrong.
type problem struct {
	Type      string       `json:"type"`
	Status    int          `json:"status"`
	Detail    string       `json:"detail"`
	RequestID string       `json:"request_id"`
	Errors    []Violation  `json:"errors"`
	Conflicts []Conflict   `json:"conflicts"`
	State     domain.State `json:"state"`
}

// subject is what a request was about, which its refusals name.
type subject struct {
	job string
	run uuid.UUID

	projection string

	// invalid makes the error of a value that is refused.
	invalid func(field, why string) error
}

// judge turns an answer that is none into the error that it means.
func (h *HTTP) judge(q request, a *answer) error {
	if a.status < 300 && a.media() == "application/json" {
		return nil
	}
	if location := a.header.Get("Location"); a.status >= 300 && a.status < 400 && location != "" {
		return fmt.Errorf("%s leads elsewhere, to %s: give that with --url", h.base, location)
	}
	return h.problem(q, a.status, a.header, a.media(), a.body)
}

func (h *HTTP) problem(q request, status int, header http.Header, media string, body []byte) error {
	var p problem
	if media != "application/problem+json" || json.Unmarshal(body, &p) != nil {
		kind := media
		if kind == "" {
			kind = "no content type"
		}
		text := fmt.Sprintf("%s answers %s with %d and %s: is it the base URL of an engine?", h.base, q.path, status, kind)
		return &APIError{Status: status, Detail: text}
	}
	p.Status = status
	if kind := p.kind(); kind == kindUnauthorized || kind == kindForbidden || kind == kindHost {
		return &AccessError{Status: status, Detail: p.Detail, Scope: wantedScope(header), Given: h.token != ""}
	}
	return h.refused(q, p)
}

func (p problem) kind() string { return strings.TrimPrefix(p.Type, "/problems/") }

// refused is the error that a problem means.
func (h *HTTP) refused(q request, p problem) error {
	kind := p.kind()
	switch kind {
	case kindNoPath, kindMethod:
		return &APIError{Kind: kind, Status: p.Status, RequestID: p.RequestID,
			Detail: fmt.Sprintf("the engine at %s does not know %s %s: it is older than this command", h.base, q.method, q.path)}
	}
	if err := q.about.refusal(kind, p); err != nil {
		return err
	}
	return &APIError{Kind: kind, Status: p.Status, Detail: p.Detail, RequestID: p.RequestID, Violations: p.Errors}
}

// refusal is the error that the database would give; nil if it is none of those.
func (s subject) refusal(kind string, p problem) error {
	switch kind {
	case kindNotFound:
		if s.projection != "" {
			return &projections.UnknownProjectionError{Name: s.projection}
		}
		return &missingError{detail: p.Detail, job: s.job}
	case kindArchived:
		return &domain.JobRefusal{Name: s.job, Code: domain.JobIsGone}
	case kindOwned:
		return &ConflictError{p.Conflicts}
	case kindFinished:
		return &FinishedError{Run: s.run, State: p.State}
	case kindNotFinished:
		return &NotFinishedError{Run: s.run, State: p.State}
	case kindConflict, kindVersion:
		if s.job != "" {
			return &domain.JobRefusal{Name: s.job, Code: domain.JobConflict}
		}
		return fmt.Errorf("%w: %s", eventstore.ErrVersionConflict, p.Detail)
	case kindBusy:
		if s.projection != "" {
			return fmt.Errorf("%w: %s", projections.ErrRebuilding, p.Detail)
		}
	case kindBackfill:
		_, why, _ := strings.Cut(p.Detail, fmt.Sprintf("%q: ", s.job))
		return &eventstore.BackfillError{Job: s.job, Why: why}
	case kindCursor:
		if s.invalid != nil {
			return s.invalid("cursor", strings.TrimPrefix(p.Detail, "cursor: ")) // which names it, too
		}
	case kindInvalid:
		if s.invalid != nil && len(p.Errors) == 1 {
			_, field, _ := strings.Cut(p.Errors[0].Location, ".")
			return s.invalid(field, p.Errors[0].Message)
		}
	}
	return nil
}

var scopeOfChallenge = regexp.MustCompile(`scope="([^"]*)"`)

// wantedScope is the scope that the challenge names (RFC 6750).
func wantedScope(header http.Header) string {
	if m := scopeOfChallenge.FindStringSubmatch(header.Get("WWW-Authenticate")); m != nil {
		return m[1]
	}
	return ""
}
