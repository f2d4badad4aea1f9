package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxArgument is what Linux accepts as one argument or one environment string, less its terminating NUL.
const maxArgument = 128<<10 - 1

// reservedPrefix marks the variables that describe the run. They belong to Daybook in both directions: a target
// may not set one, nor read one from the worker, whose own credentials carry it.
const reservedPrefix = "DAYBOOK_"

// Target is what to run. Precisely one of Argv and Shell is given.
type Target struct {
	// Argv is a program and its arguments, run without a shell. A program without a slash is looked for in
	// the target's PATH; a relative one with a slash starts at the working directory.
	Argv []string `json:"argv,omitempty"`
	// Shell is a command line for ShellPath -c.
	Shell string `json:"shell,omitempty"`
	// ShellPath is the shell of a Shell target; empty means /bin/sh.
	ShellPath string `json:"shell_path,omitempty"`
	// Stdin is given to the command as standard input, in place of the run's arguments.
	Stdin string `json:"stdin,omitempty"`
	// Env is added to the minimal environment; see the package documentation.
	Env map[string]EnvValue `json:"env,omitempty"`
	// Dir is the absolute working directory; empty means HOME.
	Dir string `json:"dir,omitempty"`
	// User is the account to run as; empty means the worker's. Another account than its own needs a worker
	// that is root.
	User string `json:"user,omitempty"`
}

// EnvValue is the value of a variable: a literal, or the name of a variable of the worker, which is read when
// the command starts and so never enters a definition or the log. In JSON it is a string or {"from_env": "NAME"}.
type EnvValue struct {
	Value   string
	FromEnv string // the worker's variable; empty for a literal
}

// Literal is an EnvValue that holds v itself.
func Literal(v string) EnvValue { return EnvValue{Value: v} }

// FromEnv is an EnvValue read from the worker's variable of that name.
func FromEnv(name string) EnvValue { return EnvValue{FromEnv: name} }

func (v EnvValue) MarshalJSON() ([]byte, error) {
	if v.FromEnv == "" {
		return json.Marshal(v.Value)
	}
	return json.Marshal(map[string]string{"from_env": v.FromEnv})
}

var errEnvValue = errors.New(`want a string or {"from_env": "NAME"}; quote a number or a boolean`)

func (v *EnvValue) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) > 0 && data[0] == '"':
		*v = EnvValue{}
		return json.Unmarshal(data, &v.Value)
	case len(data) > 0 && data[0] == '{':
		var o struct {
			FromEnv string `json:"from_env"`
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&o); err != nil || o.FromEnv == "" {
			return errEnvValue
		}
		*v = FromEnv(o.FromEnv)
		return nil
	}
	return errEnvValue
}

// FieldError is a target that cannot be run as written. Field is a path inside the target in the spelling of
// the jobs file, such as env.TOKEN.
type FieldError struct {
	Field   string
	Message string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

func fieldErrorf(field, format string, args ...any) *FieldError {
	return &FieldError{Field: field, Message: fmt.Sprintf(format, args...)}
}

// Validate reports the first thing that makes the target impossible to run anywhere, as a *FieldError. It
// looks at the text alone, never at this machine.
func (t Target) Validate() error {
	if err := t.validateCommand(); err != nil {
		return err
	}
	for _, f := range []struct{ field, path string }{{"dir", t.Dir}, {"shell_path", t.ShellPath}} {
		if f.path != "" && !path.IsAbs(f.path) {
			return fieldErrorf(f.field, "%q is relative; want an absolute path", f.path)
		}
		if err := validateString(f.field, f.path); err != nil {
			return err
		}
	}
	if err := validateText("stdin", t.Stdin); err != nil {
		return err
	}
	if strings.ContainsAny(t.User, " \t:/\x00") {
		return fieldErrorf("user", "%q cannot name an account", t.User)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		if err := validateVariable(name, t.Env[name]); err != nil {
			return err
		}
	}
	return nil
}

func (t Target) validateCommand() error {
	switch {
	case len(t.Argv) == 0 && strings.TrimSpace(t.Shell) == "":
		return fieldErrorf("argv", "nothing to run; want [program, argument…]")
	case len(t.Argv) > 0 && t.Shell != "":
		return fieldErrorf("shell", "excludes argv; give one of the two")
	case len(t.Argv) > 0 && t.Argv[0] == "":
		return fieldErrorf("argv[0]", "is empty; want a program")
	case len(t.Argv) > 0 && t.ShellPath != "":
		return fieldErrorf("shell_path", "has no meaning with argv, which is run without a shell")
	}
	for i, a := range t.Argv {
		if err := validateString(fmt.Sprintf("argv[%d]", i), a); err != nil {
			return err
		}
	}
	return validateString("shell", t.Shell)
}

func validateVariable(name string, v EnvValue) error {
	field := "env." + name
	switch {
	case name == "" || strings.ContainsAny(name, "=\x00"):
		return fieldErrorf("env", "%q cannot name a variable", name)
	case strings.HasPrefix(name, reservedPrefix):
		return fieldErrorf(field, "names with %s are set by Daybook itself; choose another", reservedPrefix)
	case strings.HasPrefix(v.FromEnv, reservedPrefix):
		return fieldErrorf(field+".from_env", "%s is the worker's own setting and is not given to jobs", v.FromEnv)
	case strings.ContainsAny(v.FromEnv, "=\x00"):
		return fieldErrorf(field+".from_env", "%q cannot name a variable", v.FromEnv)
	case v.FromEnv != "" && v.Value != "":
		return fieldErrorf(field, "has both a value and from_env; give one of the two")
	}
	return validateString(field, name+"="+v.Value)
}

func validateString(field, s string) error {
	if err := validateText(field, s); err != nil {
		return err
	}
	if len(s) > maxArgument {
		return fieldErrorf(field, "is %d bytes long; the system passes at most %d", len(s), maxArgument)
	}
	return nil
}

// validateText refuses what a definition, which is stored as JSON, would not bring to the worker unchanged.
func validateText(field, s string) error {
	if strings.ContainsRune(s, 0) {
		return fieldErrorf(field, "holds a NUL byte")
	}
	if !utf8.ValidString(s) {
		return fieldErrorf(field, "is not valid UTF-8")
	}
	return nil
}
