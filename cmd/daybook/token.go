package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/httpapi"
)

func newToken(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "token",
		Aliases: []string{"tokens"},
		Short:   "Make, list and revoke tokens of the HTTP API",
		Long: `Without any token the HTTP API answers requests of its own machine. As soon as there is
one, every request needs one, and addresses beyond loopback may be served.

Scopes: read, enqueue (ask for runs), operate (pause, cancel, retry, backfill), work
(execute runs), admin (define and archive jobs, and everything else).`,
		Example: "  daybook token create ci --scope read --scope enqueue --expires-in 2160h\n  daybook token list\n  daybook token revoke ci",
	}, newTokenCreate(a), newTokenList(a), newTokenRevoke(a))
}

// withTokens calls f with the tokens in the database.
func (a *app) withTokens(cmd *cobra.Command, f func(ctx context.Context, t *httpapi.Tokens) error) error {
	t, err := a.target()
	if err != nil {
		return err
	}
	err = t.beside(cmd.Context(), "making a token", func(ctx context.Context, c *client.Database) error {
		return f(ctx, httpapi.NewTokens(c.Store().Pool()))
	})
	if wrong, ok := errors.AsType[*httpapi.TokenError](err); ok {
		return usage("%v", wrong)
	}
	return err
}

// tokenAnswers lists and revokes tokens, where the deployment is asked.
type tokenAnswers interface {
	Tokens(ctx context.Context) ([]client.Token, error)
	RevokeToken(ctx context.Context, name string) error
}

// databaseTokens are the tokens as the database has them.
type databaseTokens struct{ tokens *httpapi.Tokens }

func (d databaseTokens) Tokens(ctx context.Context) ([]client.Token, error) {
	found, err := d.tokens.List(ctx)
	out := make([]client.Token, len(found))
	for i, t := range found {
		out[i] = t.Shown()
	}
	return out, err
}

func (d databaseTokens) RevokeToken(ctx context.Context, name string) error {
	err := d.tokens.Revoke(ctx, name, actor())
	if errors.Is(err, httpapi.ErrNoToken) {
		return &exitError{code: exitNotFound, err: err}
	}
	return err
}

func (a *app) askTokens(cmd *cobra.Command, f func(ctx context.Context, t tokenAnswers) error) error {
	t, err := a.target()
	switch {
	case err != nil:
		return err
	case t.http.URL != "":
		return t.withEngine(cmd.Context(), func(ctx context.Context, c *client.HTTP) error { return f(ctx, c) })
	}
	return withDatabase(cmd.Context(), t.database, func(ctx context.Context, c *client.Database) error {
		return f(ctx, databaseTokens{httpapi.NewTokens(c.Store().Pool())})
	})
}

func newTokenCreate(a *app) *cobra.Command {
	var out format
	var scopes []string
	var life time.Duration
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token",
		Long: `Writes the token to stdout: it is shown this one time, and only its hash is kept. The name
is recorded in every event that comes about with the token, and is never used again.

Tokens are made beside the database: with DATABASE_URL, or with a 'daybook dev'.`,
		Example: "  daybook token create ci --scope enqueue --expires-in 2160h\n  export DAYBOOK_TOKEN=$(daybook token create me --scope admin)",
		Args:    takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := httpapi.NewToken{Name: args[0], Life: life, By: actor()}
			for _, s := range scopes {
				q.Scopes = append(q.Scopes, httpapi.Scope(s))
			}
			return a.withTokens(cmd, func(ctx context.Context, t *httpapi.Tokens) error {
				secret, made, err := t.Create(ctx, q)
				if err != nil {
					return err
				}
				if out == asJSON || out == asLines {
					return a.writeJSON(out, struct {
						Secret string `json:"secret"`
						httpapi.Token
					}{secret, made})
				}
				fmt.Fprintf(a.err, "token %s (%s) is made; it is shown this one time:\n", made.Name, scopeList(made.Shown()))
				_, err = fmt.Fprintln(a.out, secret)
				return err
			})
		},
	}
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "read, enqueue, operate, work or admin; repeatable")
	cmd.Flags().DurationVar(&life, "expires-in", 0, "how long it lasts, for example 2160h; 0: until it is revoked")
	outputFlag(cmd, &out, asTable)
	return cmd
}

func newTokenList(a *app) *cobra.Command {
	var out format
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List tokens, also those that are over",
		Long:    "Lists tokens with their scopes and ends. The tokens themselves are nowhere, only their hashes.",
		Example: "  daybook token list\n  daybook token list -o json",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.askTokens(cmd, func(ctx context.Context, t tokenAnswers) error {
				tokens, err := t.Tokens(ctx)
				if err != nil {
					return err
				}
				return write(a, out, a.tokenList(tokens))
			})
		},
	}
	outputFlag(cmd, &out, asTable)
	return cmd
}

func (a *app) tokenList(tokens []client.Token) list[client.Token] {
	return list[client.Token]{
		items: tokens,
		whole: map[string]any{"tokens": tokens},
		id:    func(t client.Token) string { return t.Name },
		empty: "there are no tokens: the HTTP API answers this machine only",
		columns: []column[client.Token]{
			{title: "NAME", text: func(t client.Token) string { return t.Name }},
			{title: "SCOPES", text: scopeList},
			{title: "STATE", text: func(t client.Token) string {
				switch {
				case t.Live:
					return "live"
				case t.RevokedAt != nil:
					return "revoked"
				}
				return "expired"
			}},
			{title: "EXPIRES", text: func(t client.Token) string { return a.clockOr(t.ExpiresAt, "never") }},
			{title: "CREATED", text: func(t client.Token) string { return a.clock(t.CreatedAt) }},
			{title: "BY", wide: true, text: func(t client.Token) string { return t.CreatedBy }},
			{title: "REVOKED", wide: true, text: func(t client.Token) string { return a.clockOr(t.RevokedAt, "") }},
		},
	}
}

func scopeList(t client.Token) string {
	return strings.Join(t.Scopes, ",")
}

func newTokenRevoke(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke NAME",
		Short:   "End a token",
		Long:    "Engines notice within five seconds. Its name stays in the history and in the list.",
		Example: "  daybook token revoke ci",
		Args:    takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.askTokens(cmd, func(ctx context.Context, t tokenAnswers) error {
				if err := t.RevokeToken(ctx, args[0]); err != nil {
					return err
				}
				fmt.Fprintf(a.err, "token %s is revoked\n", args[0])
				return nil
			})
		},
	}
}
