package main

import "net/url"

// withUser puts another user into a connection URL.
func withUser(dsn, user string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return dsn
	}
	u.User = url.User(user)
	return u.String()
}
