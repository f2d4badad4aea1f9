package bench

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Machine is what the figures were measured on.
type Machine struct {
	Processor  string `json:"processor"`
	Cores      int    `json:"cores"`
	Memory     int64  `json:"memory_bytes"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	PostgreSQL string `json:"postgresql"`
	NATS       string `json:"nats"`
}

// Line says it in one line.
func (m Machine) Line() string {
	return fmt.Sprintf("%d cores of %s, %.0f GB, %s; PostgreSQL %s, nats-server %s, %s",
		m.Cores, m.Processor, float64(m.Memory)/1e9, m.Kernel, m.PostgreSQL, m.NATS, m.Go)
}

// reported are the server's settings that a figure may depend on.
var reported = []string{"fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers", "max_wal_size", "checkpoint_timeout",
	"commit_delay", "autovacuum", "wal_compression"}

func describe(ctx context.Context, c *pgx.Conn) (Machine, map[string]string, error) {
	m := Machine{Processor: processorName(), Cores: runtime.NumCPU(), Memory: memoryBytes(), Kernel: kernel(), Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/nats-io/nats-server/v2" {
				m.NATS = strings.TrimPrefix(d.Version, "v")
			}
		}
	}
	settings := map[string]string{}
	rows, err := c.Query(ctx, "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY($1) OR name = 'server_version'", reported)
	if err != nil {
		return m, nil, fmt.Errorf("read the server's settings: %w", err)
	}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		if name == "server_version" {
			m.PostgreSQL = value
		} else {
			settings[name] = value
		}
		return nil
	})
	return m, settings, err
}
