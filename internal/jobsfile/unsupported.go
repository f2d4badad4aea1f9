package jobsfile

// feature is a field that jobs files may have one day and that this version
// refuses by name.
type feature struct {
	message string
	hint    string
}

// unsupported lists the fields of a job that this version does not have. A
// feature arrives by leaving the table.
var unsupported = map[string]feature{
	"http":   {message: "this version runs no http jobs", hint: "call the URL with a program such as curl in exec, or from a kind of your own"},
	"alerts": {message: "this version sends no alerts", hint: "remove it; watch the metrics of failed runs instead"},
}

// unsupportedInFile is the same for the fields beside jobs.
var unsupportedInFile = map[string]feature{
	"channels": {message: "this version sends no alerts", hint: "remove it"},
}
