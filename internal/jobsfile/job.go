package jobsfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/domain/schedule"
)

var (
	fileFields  = []string{"jobs", "calendars"}
	retryFields = []string{"max_attempts", "initial", "max", "multiplier"}
	limitFields = []string{"key", "limit"}
	jobFields   = []string{
		"name", "schedule", "time_zone", "queue", "exec", "kind", "args", "timeout", "retry", "overlap", "concurrency", "misfire",
		"catchup_window", "max_catchup", "exclude", "jitter", "priority", "start_at", "end_at", "tags", "paused",
	}
	// scheduleFields mean nothing without a schedule.
	scheduleFields = []string{"time_zone", "overlap", "misfire", "catchup_window", "max_catchup", "exclude", "jitter", "start_at", "end_at"}
)

// file reads the whole of a jobs file.
func (r *reader) file(root *node) []Job {
	if root.kind == list {
		r.add(Problem{Line: root.line, Message: "the file is a list", Hint: "put the list under jobs:"})
		return nil
	}
	if root.kind == nothing {
		r.add(Problem{Message: "the file is empty", Hint: "want a list of jobs under jobs:"})
		return nil
	}
	if root.kind == mapping && root.get("jobs") == nil && root.get("name") != nil {
		r.add(Problem{Line: root.line, Message: "the file is a single job", Hint: "put it into a list under jobs:"})
		return nil
	}
	o, ok := r.newObject("", root, map[string]bool{}, "a jobs file", fileFields, unsupportedInFile)
	if !ok {
		return nil
	}
	calendars := r.calendars(o)
	f, ok := o.want("jobs", list, "a list of jobs")
	if !ok {
		if root.get("jobs") == nil {
			r.add(Problem{Line: root.line, Field: "jobs", Message: "is missing", Hint: "want a list of jobs"})
		}
		return nil
	}
	if n := len(f.value.items); n > MaxJobs {
		r.add(Problem{Line: f.line, Field: "jobs", Message: fmt.Sprintf("has %d jobs, at most %d are read", n, MaxJobs), Hint: "split the file into several"})
		return nil
	}
	jobs := make([]Job, 0, len(f.value.items))
	type place struct{ index, line int }
	names := map[string]place{}
	for i, item := range f.value.items {
		path := fmt.Sprintf("jobs[%d]", i)
		job := r.job(item, path, calendars)
		if name := job.Spec.Name; name != "" {
			if first, taken := names[name]; taken {
				r.add(Problem{Line: lineAt(item, "name"), Field: path + ".name", Value: name,
					Message: fmt.Sprintf("is the name of jobs[%d] on line %d too", first.index, first.line), Hint: "names are unique"})
			} else {
				names[name] = place{i, lineAt(item, "name")}
			}
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// job reads one definition, fills in the defaults and reports all that is wrong
// with it.
func (r *reader) job(n *node, path string, calendars map[string]calendar) Job {
	job := Job{Line: n.line, Spec: domain.JobSpec{
		TimeZone: domain.DefaultTimeZone, Queue: domain.DefaultQueue, Timeout: domain.DefaultTimeout, Retry: domain.DefaultRetry(),
		Overlap: domain.OverlapSkip, Misfire: domain.MisfireLatest, CatchupWindow: domain.DefaultCatchupWindow, MaxCatchup: domain.DefaultMaxCatchup,
		Priority: domain.DefaultPriority, Source: r.options.Source,
	}}
	o, ok := r.newObject(path, n, map[string]bool{}, "a job", jobFields, unsupported)
	if !ok {
		return job
	}
	s := &job.Spec
	if n.get("name") == nil {
		o.report(o.at("name"), n.line, "", "is missing", "every job has a name, by which it is known for ever")
	}
	o.text("name", &s.Name)
	s.Schedules = o.schedules()
	o.text("time_zone", &s.TimeZone)
	o.text("queue", &s.Queue)
	o.target(s)
	s.Args = o.args("args")
	o.duration("timeout", &s.Timeout)
	o.retry(&s.Retry)
	o.text("overlap", (*string)(&s.Overlap))
	s.Concurrency = o.concurrency()
	o.text("misfire", (*string)(&s.Misfire))
	o.duration("catchup_window", &s.CatchupWindow)
	o.integer("max_catchup", &s.MaxCatchup)
	o.exclude(s, calendars)
	o.duration("jitter", &s.Jitter)
	o.integer("priority", &s.Priority)
	s.StartAt, s.EndAt = o.instant("start_at"), o.instant("end_at")
	s.Tags = o.texts("tags")
	o.boolean("paused", &job.Paused)
	o.withoutSchedule()
	o.validate(*s)
	return job
}

// schedules reads one expression or a list of them.
func (o object) schedules() []string {
	f, ok := o.find("schedule")
	if !ok {
		return nil
	}
	switch {
	case f.value.kind == text:
		return []string{f.value.text}
	case f.value.kind != list:
		o.wrong(o.at("schedule"), f.line, f.value, "text such as \"30 2 * * *\", or a list of such")
	case len(f.value.items) == 0:
		o.report(o.at("schedule"), f.line, "", "is an empty list", "remove it for a job that runs on request only")
	default:
		return o.items("schedule", f.value)
	}
	return nil
}

func (o object) retry(p *domain.RetryPolicy) {
	f, ok := o.find("retry")
	if !ok {
		return
	}
	in, ok := o.r.newObject(o.at("retry"), f.value, o.bad, "a retry policy", retryFields, nil)
	if !ok {
		return
	}
	in.integer("max_attempts", &p.MaxAttempts)
	in.duration("initial", &p.Initial)
	in.duration("max", &p.Max)
	in.decimal("multiplier", &p.Multiplier)
	if longest := domain.DefaultRetry().Max; f.value.get("max") == nil && p.Initial > longest {
		in.report(in.at("max"), lineAt(f.value, "initial"), "", fmt.Sprintf("is %s unless given, which is less than initial, %s", longest, p.Initial), "give max as well")
	}
}

func (o object) concurrency() *domain.Concurrency {
	f, ok := o.find("concurrency")
	if !ok {
		return nil
	}
	in, ok := o.r.newObject(o.at("concurrency"), f.value, o.bad, "a limit", limitFields, nil)
	if !ok {
		return nil
	}
	var c domain.Concurrency
	in.text("key", &c.Key)
	if in.n.get("limit") == nil {
		in.report(in.at("limit"), f.line, "", "is missing", "it is how many runs may be in hand at once")
	}
	in.integer("limit", &c.Limit)
	return &c
}

// withoutSchedule reports fields that ask for something of instants which the
// job does not have.
func (o object) withoutSchedule() {
	if o.n.get("schedule") != nil {
		return
	}
	for _, name := range scheduleFields {
		if f, ok := o.find(name); ok {
			o.report(o.at(name), f.line, f.value.shown(), "means nothing without a schedule", "add one or remove this")
		}
	}
}

// validate reports what the rules of definitions find, unless the field has a
// problem already.
func (o object) validate(s domain.JobSpec) {
	for _, e := range s.Validate() {
		path := e.Field
		if o.path != "" {
			path = o.path + "." + e.Field
		}
		if o.isBad(path) {
			continue
		}
		o.bad[path] = true
		o.r.add(Problem{Line: lineAt(o.n, e.Field), Field: path, Value: e.Value, Code: e.Code, Message: e.Message, Hint: e.Hint})
	}
}

// isBad reports whether the field, or what it lies in, has a problem already.
func (o object) isBad(path string) bool {
	for {
		if o.bad[path] {
			return true
		}
		i := strings.LastIndexAny(path, ".[")
		if i <= len(o.path) {
			return false
		}
		path = path[:i]
	}
}

// lineAt is the line of a field such as retry.max or schedule[1], or of what is
// nearest to it.
func lineAt(n *node, path string) int {
	line := n.line
	for path != "" {
		if rest, ok := strings.CutPrefix(path, "["); ok {
			index, after, _ := strings.Cut(rest, "]")
			i, err := strconv.Atoi(index)
			if err != nil || i >= len(n.items) {
				return line
			}
			n, path = n.items[i], strings.TrimPrefix(after, ".")
			line = n.line
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		i := slices.IndexFunc(n.fields, func(f field) bool { return f.name == path[:end] })
		if i < 0 {
			return line
		}
		line = n.fields[i].line
		n, path = n.fields[i].value, strings.TrimPrefix(path[end:], ".")
	}
	return line
}

// calendar is a list of dates that jobs may leave out.
type calendar []string

// calendars reads those of the file, by name.
func (r *reader) calendars(o object) map[string]calendar {
	f, ok := o.find("calendars")
	if !ok {
		return nil
	}
	in, ok := r.newObject("calendars", f.value, o.bad, "lists of dates by name", nil, nil)
	if !ok {
		return nil
	}
	all := map[string]calendar{}
	for _, f := range in.n.fields {
		if !domain.ValidName(f.name) {
			in.report(in.at(f.name), f.line, "", "is no name", "use a-z, 0-9, - and _, at most 64, beginning with a letter or digit")
			continue
		}
		days := in.texts(f.name)
		for i, day := range days {
			if _, err := schedule.ParseDate(day); err != nil {
				in.report(fmt.Sprintf("%s[%d]", in.at(f.name), i), lineAt(in.n, fmt.Sprintf("%s[%d]", f.name, i)), day, "is no date", "write it as 2026-12-25")
			}
		}
		all[f.name] = days
	}
	return all
}

// exclude reads names of calendars and single dates.
func (o object) exclude(s *domain.JobSpec, calendars map[string]calendar) {
	for i, entry := range o.texts("exclude") {
		path := fmt.Sprintf("%s[%d]", o.at("exclude"), i)
		days, known := calendars[entry]
		_, err := schedule.ParseDate(entry)
		switch {
		case known:
			s.Calendars = append(s.Calendars, entry)
			if !o.r.write(len(days)*len("2026-12-25"), o.n.line) {
				return
			}
			s.Exclude = append(s.Exclude, days...)
		case err == nil:
			s.Exclude = append(s.Exclude, entry)
		default:
			o.report(path, lineAt(o.n, fmt.Sprintf("exclude[%d]", i)), entry, "is neither a calendar of this file nor a date", "define it under calendars: at the top of the file")
		}
	}
	slices.Sort(s.Exclude)
	s.Exclude = slices.Compact(s.Exclude)
}
