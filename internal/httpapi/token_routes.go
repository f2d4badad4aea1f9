package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/daybookhq/daybook/internal/client"
)

type tokenList struct {
	Tokens []client.Token `json:"tokens"`
}

type tokensOutput struct{ Body tokenList }

type nothing struct{}

// tokenRoutes do not make tokens: a secret would be kept with the answers of
// Idempotency-Keys, and the first one has to come from beside the database anyway.
func (a *api) tokenRoutes() {
	admin := []Scope{ScopeAdmin}
	handle(a, operation{id: "list-tokens", method: http.MethodGet, path: "/v1/tokens", tag: tagOperations, scopes: admin,
		summary: "List tokens, also those that are over", description: "Their secrets are nowhere. Tokens are made beside the database, by `daybook token create`."}, a.listTokens)
	handle(a, operation{id: "revoke-token", method: http.MethodDelete, path: "/v1/tokens/{name}", tag: tagOperations, scopes: admin, creates: true,
		summary: "End a token", description: "Engines notice within five seconds. Its name stays in the history and is not used again."}, a.revokeToken)
}

func (a *api) listTokens(ctx context.Context, _ *struct{}) (*tokensOutput, error) {
	found, err := a.tokens.List(ctx)
	out := &tokensOutput{tokenList{make([]client.Token, len(found))}}
	for i, t := range found {
		out.Body.Tokens[i] = t.Shown()
	}
	return out, err
}

func (a *api) revokeToken(ctx context.Context, in *struct {
	Name string `path:"name" maxLength:"64" doc:"The token's name"`
}) (*struct{ Body nothing }, error) {
	err := a.tokens.Revoke(ctx, in.Name, callOf(ctx).who.actor)
	if errors.Is(err, ErrNoToken) {
		return nil, newProblem(kindNotFound, err.Error())
	}
	return &struct{ Body nothing }{}, err
}

// Shown is the token as clients know it.
func (t Token) Shown() client.Token {
	out := client.Token{Name: t.Name, Scopes: make([]string, len(t.Scopes)), CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy,
		ExpiresAt: t.ExpiresAt, RevokedAt: t.RevokedAt, RevokedBy: t.RevokedBy, Live: t.Live}
	for i, s := range t.Scopes {
		out.Scopes[i] = string(s)
	}
	return out
}
