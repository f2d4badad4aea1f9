//go:build linux

package crashtest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// patience is for what should take a second or two. It is long because the
// machine may be slow and PostgreSQL may have to recover; whoever meets it has
// failed.
const patience = 90 * time.Second

// await polls until the condition holds, and fails the test if it never does or
// if a process ends that should not.
func await(t *testing.T, what string, procs []*process, holds func() (bool, string)) {
	t.Helper()
	var why string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for _, p := range procs {
			if p.ended() {
				t.Fatalf("%s: %s ended unasked: %v\n%s", what, p.name, p.err, p.tail())
			}
		}
		var ok bool
		if ok, why = holds(); ok {
			return
		}
	}
	for _, p := range procs {
		why += "\n" + p.name + ": " + p.tail()
	}
	t.Fatalf("%s: not within %s: %s", what, patience, why)
}

// ready asks an engine whether it can work.
func ready(url string) (bool, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return false, err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode == http.StatusOK, string(body)
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func awaitReady(t *testing.T, p *process, url string) {
	t.Helper()
	await(t, p.name+" is ready", []*process{p}, func() (bool, string) { return ready(url) })
}

func awaitPort(t *testing.T, p *process, port int) {
	t.Helper()
	await(t, p.name+" listens", []*process{p}, func() (bool, string) {
		c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second)
		if err != nil {
			return false, err.Error()
		}
		return c.Close() == nil, ""
	})
}

// freePort finds a port for a server that will be away at times. It is not one of
// those the kernel gives to outgoing connections (32768 and up): one of these may
// take it meanwhile, even a client that asks for that very server, since TCP lets a
// connection meet itself.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.IntN(22_000))))
		if err == nil {
			defer l.Close()
			return l.Addr().(*net.TCPAddr).Port
		}
	}
	t.Fatal("no free port below the ephemeral ones")
	return 0
}

func httpURL(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }
