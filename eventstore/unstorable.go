package eventstore

import (
	"errors"
	"slices"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/domain/schedule"
)

// refuseResults replaces a success whose result cannot be stored by a failure
// that says so. What this does not find, the database refuses.
func refuseResults(commands []Command) []Command {
	var out []Command
	for i, c := range commands {
		done, ok := c.Do.(domain.SucceedRun)
		if !ok || c.Output == nil {
			continue
		}
		if err := domain.CheckStorable(c.Output.Result); err != nil {
			if out == nil {
				out = slices.Clone(commands)
			}
			out[i] = unstorable(c, done, err)
		}
	}
	if out == nil {
		return commands
	}
	return out
}

func unstorable(c Command, done domain.SucceedRun, why error) Command {
	output := *c.Output
	output.Result = nil
	c.Output = &output
	c.Do = domain.FailRun{ClaimID: done.ClaimID, Error: domain.RunError{Type: ErrorUnstorable, Message: "the result cannot be stored: " + why.Error()}}
	return c
}

// ErrorUnstorable is the type of the error recorded for a run whose result the
// database refuses.
const ErrorUnstorable = "unstorable_result"

func blamesRow(err error) bool {
	var illegal *domain.IllegalEventError
	var expression *schedule.Error
	var refused *domain.Refusal
	return isCulprit(err) || errors.Is(err, errLookAgain) || errors.Is(err, domain.ErrUndecodable) || errors.Is(err, errNoDefinition) || errors.Is(err, errInconsistent) || errors.As(err, &refused) || errors.Is(err, ErrVersionConflict) || errors.Is(err, domain.ErrUnknownEvent) || errors.As(err, &illegal) || errors.As(err, &expression)
}
