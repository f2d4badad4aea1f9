//go:build unix

package executor

import (
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/internal/needs"
)

func TestAnotherUserNeedsRoot(t *testing.T) {
	_, err := user.Lookup("root")
	needs.That(t, err == nil, "machine knows no root: %v", err)
	_, e := identify("root", 1000)
	if e == nil || e.Type != TypeUser || e.Verdict != Fatal || e.Message != "cannot run as user root: this worker runs as uid 1000" {
		t.Fatalf("error %v", e)
	}
	if who, e := identify("root", 0); e != nil || who.cred != nil {
		t.Fatalf("root as root: %+v, %v", who, e)
	}
}

func TestCredentialHoldsTheUsersGroupsAndNoOthers(t *testing.T) {
	u, err := user.Lookup("nobody")
	needs.That(t, err == nil, "machine knows no nobody: %v", err)
	ids, err := u.GroupIds()
	needs.That(t, err == nil, "machine does not tell groups: %v", err)
	who, e := identify("nobody", 0)
	if e != nil {
		t.Fatal(e)
	}
	var got []string
	for _, g := range who.cred.Groups {
		got = append(got, strconv.Itoa(int(g)))
	}
	if strconv.Itoa(int(who.cred.Uid)) != u.Uid || strconv.Itoa(int(who.cred.Gid)) != u.Gid || !slices.Equal(got, ids) || who.cred.NoSetGroups {
		t.Fatalf("credential %+v, want uid %s, gid %s, groups %v", who.cred, u.Uid, u.Gid, ids)
	}
}

func TestUnknownUserIsRefused(t *testing.T) {
	r := Run(t.Context(), Target{Shell: "id", User: "no-such-user-here"}, Options{})
	wantError(t, r, TypeUser, Fatal)
	if r.Err.Message != "cannot run as user no-such-user-here: this machine has no such account" || r.Output.TotalBytes != 0 {
		t.Fatalf("error %q, output %q", r.Err, r.Output)
	}
}

func TestRootRunsAsAnotherUser(t *testing.T) {
	needs.Root(t)
	u, err := user.Lookup("nobody")
	needs.That(t, err == nil, "machine knows no nobody: %v", err)
	r := Run(t.Context(), Target{Shell: "id -u; id -g; id -Gn | grep -cw root; echo $LOGNAME $USER $HOME", User: "nobody"}, Options{})
	// The home of nobody may or may not exist; the environment names it either way.
	want := strings.Join([]string{u.Uid, u.Gid, "0", "nobody nobody " + u.HomeDir}, "\n") + "\n"
	wantOutput(t, r, want)

	r = Run(t.Context(), Target{Argv: []string{"./x"}, Dir: privateScript(t), User: "nobody"}, Options{})
	wantError(t, r, TypeCommandNotFound, Fatal)
	if !strings.HasSuffix(r.Err.Message, "as user nobody: permission denied") {
		t.Fatalf("message %q", r.Err.Message)
	}
}

func privateScript(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/x", []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}
