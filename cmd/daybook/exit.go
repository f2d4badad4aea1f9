package main

import (
	"context"
	"errors"
	"net"

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
		isA[*jobsfile.Errors](err), isA[*eventstore.BackfillError](err), errors.Is(err, outbox.ErrNothingSelected):
		return exitUsage
	case errors.Is(err, eventstore.ErrNotFound), isA[*eventstore.RetiredError](err):
		return exitNotFound
	case isA[*client.ConflictError](err), isA[*client.NotFinishedError](err), isA[*client.FinishedError](err),
		errors.Is(err, eventstore.ErrVersionConflict):
		return exitConflict
	case unreachable(err):
		return exitUnreachable
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

// unreachable reports whether the server did not answer. An error of a file is
// also a net.Error, so the types of the network are asked for.
func unreachable(err error) bool {
	return isA[*pgconn.ConnectError](err) || isA[*net.OpError](err) || isA[*net.DNSError](err) || errors.Is(err, eventstore.ErrUnknownOutcome) ||
		errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err)
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
