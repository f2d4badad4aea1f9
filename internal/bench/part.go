package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// part is a process of the measured system. It is told things over its standard
// input, which also ends it when this process is gone, and answers in lines of
// JSON.
type part struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte
	log   string
	done  chan struct{}
	err   error // set before done is closed
}

// launch starts this program again with other arguments.
func (l *lab) launch(name string, env []string, args ...string) (*part, error) {
	p := &part{name: name, log: filepath.Join(l.dir, name+".log"), lines: make(chan []byte, 64), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	if l.o.Profiles != "" {
		args = slices.Insert(args, 3, "--profile", filepath.Join(l.o.Profiles, name+".pprof"))
	}
	p.cmd = exec.Command(l.o.Exe, args...)
	p.cmd.Env, p.cmd.Stderr = append(environment(), env...), log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- []byte(s.Text())
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// environment is this process's without what would configure a daybook.
func environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "DAYBOOK_") && !strings.HasPrefix(v, "DATABASE_URL=") && !strings.HasPrefix(v, "NATS_") && !strings.HasPrefix(v, "PG") {
			env = append(env, v)
		}
	}
	return env
}

// tell sends a line.
func (p *part) tell(line string) error {
	_, err := io.WriteString(p.in, line+"\n")
	return err
}

// hear waits for a line and decodes it.
func (p *part) hear(ctx context.Context, into any) error {
	select {
	case b := <-p.lines:
		if err := json.Unmarshal(b, into); err != nil {
			return fmt.Errorf("the %s said %q: %w", p.name, b, err)
		}
		return nil
	case <-p.done:
		return p.failed()
	case <-ctx.Done():
		return fmt.Errorf("the %s says nothing: %w%s", p.name, context.Cause(ctx), p.tail())
	}
}

func (p *part) failed() error {
	return fmt.Errorf("the %s ended: %w%s", p.name, errors.Join(p.err), p.tail())
}

// tail is the end of what the process logged.
func (p *part) tail() string {
	b, _ := os.ReadFile(p.log)
	if len(b) > 2000 {
		b = b[len(b)-2000:]
	}
	if s := strings.TrimSpace(string(b)); s != "" {
		return "\n" + s
	}
	return ""
}

// stop asks the process to end, and kills it if it does not.
func (p *part) stop() {
	if p == nil {
		return
	}
	_ = p.in.Close()
	_ = p.cmd.Process.Signal(os.Interrupt)
	go func() {
		for range p.lines { // so that it can write what it has left
		}
	}()
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	close(p.lines)
}

func (p *part) pid() int { return p.cmd.Process.Pid }
