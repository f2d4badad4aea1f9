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
	change, err := a.readImport(file)
	if err != nil {
		return err
	}
	return withDatabase(ctx, devTarget(d).database, func(ctx context.Context, c *client.Database) error {
		plan, err := c.Apply(ctx, change)
		if err == nil {
			fmt.Fprintf(a.err, "%s: %s\n", file, summary(plan, true))
		}
		return err
	})
}

// readImport reads the file and judges it as a whole: the error tells what is
// wrong with it, before anything has been started for it.
func (a *app) readImport(file string) (client.Change, error) {
	jobs, err := isJobsFile(file)
	if err != nil {
		return client.Change{}, err
	}
	if jobs {
		definitions, err := a.readJobs([]string{file})
		return client.Change{Definitions: definitions, Reason: "imported from " + file}, err
	}
	src, err := a.readCrontab(file, importOptions{queue: domain.DefaultQueue})
	if err != nil {
		return client.Change{}, err
	}
	if bad := src.file.Errors(); bad > 0 {
		src.say(a.err)
		a.sayProblems(file, src.file.Problems)
		return client.Change{}, &exitError{code: exitUsage, err: fmt.Errorf(
			"%s: %s cannot be honoured: correct them, or start without --import and leave them out with 'daybook import crontab %s --apply --skip-bad'", file, count(bad, "line"), file)}
	}
	return src.change(), nil
}

// jobsKey is the beginning of a jobs file, which no crontab has: a line there
// is a comment, a variable or a schedule with a command.
var jobsKey = regexp.MustCompile(`^(?:\{|---|"?(?:jobs|calendars|channels)"?\s*:)`)

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
