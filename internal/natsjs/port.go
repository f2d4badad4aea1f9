package natsjs

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// portFileName lies in the store directory and holds the port of its last server. Clients that were told an address
// find the next server there, also after a crash.
const portFileName = "daybook-nats.port"

// lastPort is the port of the directory's last server, 0 if there was none or if the port is taken.
func lastPort(host, dir string) int {
	b, err := os.ReadFile(filepath.Join(dir, portFileName))
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || port < 1 || port > 65535 {
		return 0
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return 0
	}
	_ = l.Close()
	return port
}

// rememberPort notes the port. Without the note clients look for a restarted server in vain, which is no reason not to
// start.
func rememberPort(dir string, port int) {
	_ = os.WriteFile(filepath.Join(dir, portFileName), []byte(strconv.Itoa(port)+"\n"), 0o600)
}
