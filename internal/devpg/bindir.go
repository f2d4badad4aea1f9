package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// packagers lists where initdb and postgres are put by those who package
// PostgreSQL, and by our own installation (the cache).
func packagers() []string {
	globs := []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // the PostgreSQL project's RPMs
		"/usr/lib*/postgresql*/bin", // SUSE, Gentoo
		"/usr/libexec/postgresql*",  // Alpine
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/opt/local/lib/postgresql*/bin", // MacPorts
		"/usr/local/pgsql/bin",           // built from source
	}
	if c := cacheDir(); c != "" {
		globs = append(globs, filepath.Join(c, "apt-*/usr/lib/postgresql/*/bin"), filepath.Join(c, "npm-*", npmBin))
	}
	return globs
}

// FindBinDir returns the directory of the PostgreSQL binaries that Start would
// use for a new directory: $PG_BINDIR, else what PATH leads to, else the
// newest in the places packagers use. It returns ErrNoBinaries if there are
// none; it installs nothing.
func FindBinDir() (string, error) {
	dirs, err := findBinDirs(context.Background(), packagers())
	if err != nil {
		return "", err
	}
	return dirs[0], nil
}

// findBinDirs returns every candidate, best first, never empty without error.
func findBinDirs(ctx context.Context, globs []string) ([]string, error) {
	if d := os.Getenv("PG_BINDIR"); d != "" {
		if !hasServer(d) {
			return nil, fmt.Errorf("PG_BINDIR=%s holds no initdb and postgres: it must be the bin directory of a PostgreSQL %d or newer", d, MinMajor)
		}
		return []string{d}, nil
	}
	var found []string
	add := func(d string) {
		if hasServer(d) && !slices.Contains(found, d) {
			found = append(found, d)
		}
	}
	if p, err := exec.LookPath("initdb"); err == nil {
		// A link in /usr/local/bin, say: the server finds its share directory
		// only from where it really stands.
		if p, err = filepath.EvalSymlinks(p); err == nil {
			add(filepath.Dir(p))
		}
	}
	var packaged []string
	for _, g := range globs {
		m, _ := filepath.Glob(g)
		packaged = append(packaged, m...)
	}
	slices.SortStableFunc(packaged, func(a, b string) int { return pathMajor(b) - pathMajor(a) })
	for _, d := range packaged {
		add(d)
	}
	// Last, because the client library's development files answer as well.
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		add(strings.TrimSpace(string(out)))
	}
	if len(found) == 0 {
		return nil, ErrNoBinaries
	}
	return found, nil
}

func hasServer(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil || fi.IsDir() || fi.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

var versionInPath = regexp.MustCompile(`(?:postgresql[@-]?|pgsql-|/|-)(\d{2})(?:[./]|$)`)

// pathMajor guesses the major version from a path, 0 if it shows none. It
// orders candidates only; what runs is asked for its version.
func pathMajor(dir string) int {
	m := versionInPath.FindAllStringSubmatch(dir, -1)
	if len(m) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(m[len(m)-1][1])
	return n
}

var versionOutput = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)`)

// parseMajor reads what "postgres --version" prints.
func parseMajor(out []byte) (int, error) {
	m := versionOutput.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("unexpected version line %q", strings.TrimSpace(string(out)))
	}
	return strconv.Atoi(string(m[1]))
}

// askMajor runs postgres --version; unlike a server, that is allowed to root.
func askMajor(ctx context.Context, binDir string) (int, error) {
	c := exec.CommandContext(ctx, filepath.Join(binDir, "postgres"), "--version")
	c.Env = childEnv(binDir)
	out, err := c.Output()
	if err != nil {
		return 0, fmt.Errorf("%s does not run: %w", c.Path, withStderr(err))
	}
	return parseMajor(out)
}

// childEnv is the environment for PostgreSQL's programs: ours without what
// would lead them elsewhere. Binaries unpacked beside their libraries find
// those there.
func childEnv(binDir string) []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "PG") })
	env = append(env, "LC_ALL=C", "TZ=UTC")
	if root, _, ok := strings.Cut(binDir, "/usr/lib/postgresql/"); ok && root != "" {
		libs, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*"))
		more, _ := filepath.Glob(filepath.Join(root, "lib/*-linux-gnu*"))
		if libs = append(libs, more...); len(libs) > 0 {
			env = append(env, "LD_LIBRARY_PATH="+strings.Join(libs, ":"))
		}
	}
	return env
}

// withStderr adds what the program said to the error it ended with.
func withStderr(err error) error {
	if e, ok := errors.AsType[*exec.ExitError](err); ok && len(e.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(e.Stderr)))
	}
	return err
}
