package natsjs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// ConnectOptions says where and how to connect. URL and InProcess exclude each other.
type ConnectOptions struct {
	URL       string                     // one or more, comma separated
	InProcess nats.InProcessConnProvider // a *Server of this process

	Name      string // shown by the server's tools
	CredsFile string // JWT and seed, as written by nsc
	NKeyFile  string // seed file
	CAFile    string // TLS: roots to trust instead of the system's
	CertFile  string // TLS: client certificate, with KeyFile
	KeyFile   string
	Logger    *slog.Logger
	Extra     []nats.Option // applied last
}

// Connect returns a connection that never gives up: it reconnects for ever, also when the first attempt fails, so
// an error means unusable options and not an unreachable server. Publishing while disconnected fails at once
// instead of being buffered: a message that goes out minutes later would be a surprise. See WaitConnected.
func Connect(o ConnectOptions) (*nats.Conn, error) {
	log := cmp.Or(o.Logger, slog.Default()).With("component", "nats", "connection", o.Name)
	opts := []nats.Option{
		nats.Name(o.Name),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(true),
		nats.IgnoreAuthErrorAbort(), // credentials get rotated; closing for good would need a restart of ours
		nats.ReconnectBufSize(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, time.Second),
		nats.Timeout(5 * time.Second),
		nats.PingInterval(10 * time.Second), // a silent peer is noticed after three of these
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(5 * time.Second), // bounds a write to a peer that stopped reading; it holds the connection's lock
	}
	opts = append(opts, handlers(log)...)

	switch {
	case o.URL != "" && o.InProcess != nil:
		return nil, errors.New("connect to NATS: both a URL and an in-process server given")
	case o.URL == "" && o.InProcess == nil:
		return nil, errors.New("connect to NATS: neither a URL nor an in-process server given")
	case o.InProcess != nil:
		opts = append(opts, nats.InProcessServer(o.InProcess))
	}
	if o.CredsFile != "" {
		opts = append(opts, nats.UserCredentials(o.CredsFile))
	}
	if o.NKeyFile != "" {
		opt, err := nats.NkeyOptionFromSeed(o.NKeyFile)
		if err != nil {
			return nil, fmt.Errorf("connect to NATS: nkey seed %s: %w", o.NKeyFile, err)
		}
		opts = append(opts, opt)
	}
	if o.CAFile != "" {
		opts = append(opts, nats.RootCAs(o.CAFile))
	}
	if o.CertFile != "" || o.KeyFile != "" {
		opts = append(opts, nats.ClientCert(o.CertFile, o.KeyFile))
	}
	nc, err := nats.Connect(o.URL, append(opts, o.Extra...)...)
	if err != nil {
		if parse, ok := errors.AsType[*url.Error](err); ok {
			err = parse.Err // its text would repeat the URL, password and all
		}
		return nil, fmt.Errorf("connect to NATS at %s: %w", cmp.Or(redact(o.URL), "in-process server"), err)
	}
	return nc, nil
}

// handlers reports what happens to a connection. A denied request shows up nowhere but in the error handler: its
// caller only sees a timeout.
func handlers(log *slog.Logger) []nats.Option {
	var lastRetry atomic.Int64
	return []nats.Option{
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if nc.IsClosed() || nc.IsDraining() {
				return
			}
			log.Warn("disconnected from NATS, reconnecting", "error", err)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("connected to NATS", "url", nc.ConnectedUrlRedacted(), "reconnects", nc.Stats().Reconnects)
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			now := time.Now().UnixNano()
			if last := lastRetry.Load(); now-last > int64(10*time.Second) && lastRetry.CompareAndSwap(last, now) {
				log.Warn("NATS is not reachable, trying again", "error", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			attrs := []any{"error", err}
			if sub != nil {
				attrs = append(attrs, "subject", sub.Subject)
			}
			log.Error("NATS reported an error", attrs...)
		}),
	}
}

// WaitConnected waits until nc is connected. When ctx ends first the error names the servers and the reason.
func WaitConnected(ctx context.Context, nc *nats.Conn) error {
	changed := nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(changed)
	for {
		if nc.IsConnected() {
			return nil
		}
		if nc.IsClosed() {
			return nats.ErrConnectionClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w; %w", notConnected(nc), context.Cause(ctx))
		}
	}
}

// notConnected describes why nc has no connection now.
func notConnected(nc *nats.Conn) error {
	where := "the in-process server"
	if nc.Opts.InProcessServer == nil { // else the pool holds a default address nobody asked for
		where = redact(strings.Join(nc.Servers(), ","))
	}
	err := nc.LastError()
	if err == nil {
		err = nats.ErrDisconnected
	}
	return fmt.Errorf("not connected to NATS at %s: %w", where, err)
}

// redact drops user and password from URLs, which must not reach a log.
func redact(urls string) string {
	parts := strings.Split(urls, ",")
	for i, u := range parts {
		scheme, rest, ok := strings.Cut(strings.TrimSpace(u), "://")
		if !ok {
			scheme, rest = "", scheme
		} else {
			scheme += "://"
		}
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			rest = rest[at+1:]
		}
		parts[i] = scheme + rest
	}
	return strings.Join(parts, ",")
}
