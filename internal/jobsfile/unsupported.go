package jobsfile

import "time"

// feature is a field that jobs files may have one day and that this version
// refuses by name.
type feature struct {
	message string
	hint    string
	unless  func(*node) bool // values that ask for nothing
}

// unsupported lists the fields of a job that this version does not have. A
// feature arrives by leaving the table.
var unsupported = map[string]feature{
	"http":        {message: "this version runs no http jobs", hint: "call the URL with a program such as curl in exec, or from a kind of your own"},
	"concurrency": {message: "this version does not limit how many runs are in hand at once", hint: "remove it; overlap keeps the instants of one job apart"},
	"exclude":     {message: "this version does not leave out the dates of calendars", hint: "remove it"},
	"alerts":      {message: "this version sends no alerts", hint: "remove it; watch the metrics of failed runs instead"},
	"jitter":      {message: "this version does not spread the instants of jobs", hint: "remove it", unless: zeroDuration},
}

// unsupportedInFile is the same for the fields beside jobs.
var unsupportedInFile = map[string]feature{
	"calendars": {message: "this version does not leave out the dates of calendars", hint: "remove it"},
	"channels":  {message: "this version sends no alerts", hint: "remove it"},
}

func zeroDuration(n *node) bool {
	d, err := time.ParseDuration(n.text)
	return err == nil && d == 0
}
