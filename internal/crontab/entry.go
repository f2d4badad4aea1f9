package crontab

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/daybookhq/daybook/domain/schedule"
	"github.com/daybookhq/daybook/internal/executor"
)

// Entry is one command with its schedule.
type Entry struct {
	Line int `json:"line"` // from 1
	// Name is the name of the job. It stays the same while file, user and command do, whatever happens to the
	// schedule; among lines with the same command it also depends on their order.
	Name    string `json:"name"`
	Expr    string `json:"expr"` // five fields with single blanks, or a macro
	Zone    string `json:"zone,omitempty"`
	Command string `json:"command"`         // for SHELL -c
	Stdin   string `json:"stdin,omitempty"` // what followed the first %
	// Env is what the file has set above the line. Entries share it: it must not be changed.
	Env     map[string]string `json:"env,omitempty"`
	User    string            `json:"user,omitempty"`    // system format only
	Comment string            `json:"comment,omitempty"` // the comment directly above
}

// Target is the entry as the exec executor takes it: what the file does not say is left to the worker, where cron
// would take it from the account of the user.
func (e Entry) Target() executor.Target {
	t := e.bare()
	for name, value := range e.Env {
		if name == "SHELL" {
			continue
		}
		if t.Env == nil {
			t.Env = make(map[string]executor.EnvValue, len(e.Env))
		}
		t.Env[name] = executor.Literal(value)
	}
	return t
}

// bare is the target without the variables, which were judged where they were set.
func (e Entry) bare() executor.Target {
	return executor.Target{Shell: e.Command, ShellPath: e.Env["SHELL"], Stdin: e.Stdin, Dir: e.Env["HOME"], User: e.User}
}

func (p *parser) entry(l line) {
	expr, rest, err := timing(l.text)
	if err != nil {
		p.problem(l, Error, "%v", err)
		return
	}
	e := Entry{Line: l.number, Expr: expr, Zone: p.zone, Env: p.env.snapshot(), Comment: strings.Join(p.comment, "\n")}
	if err := sixFields(expr, rest); err != nil {
		p.problem(l, Error, "%v", err)
		return
	}
	if p.opt.System {
		if e.User, rest, err = userColumn(rest); err != nil {
			p.problem(l, Error, "%v", err)
			return
		}
	}
	if rest == "" {
		p.problem(l, Error, "there is no command behind the schedule; is a field missing?")
		return
	}
	if expr == "@reboot" {
		p.problem(l, Skipped, "@reboot: a scheduler of many machines has no start of one to wait for; leave this line to cron or make it a service")
		return
	}
	e.Command, e.Stdin = percent(rest)
	// Named before it is judged, so that a bad line which is put right later does not rename its twins.
	e.Name = p.names.name(e.User, rest, e.Command)
	if strings.TrimSpace(e.Command) == "" {
		p.problem(l, Error, "there is no command before the %%")
		return
	}
	if err := p.check(e.Expr); err != nil {
		p.problem(l, Error, "%v", err)
		return
	}
	if err := e.bare().Validate(); err != nil {
		p.problem(l, Error, "%v", inCronsWords(err))
		return
	}
	p.doubts(l, e, rest)
	p.file.Entries = append(p.file.Entries, e)
}

// timing splits off the schedule.
func timing(s string) (expr, rest string, err error) {
	s = strings.TrimPrefix(s, "-")
	if strings.HasPrefix(s, "@") {
		expr, rest = word(s)
		if !macros[expr] {
			return "", "", unknownMacro(expr)
		}
		return expr, rest, nil
	}
	fields := make([]string, 0, 5)
	for rest = s; len(fields) < 5 && rest != ""; {
		var f string
		f, rest = word(rest)
		fields = append(fields, f)
	}
	if len(fields) < 5 {
		return "", "", fmt.Errorf("neither a variable (NAME=value) nor five time fields and a command")
	}
	return strings.Join(fields, " "), rest, nil
}

// word splits off the first word and the blanks behind it.
func word(s string) (first, rest string) {
	i := strings.IndexAny(s, " \t")
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeft(s[i:], " \t")
}

var macros = map[string]bool{
	"@reboot": true, "@yearly": true, "@annually": true, "@monthly": true,
	"@weekly": true, "@daily": true, "@midnight": true, "@hourly": true,
}

func unknownMacro(m string) error {
	if low := strings.ToLower(m); macros[low] {
		return fmt.Errorf("%s is written %s", printable(m), low)
	}
	if m == "@every" || m == "@at" {
		return fmt.Errorf("%s does not exist in a crontab; a jobs file has it", m)
	}
	return fmt.Errorf("%s is none of @reboot, @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly", printable(m))
}

var timeField = regexp.MustCompile(`^(?:[0-9,/?-]*[0-9*?][0-9*,/?-]*|(?:` + dayOrMonth + `)(?:[,-](?:` + dayOrMonth + `))*)$`)

const dayOrMonth = `SUN|MON|TUE|WED|THU|FRI|SAT|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC`

// sixFields refuses a command or user that is a sixth time field. Run as written it would hand a * to the shell, which makes it
// the names of all files.
func sixFields(expr, rest string) error {
	sixth, _ := word(rest)
	if expr[0] == '@' || !timeField.MatchString(sixth) {
		return nil
	}
	_, without, _ := strings.Cut(expr, " ")
	without += " " + sixth
	hint := ""
	if _, err := schedule.Parse(without, schedule.Options{}); err == nil {
		hint = fmt.Sprintf(". Did you mean %s?", without)
	}
	return fmt.Errorf("six time fields: cron has no field for seconds or years%s", hint)
}

var userName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.@-]*\$?$`)

func userColumn(s string) (user, rest string, err error) {
	user, rest = word(s)
	switch {
	case user == "":
		return "", "", errors.New("there is neither a user nor a command")
	case userName.MatchString(user):
		return user, rest, nil
	case strings.ContainsAny(user, ":") || strings.Count(user, "/") == 1 && user[0] != '/':
		return "", "", fmt.Errorf("user %s: a group or login class beside the user cannot be honoured", printable(user))
	}
	return "", "", fmt.Errorf("%s cannot be a user: in the system format a user stands between the schedule and the command. Is this a user's crontab?", printable(user))
}

// percent applies cron's rule for %. Its two halves differ in one detail, and so do they here: of \\% the command keeps both
// backslashes and ends, while in the input the second backslash takes the % with it.
func percent(s string) (command, stdin string) {
	var b strings.Builder
	i := 0
	for ; i < len(s) && s[i] != '%'; i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			if s[i] != '%' {
				b.WriteByte('\\')
			}
		}
		b.WriteByte(s[i])
	}
	if i >= len(s)-1 { // no %, or nothing behind it
		return b.String(), ""
	}
	input := strings.NewReplacer(`\%`, "%", "%", "\n").Replace(s[i+1:])
	if !strings.HasSuffix(input, "\n") {
		input += "\n"
	}
	return b.String(), input
}

// check is what a schedule was judged by: large files repeat few schedules.
type check struct{ expr, zone string }

func (p *parser) check(expr string) error {
	k := check{expr, p.zone}
	err, known := p.checked[k]
	if !known {
		_, err = schedule.Parse(expr, schedule.Options{Zone: p.zone})
		if se, ok := errors.AsType[*schedule.Error](err); ok && se.Code == schedule.CodeZone && p.zoneSet > 0 {
			err = fmt.Errorf("CRON_TZ of line %d: %w", p.zoneSet, err)
		}
		p.checked[k] = err
	}
	return err
}

// inCronsWords names a part of the target as the crontab does.
func inCronsWords(err error) error {
	fe, ok := errors.AsType[*executor.FieldError](err)
	if !ok {
		return err
	}
	names := map[string]string{"shell_path": "SHELL", "dir": "HOME", "shell": "command", "stdin": "input"}
	return fmt.Errorf("%s: %s", cmp.Or(names[fe.Field], strings.TrimPrefix(fe.Field, "env.")), fe.Message)
}

var (
	dateFormat   = regexp.MustCompile(`\bdate\s[^;|&)]*\+\S*$`)
	steppedValue = regexp.MustCompile(`(?:^|[ ,])([0-9A-Za-z]+/[0-9]+)`)
)

// doubts warns where a line is taken over as cron has it and is yet likely not meant that way. text is the command with
// its input, as written.
func (p *parser) doubts(l line, e Entry, text string) {
	cut := e.Stdin != "" || strings.HasSuffix(text, "%")
	if cut && (unfinished(e.Command) || dateFormat.MatchString(e.Command)) {
		p.problem(l, Warning, "the command ends at the first %%, apparently in the middle, and the rest is its input; write \\%% for a plain %%")
	}
	if m := steppedValue.FindStringSubmatch(e.Expr); m != nil {
		from, step, _ := strings.Cut(m[1], "/")
		p.problem(l, Warning, "%s is read as every %s from %s to the end; some crons refuse it and others ignore the step", m[1], step, from)
	}
	if strings.HasSuffix(strings.TrimRight(text, " \t"), `\`) {
		p.problem(l, Warning, "the line ends in a backslash, which does not continue it on the next one")
	}
	if first, _ := word(e.Command); !p.opt.System && first == "root" {
		p.problem(l, Warning, `the command is "root"; if this is a user column, read the file in the system format`)
	}
}

// unfinished reports whether a shell would miss the end of a quotation or of a command substitution. It is a guess for a
// warning: it does not know here-documents and the like.
func unfinished(command string) bool {
	var single, double, backtick bool
	depth := 0
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case single:
			single = c != '\''
		case c == '\\':
			i++
		case c == '\'' && !double:
			single = true
		case c == '"':
			double = !double
		case c == '`':
			backtick = !backtick
		case strings.HasPrefix(command[i:], "$("):
			depth++
			i++
		case c == ')' && depth > 0:
			depth--
		}
	}
	return single || double || backtick || depth > 0
}
