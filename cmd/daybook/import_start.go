package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/client"
)

// importAtStart applies the file of `daybook dev --import`: a jobs file, or else
// a crontab.
func (a *app) importAtStart(ctx context.Context, file string, d devFile) error {
	jobs, err := isJobsFile(file)
	if err != nil {
		return err
	}
	quiet := &app{in: a.in, out: io.Discard, err: a.err, env: a.env, zone: a.zone}
	if jobs {
		definitions, err := quiet.readJobs([]string{file})
		if err != nil {
			return err
		}
		return a.withTarget(ctx, devTarget(d), func(ctx context.Context, c client.Client) error {
			plan, err := c.Apply(ctx, client.Change{Definitions: definitions, Reason: "dev --import " + file})
			if err == nil {
				fmt.Fprintf(a.err, "%s: %d created, %d updated, %d unchanged\n", file,
					plan.Count(client.ActionCreate), plan.Count(client.ActionUpdate), plan.Count(client.ActionUnchanged))
			}
			return err
		})
	}
	o := importOptions{apply: true, queue: domain.DefaultQueue}
	src, err := quiet.readCrontab(file, o)
	if err != nil {
		return err
	}
	src.say(a.err)
	return a.withTarget(ctx, devTarget(d), func(ctx context.Context, c client.Client) error {
		return quiet.importCrontab(ctx, c, asTable, src, o)
	})
}

// jobsKey is the beginning of a jobs file, which no crontab has: a line there
// is a comment, a variable or a schedule with a command.
var jobsKey = regexp.MustCompile(`(?m)^\s*(?:\{|---|"?(?:jobs|calendars|channels)"?\s*:)`)

// isJobsFile tells a jobs file from a crontab, by its name or its content.
func isJobsFile(name string) (bool, error) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true, nil
	case ".cron", ".crontab":
		return false, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return false, fileError(err)
	}
	defer func() { _ = f.Close() }()
	head, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return false, fileError(err)
	}
	for line := range bytes.Lines(head) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return jobsKey.Match(line), nil
		}
	}
	return false, nil
}
