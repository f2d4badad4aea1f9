package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// clientCommands are the commands that ask a deployment.
func clientCommands(a *app) []*cobra.Command {
	return []*cobra.Command{newJob(a), newRun(a), newEvents(a), newImport(a), newQueue(a), newOutbox(a), newToken(a), newExplain(a), newAudit(a), newProjection(a), newRetention(a), newVersion(a)}
}

// group is a command that only has commands below it.
func group(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(below...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
	return cmd
}

func unknownCommand(cmd *cobra.Command, name string) error {
	hint := ""
	if similar := cmd.SuggestionsFor(name); len(similar) > 0 {
		hint = ": did you mean " + strings.Join(similar, " or ") + "?"
	}
	return usage("unknown command %q of '%s'%s\nSee '%s --help'", name, cmd.CommandPath(), hint, cmd.CommandPath())
}

// takes names the arguments that a command takes, all of them needed.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		want := "no arguments"
		if len(names) > 0 {
			want = strings.Join(names, " ")
		}
		return usage("'%s' takes %s, not %s\nSee '%s --help'", cmd.CommandPath(), want, count(len(args), "argument"), cmd.CommandPath())
	}
}

// count writes a number of things.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
