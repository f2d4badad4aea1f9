package natsjs_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/internal/natsjs"
	"github.com/daybookhq/daybook/internal/natstest"
)

// holdStore makes the test binary a second process that runs a server on the named store until stdin ends.
const holdStore = "NATSJS_TEST_HOLD_STORE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdStore); dir != "" {
		s, err := natsjs.StartServer(natsjs.ServerOptions{StoreDir: dir, Logger: natstest.Quiet()})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("holding")
		io.Copy(io.Discard, os.Stdin)
		s.Shutdown()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// deadline is how long a test waits for what must happen; reaching it is a failure.
const deadline = 30 * time.Second

// within returns a context that ends with the test or at the deadline.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until ok is true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not happen within %s: %s", deadline, what)
		}
	}
}
