//go:build linux

package crashtest

import (
	"fmt"
	"testing"

	"github.com/daybookhq/daybook/internal/proctest"
)

func awaitReady(t *testing.T, p *proctest.Process, url string) {
	t.Helper()
	proctest.Await(t, p.Name+" is ready", []*proctest.Process{p}, func() (bool, string) { return proctest.Ready(url) })
}

func httpURL(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

func natsURL(port int) string { return fmt.Sprintf("nats://127.0.0.1:%d", port) }
