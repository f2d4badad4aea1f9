package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/worker/protocol"
)

// ClientConfig says where the engines are. At least one of NATSURL and URL is needed; with both, HTTP stands in when
// NATS is down.
type ClientConfig struct {
	NATSURL     string
	NATSOptions []nats.Option
	URL         string
	Token       string // bearer token for HTTP (scope enqueue)
	HTTPClient  *http.Client
	Logger      *slog.Logger // default: slog.Default
}

// Client asks for runs. It needs no worker and is safe for concurrent use.
type Client struct {
	caller *caller
	conn   *nats.Conn
}

// NewClient connects in the background: the servers need not be there yet. Close it when done.
func NewClient(cfg ClientConfig) (*Client, error) {
	if cfg.NATSURL == "" && cfg.URL == "" {
		return nil, errors.New("worker: ClientConfig: neither NATSURL nor URL is set")
	}
	if err := validURL(cfg.URL); err != nil {
		return nil, fmt.Errorf("worker: ClientConfig.URL: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	c := &Client{caller: &caller{timing: defaultTiming}}
	if cfg.NATSURL != "" {
		conn, err := connect(cfg.NATSURL, "client", cfg.Logger, cfg.NATSOptions)
		if err != nil {
			return nil, err
		}
		c.conn = conn
		c.caller.nats = &natsRoute{transport: natsTransport{conn}, suspectFor: defaultTiming.suspectFor}
	}
	if cfg.URL != "" {
		c.caller.http = newHTTPTransport(cfg.HTTPClient, cfg.URL, cfg.Token)
	}
	return c, nil
}

// Close lets go of the connections.
func (c *Client) Close() {
	if c.conn != nil {
		disconnect(c.conn)
	}
	c.caller.close()
}

// EnqueueOption changes what Enqueue asks for.
type EnqueueOption func(*protocol.EnqueueItem)

// Key names the run: the same key of the same job gives the same run, however often it is asked for.
func Key(key string) EnqueueOption { return func(i *protocol.EnqueueItem) { i.Key = key } }

// At is when the run becomes ready. A time that has passed means now.
func At(t time.Time) EnqueueOption { return func(i *protocol.EnqueueItem) { i.At = protocol.At(t) } }

// Enqueued is a run that was asked for.
type Enqueued struct {
	RunID   string
	Created bool // false: the key had a run already
}

// Errors of Enqueue; use errors.Is.
var (
	ErrNoSuchJob = errors.New("worker: no such job")
	ErrRefused   = errors.New("worker: enqueue refused")
)

// enqueueFor bounds Enqueue if its context has no deadline.
const enqueueFor = 15 * time.Second

// Enqueue asks for a run of the named job with args, encoded as JSON; nil means the job's own. It repeats a lost request until
// ctx ends, or for 15 s without a deadline, and still makes one run: without Key it uses a random key.
//
// The error is ErrNoSuchJob, ErrUnauthorized, ErrRefused (with what was wrong), or that of the last try; after
// the last kind the run may exist all the same.
func Enqueue(ctx context.Context, c *Client, job string, args any, opts ...EnqueueOption) (Enqueued, error) {
	item := protocol.EnqueueItem{Job: job}
	for _, o := range opts {
		o(&item)
	}
	if item.Key == "" {
		item.Key = uuid.NewString()
	}
	if args != nil {
		b, err := protocol.Encode(args)
		if err != nil {
			return Enqueued{}, fmt.Errorf("worker: enqueue %s: args: %w", job, err)
		}
		item.Args = b
	}
	raw, err := protocol.Encode(item)
	if err != nil {
		return Enqueued{}, fmt.Errorf("worker: enqueue %s: %w", job, err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, enqueueFor)
		defer cancel()
	}
	var retry backoff
	for {
		results, _, err := callItems[protocol.EnqueueResult](ctx, c.caller, protocol.OpEnqueue, `{"items":[`, [][]byte{raw}, 0)
		if err == nil && results[0].Error != nil {
			err = results[0].Error
		}
		if err == nil {
			return Enqueued{results[0].RunID.String(), results[0].Created}, nil
		}
		switch errorCode(err) {
		case protocol.CodeNotFound:
			return Enqueued{}, fmt.Errorf("%w: %s: %w", ErrNoSuchJob, job, err)
		case protocol.CodeUnauthorized:
			return Enqueued{}, fmt.Errorf("%w: enqueue %s: %w", ErrUnauthorized, job, err)
		case protocol.CodeInvalid, protocol.CodeConflict, protocol.CodeTooLarge:
			return Enqueued{}, fmt.Errorf("%w: %s: %w", ErrRefused, job, err)
		}
		if retry.sleep(ctx); ctx.Err() != nil {
			return Enqueued{}, fmt.Errorf("worker: enqueue %s: %w (last: %w)", job, ctx.Err(), err)
		}
	}
}
