package jobsfile

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/executor"
)

var execFields = []string{"argv", "shell", "shell_path", "stdin", "env", "dir", "user"}

// target reads what runs: exec, or a kind of the user's. A job has precisely
// one of them.
func (o object) target(s *domain.JobSpec) {
	var given []string // in the order of the file
	for _, f := range o.n.fields {
		if name := f.name; (name == "exec" || name == "http" || name == "kind") && !slices.Contains(given, name) {
			given = append(given, name)
		}
	}
	switch {
	case len(given) == 0:
		o.report(o.at("exec"), o.n.line, "", "is missing: the job says nothing to run", "give exec, or the kind that a worker of yours declares")
	case len(given) > 1:
		last := given[len(given)-1]
		o.report(o.at(last), lineAt(o.n, last), "", strings.Join(given, " and ")+" exclude each other: a job runs one thing", "keep one")
	}
	if o.n.get("exec") != nil {
		s.Kind = domain.KindExec
		s.Target = o.exec()
		if s.Target == nil {
			o.bad[o.at("exec")] = true
		}
	}
	if len(given) != 1 {
		o.bad[o.at("exec")], o.bad[o.at("kind")] = true, true
	}
	if given := o.n.get("kind"); given != nil && s.Kind == "" {
		o.text("kind", &s.Kind)
		switch s.Kind {
		case domain.KindExec:
			o.report(o.at("kind"), lineAt(o.n, "kind"), s.Kind, "is built in and not declared by a worker of yours", "describe the command instead: exec: {argv: [program, argument]}")
			o.bad[o.at("exec")] = true
		case domain.KindHTTP:
			o.report(o.at("kind"), lineAt(o.n, "kind"), s.Kind, "is built in and not declared by a worker of yours", unsupported["http"].message+"; choose another name for yours")
			o.bad[o.at("http")] = true
		}
	}
	if s.Kind == "" {
		o.bad[o.at("kind")] = true
	}
}

// exec reads a command; nil if there is something wrong with it.
func (o object) exec() json.RawMessage {
	f, _ := o.find("exec")
	path := o.at("exec")
	if f.value.kind == text {
		o.report(path, f.line, f.value.text, "is text", "want exec: {shell: \"…\"} for a command line, or exec: {argv: [program, argument]}")
		return nil
	}
	before := len(o.r.problems) + o.r.more
	in, ok := o.r.newObject(path, f.value, o.bad, "a command", execFields, nil)
	if !ok {
		return nil
	}
	var t executor.Target
	t.Argv = in.texts("argv")
	in.text("shell", &t.Shell)
	in.text("shell_path", &t.ShellPath)
	in.text("stdin", &t.Stdin)
	t.Env = in.env()
	in.text("dir", &t.Dir)
	in.text("user", &t.User)
	for _, s := range []string{t.Shell, t.ShellPath, t.Stdin, t.Dir, t.User} {
		if !o.r.write(len(s), f.line) {
			return nil
		}
	}
	if len(o.r.problems)+o.r.more > before {
		return nil
	}
	var wrong *executor.FieldError
	switch err := t.Validate(); {
	case errors.As(err, &wrong):
		in.report(path+"."+wrong.Field, lineAt(f.value, wrong.Field), "", wrong.Message, "")
		return nil
	case err != nil:
		in.report(path, f.line, "", err.Error(), "")
		return nil
	}
	raw, err := json.Marshal(t)
	if err != nil {
		in.report(path, f.line, "", err.Error(), "")
		return nil
	}
	return raw
}

// env reads variables: text, or {from_env: NAME}.
func (o object) env() map[string]executor.EnvValue {
	f, ok := o.find("env")
	if !ok {
		return nil
	}
	in, ok := o.r.newObject(o.at("env"), f.value, o.bad, "a mapping of variables", nil, nil)
	if !ok {
		return nil
	}
	env := make(map[string]executor.EnvValue, len(in.n.fields))
	for _, v := range in.n.fields {
		if !o.r.write(len(v.name)+len(v.value.text), v.line) {
			return nil
		}
		switch v.value.kind {
		case text:
			env[v.name] = executor.Literal(v.value.text)
		case mapping:
			before := len(o.r.problems) + o.r.more
			from, _ := o.r.newObject(in.at(v.name), v.value, o.bad, "a variable", []string{"from_env"}, nil)
			var name string
			if from.text("from_env", &name); name == "" && len(o.r.problems)+o.r.more == before {
				from.report(from.at("from_env"), v.line, "", "names no variable", "want {from_env: NAME}")
			}
			env[v.name] = executor.FromEnv(name)
		default:
			in.wrong(in.at(v.name), v.line, v.value, "text, or {from_env: NAME}")
		}
	}
	return env
}
