package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/daybookhq/daybook/internal/bench"
)

// onNode runs a peer that is a script in the directory node.
func onNode(script string) func(context.Context, board, int) (outcome, error) {
	return func(ctx context.Context, b board, jobs int) (o outcome, err error) {
		pool, err := fresh(ctx, b.dsn, "peers_"+script, 1)
		if err != nil {
			return o, err
		}
		defer pool.Close()
		cmd := exec.CommandContext(ctx, b.node, filepath.Join("node", script+".mjs"), pool.Config().ConnString(), strconv.Itoa(jobs))
		cmd.WaitDelay = 5 * time.Second
		var errs bytes.Buffer
		cmd.Stderr = &errs
		in, err := cmd.StdinPipe()
		if err != nil {
			return o, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return o, err
		}
		if err := cmd.Start(); err != nil {
			return o, err
		}
		var m *meter
		var clients time.Duration
		var first struct {
			Load    float64 `json:"load_per_second"`
			Version string
			PIDs    []int
		}
		for s := bufio.NewScanner(out); s.Scan() && err == nil; {
			var line struct{ At string }
			if err = json.Unmarshal(s.Bytes(), &line); err != nil {
				err = fmt.Errorf("it said %q: %w", s.Text(), err)
				break
			}
			switch line.At {
			case "begin":
				if err = json.Unmarshal(s.Bytes(), &first); err == nil {
					clients = nodeTime(first.PIDs)
					m, err = begin(ctx, pool)
				}
			case "end":
				spent := nodeTime(first.PIDs) - clients
				if o, err = m.done(ctx, jobs); err == nil {
					o.Clients, o.LoadPerSecond, o.Version = float64(spent.Microseconds())/float64(jobs), first.Load, first.Version
				}
			}
			_, _ = io.WriteString(in, "\n")
		}
		if e := cmd.Wait(); e != nil && err == nil {
			err = e
		}
		if err == nil && o.Jobs == 0 {
			err = fmt.Errorf("it did not say when it was done")
		}
		if err != nil {
			return o, fmt.Errorf("%s: %w\n%s", script, err, errs.String())
		}
		return o, nil
	}
}

func nodeTime(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		sum += bench.ProcessTime(pid)
	}
	return sum
}
