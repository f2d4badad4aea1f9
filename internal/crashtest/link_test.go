//go:build linux

package crashtest

import (
	"bytes"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/proctest"
)

// link is a TCP proxy between two processes, at which their connections can be
// hurt.
type link struct {
	name   string
	target func() (net.Conn, error)
	l      net.Listener
	done   sync.WaitGroup

	mu      sync.Mutex
	state   linkState
	healed  chan struct{} // closed when a hole ends
	pairs   map[*pair]bool
	ended   bool
	commits int // answers to a COMMIT that were swallowed
}

type linkState int

const (
	whole     linkState = iota
	severed             // connections end, and no new one comes about
	hole                // nothing arrives, and nobody is told; it is all there later
	deaf                // what is asked arrives, and no answer comes back
	mute                // what is asked does not arrive
	forgetful           // a connection ends in place of the answer to a COMMIT
)

// pair is a connection and what it is connected to.
type pair struct {
	near, far net.Conn
	lossy     bool // bytes are missing: it ends when the link is whole again
}

func (p *pair) close() {
	_ = p.near.Close()
	_ = p.far.Close()
}

func newLink(t *testing.T, name string, target func() (net.Conn, error)) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{name: name, target: target, l: l, pairs: map[*pair]bool{}}
	k.done.Go(k.accept)
	t.Cleanup(k.close)
	return k
}

func toPort(port int) func() (net.Conn, error) {
	return func() (net.Conn, error) {
		return net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), 5*time.Second)
	}
}

func (k *link) port() int { return k.l.Addr().(*net.TCPAddr).Port }

func (k *link) accept() {
	for {
		near, err := k.l.Accept()
		if err != nil {
			return
		}
		k.done.Go(func() { k.serve(near) })
	}
}

func (k *link) serve(near net.Conn) {
	k.mu.Lock()
	refuse := k.ended || k.state == severed
	k.mu.Unlock()
	if refuse {
		_ = near.Close()
		return
	}
	far, err := k.target()
	if err != nil {
		_ = near.Close()
		return
	}
	p := &pair{near: near, far: far}
	k.mu.Lock()
	if k.ended || k.state == severed {
		k.mu.Unlock()
		p.close()
		return
	}
	k.pairs[p] = true
	k.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { k.pump(p, near, far, mute) })
	both.Go(func() { k.pump(p, far, near, deaf) })
	both.Wait()
	k.mu.Lock()
	delete(k.pairs, p)
	k.mu.Unlock()
}

// committed is how PostgreSQL answers a COMMIT.
var committed = []byte("C\x00\x00\x00\x0bCOMMIT\x00")

// pump carries bytes one way, unless the link is in the state that loses them.
func (k *link) pump(p *pair, from, to net.Conn, loses linkState) {
	defer p.close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			k.mu.Lock()
			state, healed := k.state, k.healed
			if state == loses {
				p.lossy = true
				if loses == deaf {
					k.commits += bytes.Count(b[:n], committed)
				}
			}
			k.mu.Unlock()
			if n := bytes.Count(b[:n], committed); state == forgetful && n > 0 {
				k.mu.Lock()
				k.commits += n
				k.mu.Unlock()
				return
			}
			if state == hole {
				<-healed
			}
			if state != loses {
				if _, err := to.Write(b[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// set changes the link's state. Connections that have lost something end when it
// is whole again, as they would by their own timeouts.
func (k *link) set(s linkState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state == hole {
		close(k.healed)
	}
	k.state = s
	if s == hole {
		k.healed = make(chan struct{})
	}
	for p := range k.pairs {
		if s == severed || s == whole && p.lossy {
			p.close()
		}
	}
}

func (k *link) swallowed() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.commits
}

func (k *link) close() {
	k.set(severed)
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	_ = k.l.Close()
	k.done.Wait()
}

func TestLink(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var heard []byte
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 100)
				for {
					n, err := c.Read(b)
					if err != nil {
						return
					}
					mu.Lock()
					heard = append(heard, b[:n]...)
					mu.Unlock()
					_, _ = c.Write(slices.Concat(b[:n], committed))
				}
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	k := newLink(t, "test", toPort(l.Addr().(*net.TCPAddr).Port))
	connect := func() net.Conn {
		c, err := toPort(k.port())()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	say := func(c net.Conn, what string, wait time.Duration) (answer string, err error) {
		if _, err := c.Write([]byte(what)); err != nil {
			return "", err
		}
		_ = c.SetReadDeadline(time.Now().Add(wait))
		b := make([]byte, 100)
		n, err := c.Read(b)
		return string(b[:n]), err
	}
	got := func(want string) {
		t.Helper()
		proctest.Await(t, "the far end hears "+want, nil, func() (bool, string) {
			mu.Lock()
			defer mu.Unlock()
			return string(heard) == want, string(heard)
		})
	}
	const soon, never = 10 * time.Second, 100 * time.Millisecond
	c := connect()
	if s, err := say(c, "a", soon); err != nil || s[0] != 'a' {
		t.Fatalf("whole: %q %v", s, err)
	}
	k.set(hole)
	if s, err := say(c, "b", never); err == nil {
		t.Errorf("hole: answered %q", s)
	}
	got("a")
	k.set(whole)
	if s, err := say(c, "c", soon); err != nil || s[0] != 'b' {
		t.Errorf("after a hole: %q %v", s, err)
	}
	got("abc")
	d := connect()
	if _, err := say(d, "d", soon); err != nil {
		t.Fatal(err)
	}
	k.set(deaf)
	if s, err := say(d, "e", never); err == nil {
		t.Errorf("deaf: answered %q", s)
	}
	got("abcde")
	proctest.Await(t, "the lost answer is counted", nil, func() (bool, string) { return k.swallowed() == 1, "" })
	k.set(mute)
	if s, err := say(d, "f", never); err == nil {
		t.Errorf("mute: answered %q", s)
	}
	got("abcde")
	k.set(whole)
	if _, err := say(d, "g", soon); err == nil {
		if _, err := say(d, "g", soon); err == nil {
			t.Error("a connection that lost something goes on")
		}
	}
	k.set(whole)
	f := connect()
	before := k.swallowed()
	k.set(forgetful)
	if s, err := say(f, "i", soon); err == nil || k.swallowed() != before+1 {
		t.Errorf("forgetful: answered %q, %d answers to a COMMIT lost", s, k.swallowed()-before)
	}
	k.set(severed)
	e := connect()
	if s, err := say(e, "h", soon); err == nil {
		t.Errorf("severed: answered %q", s)
	}
}
