//go:build linux || darwin || freebsd

package devpg

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daybookhq/daybook/internal/needs"
)

func asNobody(t *testing.T) *syscall.SysProcAttr {
	t.Helper()
	needs.Root(t)
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

func TestRootAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	attr := asNobody(t)
	base := reachable(t)
	if err := os.Chown(base, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "pg")
	c := startChild(t, copyOfTest(t), "durable", dir, attr)
	pid, _ := c.ready(t)
	for _, d := range []string{dir, socketDir(dir)} {
		fi, err := os.Stat(d)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm() != 0o700 || ownerOf(fi) != 65534 {
			t.Errorf("%s: mode %v, owner %d", d, fi.Mode(), ownerOf(fi))
		}
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "the server has followed its supervisor", func() bool { return processGone(pid) })
}

func TestRootFindsReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	attr := asNobody(t)
	dir := reachable(t)
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, copyOfTest(t), "durable", dir, attr)
	if !c.out.Scan() {
		t.Fatal("the child said nothing")
	}
	for _, want := range []string{"error", dir, "cannot be written by uid 65534", "choose another directory"} {
		if !strings.Contains(c.out.Text(), want) {
			t.Errorf("%q lacks %q", c.out.Text(), want)
		}
	}
}

// Root's own directories are closed to every account that it could step down to.
func TestRootInUserNamespace(t *testing.T) {
	t.Parallel()
	needs.Root(t)
	base := reachable(t)
	if err := os.Chmod(base, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "pg")
	for range 2 { // made, and found again
		s, err := Start(t.Context(), Options{Dir: dir})
		if err != nil {
			needs.That(t, !strings.Contains(err.Error(), "of a user namespace: fork/exec"), "machine lets nobody have a user namespace: %v", err)
			t.Fatal(err)
		}
		if !s.id.namespace {
			t.Errorf("ran %v", s.id)
		}
		query(t, s, "SELECT 'alive'")
		fi, err := os.Stat(s.data())
		if err != nil {
			t.Fatal(err)
		}
		if ownerOf(fi) != 0 {
			t.Errorf("the data belongs to uid %d outside the namespace", ownerOf(fi))
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
