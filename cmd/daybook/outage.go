package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookhq/daybook/eventstore"
)

const (
	awayFirst = 250 * time.Millisecond
	awayMax   = 5 * time.Second
	awaySay   = 30 * time.Second
)

// untilThere repeats open for as long as the database is away. After a power cut
// engine and database start at the same time, and whatever starts services again
// gives up after a few tries.
func untilThere[T any](ctx context.Context, log *slog.Logger, open func() (T, error)) (T, error) {
	var said time.Time
	for pause := awayFirst; ; pause = min(2*pause, awayMax) {
		v, err := open()
		if err == nil || ctx.Err() != nil || !databaseAway(err) {
			return v, err
		}
		if time.Since(said) >= awaySay {
			said = time.Now()
			log.WarnContext(ctx, "the database cannot be reached, trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return v, err
		case <-time.After(pause):
		}
	}
}

// databaseAway reports whether the same attempt may succeed later. A password
// that is wrong or a database that does not exist is not away.
func databaseAway(err error) bool {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return eventstore.IsTransient(server)
	}
	var connect *pgconn.ConnectError
	var network *net.OpError
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.Timeout(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
