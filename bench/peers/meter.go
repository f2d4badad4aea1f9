package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookhq/daybook/internal/bench"
)

// fresh makes a database for a peer and gives a pool of so many connections to it.
func fresh(ctx context.Context, dsn, name string, conns int) (*pgxpool.Pool, error) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close(ctx) }()
	for _, s := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "CREATE DATABASE " + name, "CHECKPOINT"} {
		if _, err := c.Exec(ctx, s); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return nil, err
	}
	u.Path = "/" + name
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = int32(conns), int32(conns)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return pool, pool.Ping(ctx)
}

// meter measures this process and the database from its making to done.
type meter struct {
	pool       *pgxpool.Pool
	postmaster int
	began      time.Time
	database   time.Duration
	self       time.Duration
	wal        int64
}

func begin(ctx context.Context, pool *pgxpool.Pool) (*meter, error) {
	m := &meter{pool: pool}
	c, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	m.postmaster = bench.Postmaster(ctx, c.Conn())
	c.Release()
	if m.wal, err = m.position(ctx); err != nil {
		return nil, err
	}
	m.database, m.self, m.began = bench.ServerTime(m.postmaster), bench.ProcessTime(os.Getpid()), time.Now()
	return m, nil
}

func (m *meter) position(ctx context.Context) (n int64, err error) {
	err = m.pool.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&n)
	return n, err
}

func (m *meter) done(ctx context.Context, jobs int) (outcome, error) {
	took := time.Since(m.began)
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(jobs) }
	o := outcome{Jobs: jobs, Seconds: took.Seconds(), JobsPerSecond: float64(jobs) / took.Seconds(),
		Database: per(bench.ServerTime(m.postmaster) - m.database), Clients: per(bench.ProcessTime(os.Getpid()) - m.self)}
	wal, err := m.position(ctx)
	o.WAL = (wal - m.wal) / int64(jobs)
	return o, err
}

// versionOf is the version of a module that this program is built with.
func versionOf(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == path {
				return d.Version
			}
		}
	}
	return ""
}
