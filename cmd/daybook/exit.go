package main

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/domain/schedule"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/jobsfile"
	"github.com/daybookhq/daybook/outbox"
	"github.com/daybookhq/daybook/projections"
)

// exitCodeOf tells scripts what kind of error it is.
func exitCodeOf(err error) int {
	switch {
	case isA[*eventstore.RequestError](err), isA[*projections.FilterError](err), isA[*schedule.Error](err),
		isA[*jobsfile.Errors](err), isA[*eventstore.BackfillError](err), isA[*client.PlaceError](err), isA[*projections.UnknownProjectionError](err),
		errors.Is(err, outbox.ErrNothingSelected):
		return exitUsage
	case errors.Is(err, eventstore.ErrNotFound), isA[*eventstore.RetiredError](err):
		return exitNotFound
	case isA[*client.ConflictError](err), isA[*client.NotFinishedError](err), isA[*client.FinishedError](err),
		errors.Is(err, eventstore.ErrVersionConflict), errors.Is(err, projections.ErrRebuilding):
		return exitConflict
	case unreachable(err):
		return exitUnreachable
	}
	if refused, ok := errors.AsType[*client.APIError](err); ok {
		return exitCodeOfStatus(refused.Status)
	}
	if refused, ok := errors.AsType[*domain.JobRefusal](err); ok {
		if refused.Code == domain.JobUnknown {
			return exitNotFound
		}
		return exitConflict
	}
	if refused, ok := errors.AsType[*domain.Refusal](err); ok {
		if refused.Code == domain.CodeUnknownRun {
			return exitNotFound
		}
		return exitConflict
	}
	return exitFailed
}

// exitCodeOfStatus is for refusals of an engine that have no type of their own.
func exitCodeOfStatus(status int) int {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return exitUsage
	case http.StatusNotFound, http.StatusGone:
		return exitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return exitConflict
	}
	return exitFailed
}

// unreachable reports whether the server did not answer. An error of a file is
// also a net.Error, so the types of the network are asked for.
func unreachable(err error) bool {
	return isA[*client.UnreachableError](err) || isA[*pgconn.ConnectError](err) || isA[*net.OpError](err) || isA[*net.DNSError](err) || errors.Is(err, eventstore.ErrUnknownOutcome) ||
		errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err)
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
