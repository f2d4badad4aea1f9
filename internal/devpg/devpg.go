// Package devpg runs a private PostgreSQL server as a child process: no TCP
// port, no installation step beyond the server's binaries, no privilege.
//
// A server is reached through a unix socket in a directory that only its
// owner can enter, so it needs no password. It ends with the process that
// started it, however that process ends. One process at a time supervises a
// directory; a server left behind by a killed supervisor is stopped and its
// data taken over.
//
// Durable servers keep what they acknowledged (fsync and synchronous_commit
// are on). Ephemeral servers are for tests: fast, and worthless after a crash.
package devpg

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// MinMajor is the oldest PostgreSQL major version a server may have.
const MinMajor = 15

// Options describe a server. The zero value is a durable server in
// DefaultDir("daybook")/postgres, run from whatever binaries are found.
type Options struct {
	// Dir holds everything of the server: data-<major>, the socket, the lock,
	// the server's log. It is made if missing. Empty means
	// DefaultDir("daybook")/postgres, or for an ephemeral server a fresh
	// directory, in memory where there is room, removed when the server ends.
	Dir string

	// BinDir holds initdb and postgres. Empty means the newest suitable one
	// found (see FindBinDir), and where there is none, one is installed.
	BinDir string

	// Ephemeral trades durability for speed.
	Ephemeral bool

	// Settings are server settings (as in postgresql.conf) that override
	// those of the mode.
	Settings map[string]string

	// Log receives one line for each thing that takes a while or changes the
	// machine. Nothing is installed without it.
	Log io.Writer
}

// ErrUnsupported is returned where a private server cannot be run at all.
var ErrUnsupported = fmt.Errorf("a private PostgreSQL cannot be run on %s: set DATABASE_URL to a PostgreSQL %d or newer", runtime.GOOS, MinMajor)

// ErrNoBinaries is returned when there is no PostgreSQL to run and none could
// be installed. Its text names the ways out.
var ErrNoBinaries = errors.New(noBinariesText)

const noBinariesText = `no PostgreSQL server binaries (initdb and postgres, version 15 or newer) were found.
Any one of these helps:
  apt-get install postgresql            Debian, Ubuntu
  dnf install postgresql-server         Fedora, RHEL
  brew install postgresql@17            macOS
  PG_BINDIR=/path/to/bin                use the binaries in that directory
  DATABASE_URL=postgres://user@host/db  use a server that is running already`

// InUseError says that another process supervises the directory.
type InUseError struct {
	Dir string
	PID int // 0 if unknown
}

func (e *InUseError) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("the PostgreSQL directory %s is in use by %s: stop that one, or choose another directory", e.Dir, who)
}

// MajorError says that a directory holds data of a PostgreSQL major version
// other than that of the binaries. Starting would show an empty database.
type MajorError struct {
	Dir    string
	BinDir string
	Have   int // major version of the data
	Binary int // major version of the binaries
}

func (e *MajorError) Error() string {
	return fmt.Sprintf("%s holds data of PostgreSQL %d but the binaries in %s are version %d: "+
		"point PG_BINDIR at the binaries of version %d, or move the data aside to begin anew",
		filepath.Join(e.Dir, dataName(e.Have)), e.Have, e.BinDir, e.Binary, e.Have)
}

// DefaultDir is where app keeps what it must not lose: /var/lib/app for root,
// whose home other accounts cannot enter, else $XDG_DATA_HOME/app or
// ~/.local/share/app. A server's Options.Dir is usually a directory in it.
func DefaultDir(app string) string {
	if os.Geteuid() == 0 {
		return filepath.Join("/var/lib", app)
	}
	base := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return filepath.Join(os.TempDir(), fmt.Sprintf("%s-%d", app, os.Geteuid()))
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, app)
}

func dataName(major int) string { return fmt.Sprintf("data-%d", major) }

// say writes a line for a person.
func say(w io.Writer, format string, args ...any) {
	if w != nil {
		fmt.Fprintf(w, format+"\n", args...)
	}
}
