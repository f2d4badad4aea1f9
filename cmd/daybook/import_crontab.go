package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/internal/client"
	"github.com/daybookhq/daybook/internal/crontab"
)

func newImport(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "import",
		Short:   "Take jobs over from elsewhere",
		Long:    "Takes jobs over from where they are defined now.",
		Example: "  daybook import crontab /etc/crontab",
	}, newImportCrontab(a))
}

// importOptions say how a crontab is to be taken over.
type importOptions struct {
	user, system, apply, skipBad bool
	zone, queue                  string
}

func newImportCrontab(a *app) *cobra.Command {
	var o importOptions
	var out format
	cmd := &cobra.Command{
		Use:   "crontab FILE",
		Short: "Turn a crontab into jobs",
		Long: `Reads a crontab as cron does and shows what would be created, updated and archived, and
every line that cannot be taken over, with the reason. Nothing is changed without --apply,
and nothing at all while a line cannot be honoured, unless --skip-bad leaves those out.

The jobs mean what the lines mean to cron: one attempt, no timeout, overlapping runs, sh -c
with cron's environment and its rules for %. The file owns its jobs. Importing it again
updates them and archives those that are gone from it.

Schedules are in the zone of CRON_TZ, else --zone, else this machine's. /etc/crontab and
/etc/cron.d have a column for the user (--system), other files have none (--user). With -
it reads 'crontab -l' from stdin.`,
		Example: `  daybook import crontab /etc/crontab
  daybook import crontab /etc/crontab --apply
  crontab -l | daybook import crontab - --zone Europe/Berlin`,
		Args: takes("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			src, err := a.readCrontab(args[0], o)
			if err != nil {
				return err
			}
			src.say(a.err)
			return a.with(cmd, func(ctx context.Context, c client.Client) error {
				return a.importCrontab(ctx, c, out, src, o)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.user, "user", false, "the file has no column for the user")
	f.BoolVar(&o.system, "system", false, "the file has a column for the user")
	f.StringVar(&o.zone, "zone", "", "IANA time zone of the schedules (default this machine's)")
	f.StringVar(&o.queue, "queue", domain.DefaultQueue, "queue for the runs")
	f.BoolVar(&o.apply, "apply", false, "do it")
	f.BoolVar(&o.skipBad, "skip-bad", false, "leave out lines that cannot be honoured")
	outputFlag(cmd, &out, asTable)
	return cmd
}

// source is a crontab as read.
type source struct {
	name         string // as in messages
	owner        string // source of its jobs
	zone, zoneBy string
	system       bool
	file         *crontab.File
	lines        map[string]crontab.Entry // by job
	definitions  []client.Definition
}

func (s *source) say(w io.Writer) {
	kind := "a user's crontab"
	if s.system {
		kind = "a system crontab (with a column for the user)"
	}
	fmt.Fprintf(w, "%s: %s, time zone %s (%s)\n", s.name, kind, s.zone, s.zoneBy)
}

// maxCrontab is far beyond any crontab that people write.
const maxCrontab = 16 << 20

// readCrontab reads and judges the file. The error is about the file as a whole.
func (a *app) readCrontab(name string, o importOptions) (*source, error) {
	if o.user && o.system {
		return nil, usage("--user and --system exclude each other: a crontab has a column for the user or has not")
	}
	if !domain.ValidToken(o.queue) {
		return nil, usage("--queue %q: want 1 to 64 of a-z, 0-9, - and _", plain(o.queue))
	}
	s := &source{name: name, zone: o.zone, zoneBy: "--zone", lines: map[string]crontab.Entry{}}
	var err error
	if s.zone == "" {
		if s.zone, s.zoneBy, err = machineZone(a.env, "/"); err != nil {
			return nil, err
		}
		s.zoneBy = "from " + s.zoneBy
	} else if _, err := time.LoadLocation(s.zone); err != nil || s.zone == "Local" {
		return nil, usage("--zone %q is no IANA time zone: want for example Europe/Berlin", plain(s.zone))
	}
	text, id, err := a.readSource(name)
	if err != nil {
		return nil, err
	}
	if name == "-" {
		s.name = "stdin"
	}
	s.owner = "crontab:" + id
	s.system = o.system || !o.user && isSystemCrontab(id)
	if s.file, err = crontab.Parse(bytes.NewReader(text), crontab.Options{File: id, Zone: s.zone, System: s.system}); err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	return s, s.define(o.queue)
}

// readSource reads a file, or stdin for "-", and says what it is called for ever.
func (a *app) readSource(name string) (text []byte, id string, err error) {
	in := a.in
	if name == "-" {
		u, err := user.Current()
		if err != nil {
			return nil, "", err
		}
		id = "stdin:" + u.Username + "@" + hostname() // whose crontab it is, so that two people do not share a file
	} else {
		if id, err = filepath.Abs(name); err != nil {
			return nil, "", err
		}
		f, err := os.Open(name)
		if err != nil {
			return nil, "", fileError(err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	text, err = io.ReadAll(io.LimitReader(in, maxCrontab+1))
	switch {
	case err != nil:
		return nil, "", fileError(err)
	case len(text) > maxCrontab:
		return nil, "", usage("%s is larger than %d MiB: is this a crontab?", name, maxCrontab>>20)
	}
	return text, id, nil
}

// fileError makes an input file that cannot be read a usage error.
func fileError(err error) error { return &exitError{code: exitUsage, err: err} }

func isSystemCrontab(path string) bool {
	return path == "/etc/crontab" || strings.HasPrefix(path, "/etc/cron.d/")
}

// cronCatchup is how late a run of a crontab line may be: cron itself makes up
// for nothing.
const cronCatchup = domain.Duration(time.Minute)

// define makes jobs of the entries that mean what the lines mean to cron.
func (s *source) define(queue string) error {
	retry := domain.DefaultRetry()
	retry.MaxAttempts = 1
	for _, e := range s.file.Entries {
		target, err := json.Marshal(e.Target())
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", s.name, e.Line, err)
		}
		spec := domain.JobSpec{
			Name: e.Name, Schedules: []string{e.Expr}, TimeZone: e.Zone, Queue: queue, Kind: domain.KindExec, Target: target,
			Retry: retry, Overlap: domain.OverlapAllow, Misfire: domain.MisfireLatest,
			CatchupWindow: cronCatchup, MaxCatchup: domain.DefaultMaxCatchup, Priority: domain.DefaultPriority, Source: s.owner,
		}
		if wrong := spec.Validate(); len(wrong) > 0 {
			s.file.Problems = append(s.file.Problems, crontab.Problem{
				Line: e.Line, Text: short(plain(e.Command), 80), Reason: wrong[0].Error(), Severity: crontab.Error})
			continue
		}
		s.lines[e.Name] = e
		s.definitions = append(s.definitions, client.Definition{Spec: spec})
	}
	return nil
}

// change is what the file says that there should be.
func (s *source) change() client.Change {
	return client.Change{Definitions: s.definitions, Owner: s.owner, Reason: "imported from " + s.name}
}
