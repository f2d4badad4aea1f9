package projections

import (
	"context"
	"testing"
	"time"
)

type ctx = context.Context

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	c, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	return c, stop
}

// await polls until the condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
