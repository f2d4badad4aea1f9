package devpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// cacheDir is where binaries are unpacked, "" if there is no safe place.
func cacheDir() string {
	if os.Geteuid() == 0 { // not under root's home, which no other account can enter
		return "/var/cache/daybook/postgres"
	}
	d, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(d, "daybook", "postgres")
}

// source is a way to get PostgreSQL's binaries.
type source struct {
	name     string // for messages
	announce string // what it changes on the machine
	possible func() bool
	fetch    func(ctx context.Context) (binDir string, err error)
}

func sources() []source {
	return []source{aptRoot, npmCache, aptCache}
}

// install gets PostgreSQL's binaries, telling log before it touches anything.
// It is refused by DAYBOOK_PG_INSTALL=never, and when nobody would be told.
func install(ctx context.Context, log io.Writer) (string, error) {
	switch v := os.Getenv("DAYBOOK_PG_INSTALL"); {
	case v == "never":
		return "", fmt.Errorf("%w\n(Installing is forbidden by DAYBOOK_PG_INSTALL=never.)", ErrNoBinaries)
	case v != "":
		return "", fmt.Errorf("DAYBOOK_PG_INSTALL=%s: the only value is \"never\"", v)
	case log == nil:
		return "", ErrNoBinaries
	}
	var tried []string
	for _, src := range sources() {
		if !src.possible() {
			continue
		}
		say(log, "no PostgreSQL found: %s (DAYBOOK_PG_INSTALL=never forbids this)", src.announce)
		dir, err := src.fetch(ctx)
		if err == nil {
			_, err = askMajor(ctx, dir)
		}
		if err == nil {
			say(log, "PostgreSQL is installed in %s", dir)
			return dir, nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		say(log, "%s failed: %v", src.name, err)
		tried = append(tried, src.name)
	}
	if len(tried) > 0 {
		return "", fmt.Errorf("%w\n(Tried to install it by %s.)", ErrNoBinaries, strings.Join(tried, ", "))
	}
	return "", ErrNoBinaries
}

func hasPrograms(names ...string) bool {
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			return false
		}
	}
	return true
}

// run runs a program without input, and gives what it said if it fails.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	var stdout, stderr strings.Builder
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		said := strings.TrimSpace(stderr.String())
		if len(said) > 500 {
			said = "…" + said[len(said)-500:]
		}
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, said)
	}
	return stdout.String(), nil
}

// intoCache runs fill on a fresh directory and gives it its name in the cache
// when it is whole. If another process was faster, its result is used.
func intoCache(name string, fill func(dir string) error) (string, error) {
	base := cacheDir()
	if base == "" {
		return "", errors.New("there is no cache directory: set HOME or XDG_CACHE_HOME")
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(base, "tmp-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := fill(tmp); err != nil {
		return "", err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", err
	}
	dir := filepath.Join(base, name)
	if err := os.Rename(tmp, dir); err != nil {
		if _, e := os.Stat(dir); e != nil {
			return "", err
		}
	}
	return dir, nil
}
