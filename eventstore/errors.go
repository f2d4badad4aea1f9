package eventstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrVersionConflict says that another writer appended first.
var ErrVersionConflict = errors.New("stream has moved on")

// ErrUnknownOutcome says that the connection broke during COMMIT: the
// transaction may have happened. Decide again from the database.
var ErrUnknownOutcome = errors.New("commit without an answer")

// ErrNotFound says that there is no such stream, job or run.
var ErrNotFound = errors.New("not found")

// EraMismatchError says that the server's history is not the one the log was
// written in: the database was restored, or a standby was promoted.
type EraMismatchError struct {
	Era                    int
	WantSystem, HaveSystem string
	WantTimeline           int64
	HaveTimeline           int64
	WantLog, HaveLog       uint32 // the table's number on the server
}

func (e *EraMismatchError) Error() string {
	what := fmt.Sprintf("system %s timeline %d, now system %s timeline %d", e.WantSystem, e.WantTimeline, e.HaveSystem, e.HaveTimeline)
	if e.WantSystem == e.HaveSystem && e.WantTimeline == e.HaveTimeline {
		what = fmt.Sprintf("its tables were made anew: number %d, now %d", e.WantLog, e.HaveLog)
	}
	return fmt.Sprintf("the database is not in the history of era %d (%s): it was restored or failed over; "+
		"check the data, then run `daybook era raise --reason …`", e.Era, what)
}

// SQLSTATEs that decide something here. The last three are raised by functions of
// the schema.
const (
	stateUniqueViolation = "23505"
	stateNoPartition     = "23514" // check_violation: no partition for the row
	stateCountMismatch   = "DB001"
	stateTooOld          = "DB002"
	stateOtherHistory    = "DB003"
)

func sqlState(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// isCulprit reports whether the error lies in the data of some row of the batch,
// so that the others would go through without it: data exceptions, constraint
// violations and what is too large.
func isCulprit(err error) bool {
	code := sqlState(err)
	if code == stateNoPartition {
		return false
	}
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "54")
}

// conflict turns a unique violation on the events table into ErrVersionConflict.
// The constraint's name is the partition's, so the table's name decides.
func conflict(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == stateUniqueViolation && strings.HasPrefix(pg.TableName, "events") {
		return fmt.Errorf("%w: %s", ErrVersionConflict, pg.Message)
	}
	return err
}

// IsTransient reports whether the same call may succeed later without any
// change: the server is away or busy, or another writer was first.
func IsTransient(err error) bool {
	switch code := sqlState(err); {
	case code == "":
		return !errors.Is(err, ErrNotFound) && !errors.Is(err, context.Canceled)
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "40"), strings.HasPrefix(code, "53"),
		strings.HasPrefix(code, "55"), strings.HasPrefix(code, "57"), strings.HasPrefix(code, "58"),
		code == "25006", code == stateCountMismatch, code == stateTooOld, code == stateOtherHistory:
		return true
	}
	return errors.Is(err, ErrVersionConflict)
}

// errInconsistent says that the log and the live rows contradict one another.
var errInconsistent = errors.New("the log and the tables differ, see 'daybook audit verify'")

// ParkedError tells that a row could not be processed and was put aside.
type ParkedError struct {
	Run    uuid.UUID
	Reason error
}

func (e *ParkedError) Error() string { return fmt.Sprintf("run %s parked: %v", e.Run, e.Reason) }

// Unwrap gives the reason.
func (e *ParkedError) Unwrap() error { return e.Reason }
