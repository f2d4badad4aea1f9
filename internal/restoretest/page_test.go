//go:build linux

package restoretest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/daybookhq/daybook/internal/proctest"
)

func TestMain(m *testing.M) { proctest.Main(m) }

// page is docs/operations.md: its commands by name. The name stands behind the
// language of a block.
var page = sync.OnceValue(func() map[string]string {
	b, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		panic(err)
	}
	blocks := map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^```sh ([a-z-]+)\n(.*?)^```$").FindAllStringSubmatch(string(b), -1) {
		blocks[m[1]] = m[2]
	}
	return blocks
})

// exercised are the blocks that the tests of this package run.
var exercised = []string{"base-backup", "dump", "install", "look", "promote", "prove", "raise", "restore-dump", "restore-to-a-moment", "set-aside", "standby"}

func TestEveryCommandIsExercised(t *testing.T) {
	var names []string
	for name := range page() {
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, exercised) {
		t.Errorf("docs/operations.md has the blocks %v, tests run %v", names, exercised)
	}
	b, _ := os.ReadFile("../../docs/operations.md")
	if n := strings.Count(string(b), "```sh"); n != len(page()) {
		t.Errorf("%d blocks of commands, %d of them with a name of their own", n, len(page()))
	}
}

// shell runs a block of the page on behalf of the account that owns the
// directory: PostgreSQL's programs refuse root.
func (w *world) shell(owner, block string, env ...string) string {
	w.t.Helper()
	script, ok := page()[block]
	if !ok {
		w.t.Fatalf("docs/operations.md has no block %q", block)
	}
	out, err := w.try(owner, script, env...)
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", block, err, out)
	}
	w.t.Logf("%s:\n%s", block, out)
	return out
}

func (w *world) try(owner, script string, env ...string) (string, error) {
	cmd := exec.CommandContext(w.t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = w.dir
	cmd.Env = append(proctest.Environ(), "PATH="+filepath.Dir(proctest.Program(w.t))+":"+w.bin+":"+os.Getenv("PATH"), "HOME="+w.dir,
		"NATS_URL="+w.nats.URL(), "BACKUPS="+w.backups, "ARCHIVE="+w.archive)
	cmd.Env = append(cmd.Env, env...)
	fi, err := os.Stat(owner)
	if err != nil {
		return "", err
	}
	st := fi.Sys().(*syscall.Stat_t)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: st.Uid, Gid: st.Gid}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
