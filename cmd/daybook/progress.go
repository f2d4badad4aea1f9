package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress tells on stderr how far a long command is: on a terminal in one line
// that is written over, elsewhere a line every two seconds.
type progress struct {
	to       io.Writer
	terminal bool
	last     time.Time
	shown    bool
}

func (a *app) progress() *progress {
	f, ok := a.err.(*os.File)
	return &progress{to: a.err, terminal: ok && term.IsTerminal(int(f.Fd())), last: time.Now()}
}

func (p *progress) say(format string, args ...any) {
	every := 2 * time.Second
	if p.terminal {
		every = 100 * time.Millisecond
	}
	if time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	if !p.terminal {
		fmt.Fprintf(p.to, format+"\n", args...)
		return
	}
	p.shown = true
	fmt.Fprintf(p.to, "\r\x1b[K"+format, args...)
}

// done takes the line away.
func (p *progress) done() {
	if p.shown {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
