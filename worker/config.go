package worker

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/worker/protocol"
)

// Config says where the engines are and how much the worker takes. At least one of NATSURL and URL is needed; with both, each
// stands in for the other when it is down.
type Config struct {
	// NATSURL is one NATS URL, or several separated by commas. Empty: HTTP only.
	NATSURL string
	// NATSOptions are applied last: credentials, TLS, an in-process connection.
	NATSOptions []nats.Option
	// URL is the base URL of an engine's HTTP API. Empty: NATS only.
	URL string
	// Token is sent as bearer token over HTTP (scope work).
	Token string
	// HTTPClient replaces the default client. It must not have a timeout shorter than a long poll (25 s).
	HTTPClient *http.Client

	// Queue and Queues name the queues to take work from; each is combined with every kind handled. Default: "default".
	Queue  string
	Queues []string
	// Slots is the most handlers that run at a time. Default: 10.
	Slots int
	// Name identifies the worker to people; the worker id is the name and a random part. Default: the host name.
	Name string
	// Version is shown beside the name. Default: the version of the program's main module.
	Version string

	// DrainTimeout is how long handlers may go on after Run's context has ended. Default: 30 s.
	DrainTimeout time.Duration
	// StopTimeout is how long handlers may take to return after their contexts have ended with ErrDraining, and outcomes to be
	// recorded. Default: 10 s.
	StopTimeout time.Duration

	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// timing holds what tests shorten.
type timing struct {
	nats       time.Duration // one request over NATS
	http       time.Duration // one request over HTTP
	suspectFor time.Duration // a connection that lost a request without failing at once is tried second for this long
	pollAfter  time.Duration // a lane is polled over HTTP when it has had no consumer for this long
	quietAfter time.Duration // and now and then when its consumer has had nothing for this long; 0: never
}

var defaultTiming = timing{
	nats: 5 * time.Second, http: 10 * time.Second, suspectFor: 10 * time.Second, pollAfter: 2 * time.Second, quietAfter: 10 * time.Second,
}

const (
	defaultQueue        = "default"
	defaultSlots        = 10
	defaultDrainTimeout = 30 * time.Second
	defaultStopTimeout  = 10 * time.Second
	maxSlots            = 100_000
)

func (c Config) withDefaults() Config {
	c.Queues = slices.Clone(c.Queues)
	if c.Queue != "" {
		c.Queues = append(c.Queues, c.Queue)
	}
	if len(c.Queues) == 0 {
		c.Queues = []string{defaultQueue}
	}
	slices.Sort(c.Queues)
	c.Queues = slices.Compact(c.Queues)
	c.Slots = cmp.Or(c.Slots, defaultSlots)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, defaultDrainTimeout)
	c.StopTimeout = cmp.Or(c.StopTimeout, defaultStopTimeout)
	c.Name = cmp.Or(c.Name, hostname(), "worker")
	c.Version = cmp.Or(c.Version, mainVersion())
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("worker: Config.%s: %w", field, fmt.Errorf(format, args...)))
	}
	if c.NATSURL == "" && c.URL == "" {
		bad("NATSURL", "neither NATSURL nor URL is set: one of them must say where the engines are")
	}
	if err := validURL(c.URL); err != nil {
		bad("URL", "%w", err)
	}
	for _, q := range c.Queues {
		if err := protocol.ValidToken(q); err != nil {
			bad("Queues", "%w", err)
		}
	}
	if c.Slots < 1 || c.Slots > maxSlots {
		bad("Slots", "%d is out of range: want 1 to %d", c.Slots, maxSlots)
	}
	if c.DrainTimeout < 0 {
		bad("DrainTimeout", "%v is negative", c.DrainTimeout)
	}
	if c.StopTimeout < 0 {
		bad("StopTimeout", "%v is negative", c.StopTimeout)
	}
	return errors.Join(errs...)
}

func validURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil {
		return err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q: want http://host or https://host", s)
	}
	return nil
}

// newWorkerID is unique per start, so that a restarted worker is not taken for the one before it.
func newWorkerID(name string) string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return name + "-" + hex.EncodeToString(b[:])
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return ""
	}
	return h
}

func mainVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}
