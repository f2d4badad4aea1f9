package executor

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestTargetKeepsItsMeaningThroughJSON(t *testing.T) {
	const text = `{"argv":["/usr/local/bin/report","--all"],"env":{"MODE":"full","TOKEN":{"from_env":"REPORT_TOKEN"}}}`
	var target Target
	if err := json.Unmarshal([]byte(text), &target); err != nil {
		t.Fatal(err)
	}
	want := Target{
		Argv: []string{"/usr/local/bin/report", "--all"},
		Env:  map[string]EnvValue{"MODE": Literal("full"), "TOKEN": FromEnv("REPORT_TOKEN")},
	}
	if !reflect.DeepEqual(target, want) {
		t.Fatalf("read %+v, want %+v", target, want)
	}
	back, err := json.Marshal(target)
	if err != nil || string(back) != text {
		t.Fatalf("wrote %s (%v), want %s", back, err, text)
	}
}

func TestEnvValueRefusesWhatIsNeitherStringNorReference(t *testing.T) {
	for _, text := range []string{`8080`, `true`, `null`, `[]`, `{}`, `{"from_env": ""}`, `{"from_env": 1}`, `{"from_file": "x"}`, `{"from_env": "A", "or": "b"}`} {
		var target Target
		err := json.Unmarshal([]byte(`{"env":{"A":`+text+`}}`), &target)
		if err == nil || !strings.Contains(err.Error(), "from_env") {
			t.Errorf("%s: error %v, want one that shows the two forms", text, err)
		}
	}
}

func TestValidate(t *testing.T) {
	long := strings.Repeat("x", maxArgument)
	for _, c := range []struct {
		name   string
		target Target
		field  string // empty: valid
	}{
		{"argv", Target{Argv: []string{"true"}}, ""},
		{"shell", Target{Shell: "true", ShellPath: "/bin/bash", Dir: "/tmp", User: "www-data", Stdin: "a\nb"}, ""},
		{"empty argument", Target{Argv: []string{"echo", ""}}, ""},
		{"longest argument", Target{Argv: []string{"echo", long}}, ""},
		{"nothing", Target{}, "argv"},
		{"blank line", Target{Shell: " \t"}, "argv"},
		{"both", Target{Argv: []string{"true"}, Shell: "true"}, "shell"},
		{"no program", Target{Argv: []string{"", "x"}}, "argv[0]"},
		{"shell path without shell", Target{Argv: []string{"true"}, ShellPath: "/bin/sh"}, "shell_path"},
		{"relative shell", Target{Shell: "true", ShellPath: "bash"}, "shell_path"},
		{"relative directory", Target{Shell: "true", Dir: "data"}, "dir"},
		{"NUL in argument", Target{Argv: []string{"echo", "a\x00b"}}, "argv[1]"},
		{"NUL in line", Target{Shell: "echo a\x00b"}, "shell"},
		{"NUL in input", Target{Shell: "cat", Stdin: "a\x00b"}, "stdin"},
		{"Latin-1 in line", Target{Shell: "echo caf\xe9"}, "shell"},
		{"argument too long", Target{Argv: []string{"echo", long + "x"}}, "argv[1]"},
		{"line too long", Target{Shell: long + "x"}, "shell"},
		{"user", Target{Shell: "true", User: "a b"}, "user"},
		{"variable name", Target{Shell: "true", Env: map[string]EnvValue{"A=B": Literal("x")}}, "env"},
		{"variable value", Target{Shell: "true", Env: map[string]EnvValue{"A": Literal("\x00")}}, "env.A"},
		{"reserved name", Target{Shell: "true", Env: map[string]EnvValue{"DAYBOOK_RUN_ID": Literal("x")}}, "env.DAYBOOK_RUN_ID"},
		{"the worker's token", Target{Shell: "true", Env: map[string]EnvValue{"T": FromEnv("DAYBOOK_TOKEN")}}, "env.T.from_env"},
		{"value and reference", Target{Shell: "true", Env: map[string]EnvValue{"T": {Value: "a", FromEnv: "B"}}}, "env.T"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.target.Validate()
			if c.field == "" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			fe, ok := errors.AsType[*FieldError](err)
			if !ok || fe.Field != c.field {
				t.Fatalf("error %v, want one at %s", err, c.field)
			}
			wantError(t, Run(t.Context(), c.target, Options{}), TypeInvalidTarget, Fatal)
		})
	}
}
