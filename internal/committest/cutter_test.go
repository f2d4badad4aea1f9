package committest

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// cutter is a proxy that speaks enough of PostgreSQL's protocol to know what the
// server has completed.
type cutter struct {
	dsn string

	network, address string
	listener         net.Listener
	serving          sync.WaitGroup

	mu    sync.Mutex
	armed bool
	tag   string // the completion to cut at, by its beginning
	cut   []string
	conns map[net.Conn]bool
}

func newCutter(t *testing.T, dsn string) *cutter {
	t.Helper()
	conf, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{conns: map[net.Conn]bool{}}
	c.network, c.address = pgconn.NetworkAddress(conf.Host, conf.Port)
	if c.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	u := url.URL{Scheme: "postgres", User: url.User(conf.User), Host: c.listener.Addr().String(), Path: "/" + conf.Database, RawQuery: "sslmode=disable"}
	c.dsn = u.String()
	c.serving.Go(c.serve)
	t.Cleanup(c.close)
	return c
}

func (c *cutter) close() {
	_ = c.listener.Close()
	c.mu.Lock()
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.serving.Wait()
}

// arm has the connection cut at the next completion that begins so.
func (c *cutter) arm(tag string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.tag, c.cut = true, tag, nil
}

// fired disarms, and tells what was cut.
func (c *cutter) fired() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	return c.cut
}

func (c *cutter) serve() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(c.network, c.address)
		if err != nil {
			_ = client.Close()
			continue
		}
		c.mu.Lock()
		c.conns[client], c.conns[server] = true, true
		c.mu.Unlock()
		hangUp := sync.OnceFunc(func() {
			_ = client.Close()
			_ = server.Close()
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.conns, client)
			delete(c.conns, server)
		})
		c.serving.Go(func() { defer hangUp(); _, _ = io.Copy(server, client) })
		c.serving.Go(func() { defer hangUp(); _ = c.relay(client, server) })
	}
}

// relay passes on what the server says, message by message.
func (c *cutter) relay(client io.Writer, server io.Reader) error {
	r := bufio.NewReader(server)
	head := make([]byte, 5)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		if head[0] == 'C' && c.stop(strings.TrimRight(string(body), "\x00")) {
			return io.ErrUnexpectedEOF
		}
		if _, err := client.Write(append(head[:5:5], body...)); err != nil {
			return err
		}
	}
}

func (c *cutter) stop(tag string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed || !strings.HasPrefix(tag, c.tag) {
		return false
	}
	c.armed, c.cut = false, append(c.cut, tag)
	return true
}
