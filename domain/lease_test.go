package domain

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDefaultLeaseBudget(t *testing.T) {
	b := DefaultLeaseBudget()
	if err := b.Validate(); err != nil {
		t.Error(err)
	}
	terms := b.Publish + b.QueueWait + b.Redelivery() + b.Execution + b.Complete
	if lease := b.DispatchLease + b.ExecutionLease; terms != 85*time.Second || lease != 120*time.Second {
		t.Errorf("%s of terms under %s of lease, want 85 s under 120 s", terms, lease)
	}
}

func TestLeaseBudgetNamesWhatIsBroken(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*LeaseBudget)
		want []string // all of one line; empty: valid
	}{
		"dispatch lease at its terms": {func(b *LeaseBudget) { b.DispatchLease = 45 * time.Second },
			[]string{"dispatch_lease 45s", "publish 5s", "queue_wait 20s", "ack_wait 5s", "max_deliver 5", "= 45s"}},
		"dispatch lease just above":    {func(b *LeaseBudget) { b.DispatchLease = 45*time.Second + 1 }, nil},
		"queue wait too long":          {func(b *LeaseBudget) { b.QueueWait = time.Minute }, []string{"dispatch_lease 1m0s", "queue_wait 1m0s", "= 1m25s"}},
		"too many deliveries":          {func(b *LeaseBudget) { b.MaxDeliver = 8 }, []string{"dispatch_lease 1m0s", "max_deliver 8", "= 1m0s"}},
		"execution lease at its terms": {func(b *LeaseBudget) { b.ExecutionLease = 40 * time.Second }, []string{"execution_lease 40s", "execution 30s", "complete 10s", "= 40s"}},
		"execution lease just above":   {func(b *LeaseBudget) { b.ExecutionLease = 40*time.Second + 1 }, nil},
		"redelivery three times over": {func(b *LeaseBudget) { b.QueueWait, b.AckWait = time.Second, 10*time.Second },
			[]string{"dispatch_lease + execution_lease = 2m0s", "ack_wait 10s", "max_deliver 5", "× 3 = 2m0s"}},
		"one delivery":         {func(b *LeaseBudget) { b.MaxDeliver = 1 }, nil},
		"no delivery":          {func(b *LeaseBudget) { b.MaxDeliver = 0 }, []string{"max_deliver is 0"}},
		"no ack wait":          {func(b *LeaseBudget) { b.AckWait = 0 }, []string{"ack_wait is 0s"}},
		"negative publish":     {func(b *LeaseBudget) { b.Publish = -time.Second }, []string{"publish is -1s"}},
		"no queue wait":        {func(b *LeaseBudget) { b.QueueWait = 0 }, []string{"queue_wait is 0s"}},
		"no execution":         {func(b *LeaseBudget) { b.Execution = 0 }, []string{"execution is 0s"}},
		"no complete":          {func(b *LeaseBudget) { b.Complete = 0 }, []string{"complete is 0s"}},
		"no dispatch lease":    {func(b *LeaseBudget) { b.DispatchLease = 0 }, []string{"dispatch_lease is 0s"}},
		"no execution lease":   {func(b *LeaseBudget) { b.ExecutionLease = 0 }, []string{"execution_lease is 0s"}},
		"a product that wraps": {func(b *LeaseBudget) { b.MaxDeliver = 5_000_000_000 }, []string{"max_deliver is 5000000000"}},
		"a sum that wraps":     {func(b *LeaseBudget) { b.Publish, b.QueueWait = 1<<62, 1<<62 }, []string{"publish is", "must be at most 24h"}},
	} {
		b := DefaultLeaseBudget()
		c.edit(&b)
		err := b.Validate()
		if len(c.want) == 0 {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		found := false
		for line := range strings.Lines(err.Error()) {
			all := strings.HasPrefix(line, "lease budget: ")
			for _, w := range c.want {
				all = all && strings.Contains(line, w)
			}
			found = found || all
		}
		if !found {
			t.Errorf("%s: %v\nwant one line with %q", name, err, c.want)
		}
	}
	all := LeaseBudget{}.Validate()
	if n := strings.Count(all.Error(), "lease budget: "); n != 8 {
		t.Errorf("an empty budget: %d complaints, want one for each of 8 terms:\n%v", n, all)
	}
	b := DefaultLeaseBudget()
	b.DispatchLease, b.ExecutionLease = time.Second, time.Second
	if n := strings.Count(b.Validate().Error(), "must exceed"); n != 3 {
		t.Errorf("three broken relations: %v", b.Validate())
	}
}

// TestBrokenDefaultsDoNotCompile gives the compiler lease.go with other defaults.
func TestBrokenDefaultsDoNotCompile(t *testing.T) {
	src, err := os.ReadFile("lease.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		edits    []string // old, new, old, new
		overflow []string // names that the refused constant expressions hold; none: it compiles
	}{
		"as it is": {},
		"dispatch": {[]string{"DefaultDispatchLease  = 60 * time.Second", "DefaultDispatchLease  = 45 * time.Second"}, []string{"DefaultDispatchLease - ("}},
		"execution": {[]string{"DefaultExecutionLease = 60 * time.Second", "DefaultExecutionLease = 40 * time.Second"},
			[]string{"DefaultExecutionLease - ("}},
		"all terms": {[]string{"DefaultQueueWait      = 20 * time.Second", "DefaultQueueWait      = 35 * time.Second", "DefaultExecution      = 30 * time.Second", "DefaultExecution      = 50 * time.Second"},
			[]string{"DefaultDispatchLease - (", "DefaultExecutionLease - (", "DefaultDispatchLease + DefaultExecutionLease -\n"}},
		"redelivery": {[]string{"DefaultQueueWait      = 20 * time.Second", "DefaultQueueWait      = 1 * time.Second", "DefaultAckWait        = 5 * time.Second", "DefaultAckWait        = 10 * time.Second"},
			[]string{"DefaultDispatchLease + DefaultExecutionLease - DefaultAckWait"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := string(src)
			for i := 0; i < len(c.edits); i += 2 {
				if strings.Count(text, c.edits[i]) != 1 {
					t.Fatalf("lease.go does not hold %q", c.edits[i])
				}
				text = strings.Replace(text, c.edits[i], c.edits[i+1], 1)
			}
			out, err := compile(t, text)
			if len(c.overflow) == 0 {
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				return
			}
			if err == nil {
				t.Fatal("it compiles")
			}
			if n := strings.Count(out, "overflows"); n != len(c.overflow) {
				t.Errorf("%d overflows, want %d:\n%s", n, len(c.overflow), out)
			}
			lines := strings.Split(text, "\n")
			for _, part := range c.overflow {
				line := 1 + strings.Count(text[:strings.Index(text, "uint64("+part)], "\n")
				if !strings.Contains(out, fmt.Sprintf("lease.go:%d:", line)) {
					t.Errorf("no complaint about line %d, %s\n%s", line, lines[line-1], out)
				}
			}
		})
	}
}

func compile(t *testing.T, source string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module lease\n\ngo 1.26\n", "lease.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOPROXY=off", "GOTOOLCHAIN=local")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
