package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/pgtest"
	"github.com/daybookhq/daybook/migrations"
)

const nobodyThere = "postgres://nobody@127.0.0.1:1/none?sslmode=disable"

func TestDatabaseAway(t *testing.T) {
	_, refused := migrations.Current(t.Context(), nobodyThere)
	_, unknown := migrations.Current(t.Context(), strings.Replace(pgtest.Empty(t).DSN, "postgres@", "daybook_nobody@", 1))
	_, malformed := migrations.Current(t.Context(), "postgres://%")
	for name, c := range map[string]struct {
		err  error
		away bool
	}{
		"nobody listens":      {refused, true},
		"starting up":         {&pgconn.PgError{Code: "57P03"}, true},
		"full":                {fmt.Errorf("connect: %w", &pgconn.PgError{Code: "53300"}), true},
		"no such role":        {unknown, false},
		"wrong password":      {&pgconn.PgError{Code: "28P01"}, false},
		"malformed":           {malformed, false},
		"another history":     {&eventstore.EraMismatchError{}, false},
		"settings":            {&eventstore.SettingsError{}, false},
		"a reason of ours":    {errors.New("the database schema is at version 1"), false},
		"told to stop":        {context.Canceled, false},
		"behind an exit code": {&exitError{code: exitUnreachable, err: refused}, true},
	} {
		if c.err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if got := databaseAway(c.err); got != c.away {
			t.Errorf("%s: away %v, want %v: %v", name, got, c.away, c.err)
		}
	}
}

func TestServeWaitsForItsDatabase(t *testing.T) {
	_, refused := migrations.Current(t.Context(), nobodyThere)
	var log strings.Builder
	tries := 0
	got, err := untilThere(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), func() (string, error) {
		if tries++; tries < 3 {
			return "", refused
		}
		return "node", nil
	})
	if err != nil || got != "node" || tries != 3 {
		t.Errorf("%q, %v after %d tries", got, err, tries)
	}
	if n := strings.Count(log.String(), "the database cannot be reached"); n != 1 {
		t.Errorf("said so %d times:\n%s", n, log.String())
	}
	wrong := &pgconn.PgError{Code: "28P01"}
	if _, err := untilThere(t.Context(), slog.New(slog.DiscardHandler), func() (string, error) { return "", wrong }); !errors.Is(err, wrong) {
		t.Errorf("%v, want what does not pass at once", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := untilThere(ctx, slog.New(slog.DiscardHandler), func() (string, error) { return "", refused }); err == nil {
		t.Error("no error although it was told to stop")
	}
}
