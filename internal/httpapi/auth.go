package httpapi

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
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
		return a.admitLoopback(r)
	}
	if a.LocalToken != "" && subtle.ConstantTimeCompare([]byte(secret), []byte(a.LocalToken)) == 1 {
		return allowed(Token{Name: "local", Scopes: []Scope{ScopeWork}}, scopes)
	}
	token, live, err := a.tokens.lookup(r.Context(), secret)
	switch {
	case err != nil:
		return principal{}, problemOf(err)
	case !live:
		return principal{}, challenge("the token is unknown, expired or revoked", `Bearer error="invalid_token"`)
	}
	return allowed(token, scopes)
}

func allowed(t Token, scopes []Scope) (principal, *Problem) {
	if slices.Contains(t.Scopes, ScopeAdmin) || slices.ContainsFunc(scopes, func(s Scope) bool { return slices.Contains(t.Scopes, s) }) {
		return principal{actor: "token:" + t.Name, token: true}, nil
	}
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	p := newProblem(kindForbidden, "the token "+t.Name+" does not have the scope "+strings.Join(words, " or "))
	return principal{}, p.header("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+strings.Join(words, " ")+`"`)
}

// admitLoopback lets requests without a token in for as long as no token was
// ever made, from this machine to this machine, and by one of its own names: a
// page whose name was made to resolve to 127.0.0.1 comes from its own origin,
// but under that name.
func (a *api) admitLoopback(r *http.Request) (principal, *Problem) {
	configured, err := a.tokens.Configured(r.Context())
	switch {
	case err != nil:
		return principal{}, problemOf(err)
	case configured:
		return principal{}, challenge("a token is needed: Authorization: Bearer …", "Bearer")
	case !isLoopbackPeer(r):
		return principal{}, challenge("without tokens the API answers this machine only: make one with `daybook token create`", "Bearer")
	case !isLoopbackName(r.Host):
		return principal{}, newProblem(kindHost, "without tokens the API answers under a loopback address or localhost only, not as "+shown(r.Host))
	}
	return principal{actor: loopbackActor}, nil
}

func challenge(detail, scheme string) *Problem {
	return newProblem(kindUnauthorized, detail).header("WWW-Authenticate", scheme)
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
