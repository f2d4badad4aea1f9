package httpapi

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/daybookhq/daybook/internal/client"
)

// principal is who sends a request.
type principal struct {
	actor string // as it stands in events
	token bool
}

// loopbackActor sends what comes without a token while none is needed.
const loopbackActor = "http:loopback"

// admit says who sends the request, or why it is refused. It is refused unless
// something allows it.
func (a *api) admit(r *http.Request, scopes []Scope) (principal, *Problem) {
	if len(scopes) == 0 {
		return principal{}, nil
	}
	secret, given := bearer(r)
	if !given {
		return a.admitLoopback(r, scopes)
	}
	if a.LocalToken != "" && subtle.ConstantTimeCompare([]byte(secret), []byte(a.LocalToken)) == 1 {
		return allowed(Token{Name: "local", Scopes: []Scope{ScopeWork}}, scopes)
	}
	if a.OwnerToken != "" && subtle.ConstantTimeCompare([]byte(secret), []byte(a.OwnerToken)) == 1 {
		return principal{actor: owner(r), token: true}, nil
	}
	token, live, err := a.tokens.lookup(r.Context(), secret)
	switch {
	case err != nil:
		return principal{}, problemOf(err)
	case !live:
		return principal{}, challenge("the token is unknown, expired or revoked", `Bearer error="invalid_token", `, scopes)
	}
	return allowed(token, scopes)
}

// owner is who has the owner's token: whoever that request says. It is kept where
// the address of the database is, which would let them write any name.
func owner(r *http.Request) string {
	name := r.Header.Get(client.ActorHeader)
	if name == "" || len(name) > 256 || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }) || !utf8.ValidString(name) {
		return "token:owner"
	}
	return name
}

func allowed(t Token, scopes []Scope) (principal, *Problem) {
	if slices.Contains(t.Scopes, ScopeAdmin) || slices.ContainsFunc(scopes, func(s Scope) bool { return slices.Contains(t.Scopes, s) }) {
		return principal{actor: "token:" + t.Name, token: true}, nil
	}
	p := newProblem(kindForbidden, "the token "+t.Name+" does not have the scope "+listed(scopes, " or "))
	return principal{}, p.header("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+listed(scopes, " ")+`"`)
}

func listed(scopes []Scope, between string) string {
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	return strings.Join(words, between)
}

// admitLoopback lets requests without a token in for as long as no token was
// ever made, from this machine to this machine, and by one of its own names: a
// page whose name was made to resolve to 127.0.0.1 comes from its own origin,
// but under that name.
func (a *api) admitLoopback(r *http.Request, scopes []Scope) (principal, *Problem) {
	configured, err := a.tokens.Configured(r.Context())
	switch {
	case err != nil:
		return principal{}, problemOf(err)
	case configured:
		return principal{}, challenge("a token is needed: Authorization: Bearer …", "Bearer ", scopes)
	case !isLoopbackPeer(r):
		return principal{}, challenge("without tokens the API answers this machine only: make one with `daybook token create`", "Bearer ", scopes)
	case !isLoopbackName(r.Host):
		return principal{}, newProblem(kindHost, "without tokens the API answers under a loopback address or localhost only, not as "+shown(r.Host))
	}
	return principal{actor: loopbackActor}, nil
}

// challenge says that a token with one of the scopes is wanted.
func challenge(detail, scheme string, scopes []Scope) *Problem {
	return newProblem(kindUnauthorized, detail).header("WWW-Authenticate", scheme+`scope="`+listed(scopes, " ")+`"`)
}

// bearer takes the token out of the request. Whatever else the header holds is
// a token that nobody knows, not none.
func bearer(r *http.Request) (secret string, given bool) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", false
	}
	scheme, secret, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimSpace(secret), true
}

func isLoopbackPeer(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}

func isLoopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
