package pgtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
)

// made remembers the outcome for each template of this process: one failure is
// told a hundred times, not tried a hundred times.
var made sync.Map // of templateKey to func() (string, error)

type templateKey struct{ server, name string }

func ensureTemplate(ctx context.Context, serverDSN, name string, setup func(ctx context.Context, dsn string) error) (string, error) {
	ctx = context.WithoutCancel(ctx) // other tests wait for the result
	f, _ := made.LoadOrStore(templateKey{serverDSN, name}, sync.OnceValues(func() (string, error) {
		return makeTemplate(ctx, serverDSN, name, setup)
	}))
	return f.(func() (string, error))()
}

// makeTemplate sets the template up unless it is there. It is built under
// another name and renamed when it is whole, so that a killed test process
// leaves nothing that looks ready. The lock is on the maintenance database,
// since advisory locks are per database.
func makeTemplate(ctx context.Context, serverDSN, name string, setup func(ctx context.Context, dsn string) error) (string, error) {
	final := "template_" + name[:min(len(name), 40)]
	draft := final + "_draft"
	err := withConn(ctx, serverDSN, func(c *pgx.Conn) error {
		if _, err := c.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", final); err != nil {
			return err
		}
		var exists bool
		if err := c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", final).Scan(&exists); err != nil || exists {
			return err
		}
		for _, sql := range []string{
			"DROP DATABASE IF EXISTS " + quote(draft) + " WITH (FORCE)",
			"CREATE DATABASE " + quote(draft) + " TEMPLATE template0 STRATEGY FILE_COPY",
		} {
			if _, err := c.Exec(ctx, sql); err != nil {
				return err
			}
		}
		if err := setup(ctx, mustEdit(serverDSN, draft, "")); err != nil {
			_, dropErr := c.Exec(ctx, "DROP DATABASE "+quote(draft)+" WITH (FORCE)")
			return errors.Join(fmt.Errorf("setting up: %w", err), dropErr)
		}
		// A copy is refused while anyone is connected; from here on nobody can be.
		for _, sql := range []string{
			"ALTER DATABASE " + quote(draft) + " WITH ALLOW_CONNECTIONS false IS_TEMPLATE true",
			"ALTER DATABASE " + quote(draft) + " RENAME TO " + quote(final),
		} {
			if _, err := c.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	return final, err
}
