package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/migrations"
)

// versionInfo says what this binary is.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the tree had changes beyond the commit
	Time     string `json:"commit_time,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Schema   int64  `json:"schema"` // of the database, that it needs
}

func newVersion(a *app) *cobra.Command {
	var out format
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show the version",
		Long:    "Shows the version of this binary and the version of the database schema that it needs.",
		Example: "  daybook version\n  daybook version -o json",
		Args:    takes(),
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			switch {
			case out == asID:
				_, err := fmt.Fprintln(a.out, v.Version)
				return err
			case !out.people():
				return a.writeJSON(out, v)
			}
			_, err := fmt.Fprintf(a.out, "daybook %s, schema %d, %s %s/%s\n", v.Version, v.Schema, v.Go, v.OS, v.Arch)
			return err
		},
	}
	outputFlag(cmd, &out, asTable)
	return cmd
}

func readVersion() versionInfo {
	v := versionInfo{Version: version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Schema: migrations.Latest()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
