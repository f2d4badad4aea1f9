package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookhq/daybook/domain"
)

// Scope is what a token allows.
type Scope string

// The scopes. None includes another, but admin includes all.
const (
	ScopeRead    Scope = "read"    // look at everything
	ScopeEnqueue Scope = "enqueue" // ask for runs of jobs that there are
	ScopeOperate Scope = "operate" // pause and resume jobs; cancel, retry and backfill runs
	ScopeWork    Scope = "work"    // execute runs
	ScopeAdmin   Scope = "admin"   // define and archive jobs, which says what workers execute
)

// Scopes are all scopes.
var Scopes = []Scope{ScopeRead, ScopeEnqueue, ScopeOperate, ScopeWork, ScopeAdmin}

// Token is what is kept of a token: not its secret.
type Token struct {
	Name      string     `json:"name"`
	Scopes    []Scope    `json:"scopes"`
	CreatedAt time.Time  `json:"created_at"`
	CreatedBy string     `json:"created_by"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	RevokedBy string     `json:"revoked_by,omitempty"`
	Live      bool       `json:"live"` // neither expired nor revoked
}

// NewToken asks for a token.
type NewToken struct {
	Name   string // recorded as the actor of everything done with it; never given twice
	Scopes []Scope
	Life   time.Duration // 0: until it is revoked
	By     string
}

// TokenError says what is wrong with a request about tokens.
type TokenError struct{ Why string }

func (e *TokenError) Error() string { return e.Why }

// ErrNoToken says that there is no live token of a name.
var ErrNoToken = errors.New("no such token")

// Tokens are the tokens of a deployment. It is safe for concurrent use.
type Tokens struct {
	pool *pgxpool.Pool
	ttl  time.Duration // how long an answer of the database is believed

	mu    sync.Mutex
	known map[[sha256.Size]byte]knownToken
	any   bool // there are tokens; they never go away
	asked time.Time
}

type knownToken struct {
	Token
	until time.Time
}

const (
	tokenTTL    = 5 * time.Second
	maxKnown    = 10_000
	tokenPrefix = "dbk_" // lets scanners of leaked secrets find it
)

// NewTokens returns the tokens in the database of the pool.
func NewTokens(pool *pgxpool.Pool) *Tokens {
	return &Tokens{pool: pool, ttl: tokenTTL, known: map[[sha256.Size]byte]knownToken{}}
}

const tokenColumns = `name, scopes, created_at, created_by, expires_at, revoked_at, revoked_by, revoked_at IS NULL AND coalesce(expires_at > now(), true)`

// Index: api_tokens_pkey.
const insertToken = `
INSERT INTO api_tokens (name, hash, scopes, created_by, expires_at) VALUES ($1, $2, $3, $4, now() + $5::interval) RETURNING ` + tokenColumns

// Create makes a token. Its secret is told this one time. The error is a
// *TokenError if the request is at fault.
func (t *Tokens) Create(ctx context.Context, q NewToken) (secret string, made Token, err error) {
	switch {
	case !domain.ValidName(q.Name):
		return "", made, &TokenError{fmt.Sprintf("name %q: use a-z, 0-9, - and _, at most 64, beginning with a letter or digit", q.Name)}
	case len(q.Scopes) == 0:
		return "", made, &TokenError{"no scope: want one or more of " + listScopes()}
	case q.Life < 0:
		return "", made, &TokenError{fmt.Sprintf("a life of %s is over before it begins", q.Life)}
	}
	for _, s := range q.Scopes {
		if !slices.Contains(Scopes, s) {
			return "", made, &TokenError{fmt.Sprintf("scope %q: want one or more of %s", s, listScopes())}
		}
	}
	scopes := slices.Compact(slices.Sorted(slices.Values(q.Scopes)))
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	secret = tokenPrefix + base64.RawURLEncoding.EncodeToString(random)
	hash := sha256.Sum256([]byte(secret))
	var life *time.Duration
	if q.Life > 0 {
		life = &q.Life
	}
	rows, err := t.pool.Query(ctx, insertToken, q.Name, hash[:], scopes, q.By, life)
	if err == nil {
		made, err = pgx.CollectExactlyOneRow(rows, scanToken)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "23505" {
		return "", made, &TokenError{fmt.Sprintf("there is or was a token named %q: names stand in the history and are not used again", q.Name)}
	}
	if err != nil {
		return "", made, fmt.Errorf("create token: %w", err)
	}
	return secret, made, nil
}

func listScopes() string {
	names := make([]string, len(Scopes))
	for i, s := range Scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

func scanToken(row pgx.CollectableRow) (Token, error) {
	t, err := pgx.RowToStructByPos[Token](row)
	t.CreatedAt = t.CreatedAt.UTC()
	for _, at := range []*time.Time{t.ExpiresAt, t.RevokedAt} {
		if at != nil {
			*at = at.UTC()
		}
	}
	return t, err
}

// List lists all tokens by name, also those that are over.
func (t *Tokens) List(ctx context.Context) ([]Token, error) {
	rows, err := t.pool.Query(ctx, "SELECT "+tokenColumns+" FROM api_tokens ORDER BY name")
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return pgx.CollectRows(rows, scanToken)
}

// Revoke ends a token; engines notice within five seconds. ErrNoToken if there
// is none of that name that has not been revoked.
func (t *Tokens) Revoke(ctx context.Context, name, by string) error {
	tag, err := t.pool.Exec(ctx, "UPDATE api_tokens SET revoked_at = now(), revoked_by = $2 WHERE name = $1 AND revoked_at IS NULL", name, by)
	switch {
	case err != nil:
		return fmt.Errorf("revoke token: %w", err)
	case tag.RowsAffected() == 0:
		return fmt.Errorf("token %q: %w", name, ErrNoToken)
	}
	return nil
}

// Configured reports whether a token was ever made. From then on the API wants
// one, also when the last has expired or was revoked: what was shut does not
// fall open.
func (t *Tokens) Configured(ctx context.Context) (bool, error) {
	t.mu.Lock()
	known, fresh := t.any, time.Since(t.asked) < t.ttl
	t.mu.Unlock()
	if known || fresh {
		return known, nil
	}
	var found bool
	if err := t.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM api_tokens)").Scan(&found); err != nil {
		return false, fmt.Errorf("look for tokens: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.any, t.asked = t.any || found, time.Now()
	return t.any, nil
}

// lookup finds the live token with the secret. The row is found by the hash of
// the secret, so that no comparison tells how much of a guess was right.
func (t *Tokens) lookup(ctx context.Context, secret string) (Token, bool, error) {
	hash := sha256.Sum256([]byte(secret))
	t.mu.Lock()
	k, ok := t.known[hash]
	t.mu.Unlock()
	if ok && time.Now().Before(k.until) {
		return k.Token, true, nil
	}
	// Index: api_tokens_hash_key.
	rows, err := t.pool.Query(ctx, "SELECT "+tokenColumns+" FROM api_tokens WHERE hash = $1", hash[:])
	if err != nil {
		return Token{}, false, fmt.Errorf("look up token: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanToken)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Token{}, false, fmt.Errorf("look up token: %w", err)
	}
	live := err == nil && found.Live
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, hash)
	if live {
		if len(t.known) >= maxKnown {
			clear(t.known)
		}
		t.known[hash] = knownToken{found, time.Now().Add(t.ttl)}
	}
	return found, live, nil
}
