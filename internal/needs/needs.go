// Package needs is for tests that this machine may be unable to run. A test that
// is skipped proves nothing, so where everything is to be proved, which is what
// $DAYBOOK_CI says, it fails instead.
package needs

import (
	"os"
	"testing"
)

// CIVar says that nothing may be left out: .ci/run sets it.
const CIVar = "DAYBOOK_CI"

// That skips the test unless this machine has what it needs, and fails it where
// nothing may be left out.
func That(t testing.TB, has bool, format string, args ...any) {
	t.Helper()
	switch {
	case has:
	case os.Getenv(CIVar) != "":
		t.Fatalf("nothing may be left out here, and this "+format, args...)
	default:
		t.Skipf("not tested: this "+format, args...)
	}
}

// Root skips the test unless it runs as root. Where nothing may be left out,
// .ci/run runs it a second time, as root: its name must begin with TestRoot.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// Asked skips a long test that is run by its own target of make, a sample of
// which is always run. It returns what the variable says.
func Asked(t testing.TB, variable, how string) string {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		t.Skipf("%s; $%s asks for it", how, variable)
	}
	return value
}
