package eventstore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says how to reach the database.
type Config struct {
	DSN string // of the application's role

	// OpsConns serve the workers' calls, LoopConns everything else: a heartbeat
	// never waits behind a batch of claims. Zero means 8 and 12.
	OpsConns  int
	LoopConns int

	// Tracer is told of every statement; nil: nobody is.
	Tracer pgx.QueryTracer

	// Actor is recorded in events that no caller is named for.
	Actor string

	Logger *slog.Logger
}

// Store writes to the log and to the rows that live beside it. It is safe for
// concurrent use.
type Store struct {
	ops   *pgxpool.Pool
	loops *pgxpool.Pool
	specs *specCache
	shown decoded
	actor string
	log   *slog.Logger

	summarized atomic.Int64 // the last position when the index of positions was brought up to date

	sql     statements
	sorted  int                // sortedAtOnce, unless a test wants less
	pausing func(where string) // set by tests: called between a decision and its commit
}

// statements are those that fence. They are variables of the store only so that
// tests can take a guard away and see what notices.
type statements struct {
	lockClaims, lockExpired, updateClaims, deleteClaims string
	readClaimed, startClaims, closeStarted              string
}

var fenced = statements{lockClaims: lockClaims, lockExpired: lockExpired, updateClaims: updateClaims, deleteClaims: deleteClaims,
	readClaimed: readClaimed, startClaims: startClaims, closeStarted: closeStarted}

// Open connects, checks that the server is in the history the log was written
// in, and that the role's settings are as the statements need them.
func Open(ctx context.Context, c Config) (*Store, error) {
	s := &Store{specs: newSpecCache(), actor: c.Actor, log: c.Logger, sql: fenced, sorted: sortedAtOnce, pausing: func(string) {}}
	if s.actor == "" {
		s.actor = "engine"
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.ops, err = pool(ctx, c, "daybook ops", c.OpsConns, 8); err != nil {
		return nil, err
	}
	if s.loops, err = pool(ctx, c, "daybook loops", c.LoopConns, 12); err != nil {
		s.ops.Close()
		return nil, err
	}
	if err := s.checkSettings(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the connections.
func (s *Store) Close() {
	s.ops.Close()
	s.loops.Close()
}

// Pool is the pool for reads and for transactions of other packages that belong
// to the same database.
func (s *Store) Pool() *pgxpool.Pool { return s.loops }

// Ping reports whether the database answers and is in the right history.
func (s *Store) Ping(ctx context.Context) error {
	var era int
	return s.loops.QueryRow(ctx, "SELECT daybook_era()").Scan(&era)
}

// Now is the database's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := s.loops.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	return now.UTC(), err
}

func pool(ctx context.Context, config Config, name string, conns, standard int) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(config.DSN)
	if err != nil {
		return nil, fmt.Errorf("database connection string: %w", err)
	}
	if conns == 0 {
		conns = standard
	}
	c.MaxConns = int32(conns)
	c.MaxConnIdleTime = 5 * time.Minute
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = name
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	c.ConnConfig.Tracer = config.Tracer
	c.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		registerCodecs(c.TypeMap())
		return checkEra(ctx, c)
	}
	p, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", err)
	}
	return p, nil
}

// settings that the statements' plans rely on.
var settings = []struct{ name, want string }{
	{"enable_seqscan", "off"},
	{"jit", "off"},
	{"plan_cache_mode", "force_generic_plan"},
	{"synchronous_commit", "on"},
	{"default_transaction_isolation", "read committed"},
}

// SettingsError names the settings of the connecting role that differ.
type SettingsError struct {
	Role  string
	Wrong []string // "name: have x, want y"
}

func (e *SettingsError) Error() string {
	return fmt.Sprintf("settings of role %s differ (%s): ALTER ROLE %s SET … for each", e.Role, strings.Join(e.Wrong, "; "), e.Role)
}

func (s *Store) checkSettings(ctx context.Context) error {
	e := &SettingsError{}
	if err := s.loops.QueryRow(ctx, "SELECT current_user").Scan(&e.Role); err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	for _, set := range settings {
		var have string
		if err := s.loops.QueryRow(ctx, "SELECT current_setting($1)", set.name).Scan(&have); err != nil {
			return fmt.Errorf("read setting %s: %w", set.name, err)
		}
		if have != set.want && !(set.name == "synchronous_commit" && strongerCommit(have)) {
			e.Wrong = append(e.Wrong, fmt.Sprintf("%s: have %s, want %s", set.name, have, set.want))
		}
	}
	if len(e.Wrong) > 0 {
		return e
	}
	return nil
}

// strongerCommit reports a setting that waits for more than on does.
func strongerCommit(v string) bool { return v == "remote_apply" }

// checkEra runs on every new connection.
func checkEra(ctx context.Context, c *pgx.Conn) error {
	const q = `SELECT e.era, e.system_identifier, e.timeline, e.log, h.system_identifier, h.timeline, 'events'::regclass::oid
		FROM daybook_history() h, (SELECT * FROM eras ORDER BY era DESC LIMIT 1) e`
	var e EraMismatchError
	if err := c.QueryRow(ctx, q).Scan(&e.Era, &e.WantSystem, &e.WantTimeline, &e.WantLog, &e.HaveSystem, &e.HaveTimeline, &e.HaveLog); err != nil {
		if code := sqlState(err); code == "42883" || code == "42P01" || code == "42703" {
			return fmt.Errorf("the database has no Daybook schema, or one from before eras: run `daybook migrate up`: %w", err)
		}
		return fmt.Errorf("read the log's era: %w", err)
	}
	if e.WantSystem != e.HaveSystem || e.WantTimeline != e.HaveTimeline || e.WantLog != e.HaveLog {
		return &e
	}
	return nil
}

// RaiseEra begins a new era: the operator's word that the database, as restored
// or promoted, is the one to go on with. The connection may be any that can
// execute the function; it is not checked.
func RaiseEra(ctx context.Context, dsn, reason string) (era int, err error) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return 0, fmt.Errorf("connect to database: %w", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	if err := c.QueryRow(ctx, "SELECT daybook_raise_era($1)", reason).Scan(&era); err != nil {
		return 0, fmt.Errorf("raise era: %w", err)
	}
	return era, nil
}
