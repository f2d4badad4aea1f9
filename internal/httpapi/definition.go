package httpapi

import "github.com/danielgtaylor/huma/v2"

// definitionFields are the fields of a definition as the jobs file has them.
func definitionFields() map[string]*huma.Schema {
	text := func(doc string, examples ...any) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Description: doc, Examples: examples}
	}
	number := func(doc string) *huma.Schema { return &huma.Schema{Type: huma.TypeInteger, Description: doc} }
	list := func(of *huma.Schema, doc string) *huma.Schema {
		return &huma.Schema{Type: huma.TypeArray, Items: of, Description: doc}
	}
	object := func(doc string, p map[string]*huma.Schema) *huma.Schema {
		return &huma.Schema{Type: huma.TypeObject, Description: doc, Properties: p, AdditionalProperties: false}
	}
	choice := func(doc string, of ...any) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, Enum: of, Description: doc}
	}
	return map[string]*huma.Schema{
		"name": text("Up to 64 of a-z, 0-9, - and _, beginning with a letter or digit", "nightly-report"),
		"schedule": {OneOf: []*huma.Schema{text("One expression", "30 2 * * *"), list(text("An expression"), "Several")},
			Description: "Cron, @daily and the like, \"@every 90m\" or \"@at 2027-01-01T00:00:00Z\"; absent: on request only"},
		"time_zone": text("IANA name", "America/New_York"),
		"queue":     text("Where its runs wait for workers"),
		"exec": object("A command for a worker that may execute some", map[string]*huma.Schema{
			"argv": list(text("An argument"), "The program and its arguments; no shell"),
			"env":  {Type: huma.TypeObject, Description: "Variables: text, or {from_env: NAME} of the worker's", AdditionalProperties: true},
		}),
		"kind":    text("What a worker of yours declares"),
		"args":    {Description: "Arguments of its runs, any JSON"},
		"timeout": text("Of an attempt; 0s: none", "10m"),
		"retry": object("What follows a failed attempt", map[string]*huma.Schema{
			"max_attempts": number("1: no retry"), "initial": text("First pause", "10s"), "max": text("Longest pause", "1h"),
			"multiplier": {Type: huma.TypeNumber, Description: "Of each further pause, from 1"},
		}),
		"overlap": choice("What happens to an instant while an earlier run is not finished", "skip", "queue", "replace", "allow"),
		"concurrency": object("How many runs may be in hand at once", map[string]*huma.Schema{
			"key": text("An argument: the limit holds for each of its values"), "limit": number("From 1"),
		}),
		"misfire":        choice("What happens to missed instants", "latest", "skip", "all"),
		"catchup_window": text("Instants missed by more do not run; 0s: no limit", "24h"),
		"max_catchup":    number("Missed instants made up for at most; 0: no limit"),
		"exclude":        list(text("A date", "2026-12-25"), "Dates in the job's zone on which nothing fires"),
		"jitter":         text("Runs come due less than this after their instants", "30s"),
		"priority":       number("0 first … 9 last"),
		"start_at":       {Type: huma.TypeString, Format: "date-time", Description: "No instant before"},
		"end_at":         {Type: huma.TypeString, Format: "date-time", Description: "No instant at or after"},
		"tags":           list(text("A tag"), "Up to 32"),
		"paused":         {Type: huma.TypeBoolean, Description: "Whether it starts paused when it is made"},
	}
}
