//go:build linux || darwin || freebsd

package devpg

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// chooseBinaries settles s.binDir and s.major. Data that is there already
// decides the major version; an empty database in place of someone's data,
// because the machine was upgraded, would be a nasty surprise.
func (s *Server) chooseBinaries(ctx context.Context) error {
	dirs := []string{s.opt.BinDir}
	if s.opt.BinDir == "" {
		var err error
		if dirs, err = findBinDirs(ctx, packagers()); err != nil {
			if os.Getenv("PG_BINDIR") != "" {
				return err
			}
			dir, err := install(ctx, s.opt.Log)
			if err != nil {
				return err
			}
			dirs = []string{dir}
		}
	} else if !hasServer(s.opt.BinDir) {
		return fmt.Errorf("%s holds no initdb and postgres", s.opt.BinDir)
	}
	have := clusterMajors(s.dir)
	var firstErr error
	for _, dir := range dirs {
		major, err := askMajor(ctx, dir)
		switch {
		case err != nil:
		case major < MinMajor:
			err = fmt.Errorf("PostgreSQL %d in %s is too old: version %d or newer is needed", major, dir, MinMajor)
		case len(have) > 0 && !slices.Contains(have, major):
			err = &MajorError{Dir: s.dir, BinDir: dir, Have: slices.Max(have), Binary: major}
		default:
			s.binDir, s.major = dir, major
			return nil
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	return firstErr
}

// clusterMajors lists the major versions of which dir holds data.
func clusterMajors(dir string) (majors []int) {
	files, _ := filepath.Glob(filepath.Join(dir, "data-*", "PG_VERSION"))
	for _, f := range files {
		name, _ := strings.CutPrefix(filepath.Base(filepath.Dir(f)), "data-")
		if n, err := strconv.Atoi(name); err == nil {
			majors = append(majors, n)
		}
	}
	return majors
}

// A new cluster takes 40 MB, and its first segments of write-ahead log as much again.
const clusterBytes = 200 << 20

// ensureCluster makes the data directory if there is none.
func (s *Server) ensureCluster(ctx context.Context) error {
	if b, err := os.ReadFile(filepath.Join(s.data(), "PG_VERSION")); err == nil {
		if v := strings.TrimSpace(string(b)); v != strconv.Itoa(s.major) {
			return fmt.Errorf("%s was made by PostgreSQL %s, as its PG_VERSION says: rename it to data-%s", s.data(), v, v)
		}
		return nil
	}
	if free, err := freeBytes(s.dir); err == nil && free < clusterBytes {
		return fmt.Errorf("the disk of %s has %d MB free, a new PostgreSQL needs %d MB: free some space, or choose another directory", s.dir, free>>20, clusterBytes>>20)
	}
	if !s.opt.Ephemeral {
		say(s.opt.Log, "creating a PostgreSQL %d database in %s", s.major, s.dir)
	}
	tmp := s.data() + newSuffix // renamed when whole: a half-made directory never looks ready
	if err := os.RemoveAll(tmp); err != nil {
		return explain(s.dir, err)
	}
	if err := s.makePrivate(tmp); err != nil {
		return explain(s.dir, err)
	}
	if err := s.initdb(ctx, tmp); err != nil {
		_ = os.RemoveAll(tmp)
		return err
	}
	return explain(s.dir, os.Rename(tmp, s.data()))
}

func (s *Server) initdb(ctx context.Context, dir string) error {
	args := []string{
		"-D", dir, "-U", "postgres", "--auth-local=trust", "--auth-host=reject",
		"-E", "UTF8", "--no-locale", "--no-instructions",
	}
	if s.opt.Ephemeral {
		args = append(args, "--no-sync", "--wal-segsize=1")
	}
	out, err := s.command(ctx, "initdb", args...).CombinedOutput()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("initdb in %s: %w\n%s", dir, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// settings returns the command-line settings of the server, in order.
func (s *Server) settings() []string {
	set := map[string]string{
		"listen_addresses":        "",
		"unix_socket_permissions": "0700",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_line_prefix":         "%m [%p] %u@%d ",
		"log_checkpoints":         "off",
		"jit":                     "off",
		"max_connections":         "200",
		"max_wal_size":            "2GB",
	}
	mode := map[string]string{ // stated even where it is the default: this is the promise
		"fsync":              "on",
		"synchronous_commit": "on",
		"full_page_writes":   "on",
		"shared_buffers":     "256MB",
		"checkpoint_timeout": "15min",
	}
	if s.opt.Ephemeral {
		mode = map[string]string{
			"fsync":              "off",
			"synchronous_commit": "off",
			"full_page_writes":   "off",
			"wal_level":          "minimal",
			"max_wal_senders":    "0",
			"autovacuum":         "off",
			"max_wal_size":       "256MB",
		}
	}
	for _, m := range []map[string]string{mode, s.opt.Settings} {
		maps.Copy(set, m)
	}
	args := make([]string, 0, 2*len(set))
	for _, k := range slices.Sorted(maps.Keys(set)) {
		args = append(args, "-c", k+"="+set[k])
	}
	return args
}
