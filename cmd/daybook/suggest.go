package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/client"
)

// noSuchJob adds names that may have been meant to the error that there is no
// job of this name. Other errors come back as they are.
func noSuchJob(ctx context.Context, c client.Jobs, name string, err error) error {
	refused, ok := errors.AsType[*domain.JobRefusal](err)
	if !errors.Is(err, eventstore.ErrNotFound) && (!ok || refused.Code != domain.JobUnknown) {
		return err
	}
	text := fmt.Sprintf("job %q does not exist", plain(name))
	if similar := similarJobs(ctx, c, name); len(similar) > 0 {
		text += ": did you mean " + strings.Join(similar, " or ") + "?"
	}
	return &exitError{code: exitNotFound, err: errors.New(text)}
}

// maxSuggestions is how many names are suggested, of the first so many jobs.
const (
	maxSuggestions = 3
	maxCandidates  = 10 * client.MaxJobs
)

func similarJobs(ctx context.Context, c client.Jobs, name string) []string {
	type candidate struct {
		name string
		far  int
	}
	var near []candidate
	name = strings.ToLower(name)
	limit := max(2, len(name)/3)
	var f client.JobFilter
	for range maxCandidates / client.MaxJobs {
		page, err := c.ListJobs(ctx, f)
		if err != nil {
			break
		}
		for _, j := range page.Jobs {
			far := distance(name, j.Name)
			if len(name) >= 3 && strings.Contains(j.Name, name) {
				far = min(far, 1)
			}
			if far <= limit {
				near = append(near, candidate{j.Name, far})
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.far, b.far) })
	names := make([]string, 0, maxSuggestions)
	for _, n := range near[:min(len(near), maxSuggestions)] {
		names = append(names, n.name)
	}
	return names
}

// distance counts the letters to insert, remove, replace or swap with their
// neighbour to make one word of the other.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// jobNames completes the name of a job.
func (a *app) jobNames(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || a.bind(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	err := a.with(cmd, func(ctx context.Context, c client.Client) error {
		page, err := c.ListJobs(ctx, client.JobFilter{})
		for _, j := range page.Jobs {
			if strings.HasPrefix(j.Name, prefix) {
				names = append(names, j.Name)
			}
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
