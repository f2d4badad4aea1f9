package httpapi

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/jackc/pgx/v5/pgconn"
)

func isDatabase(err error) bool {
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) { // the connection ended in the middle of an answer
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok || pgconn.SafeToRetry(err)
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
