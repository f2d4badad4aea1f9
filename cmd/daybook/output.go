package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// format is -o.
type format string

const (
	asTable format = "table"
	asWide  format = "wide"
	asJSON  format = "json"
	asLines format = "jsonl"
	asID    format = "id"
)

var formats = []format{asTable, asWide, asJSON, asLines, asID}

func (f *format) String() string { return string(*f) }

// Type names the flag's values in the help.
func (f *format) Type() string { return "format" }

func (f *format) Set(s string) error {
	if !slices.Contains(formats, format(s)) {
		return fmt.Errorf("want table, wide, json, jsonl or id")
	}
	*f = format(s)
	return nil
}

// people reports whether the format is for people.
func (f format) people() bool { return f == asTable || f == asWide || f == "" }

// outputFlag adds -o. The empty standard is decided by the command.
func outputFlag(cmd *cobra.Command, f *format, standard format) {
	*f = standard
	cmd.Flags().VarP(f, "output", "o", "table, wide, json, jsonl or id")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(
		[]cobra.Completion{"table", "wide", "json", "jsonl", "id"}, cobra.ShellCompDirectiveNoFileComp))
}

// terminal reports whether a person looks at stdout.
func (a *app) terminal() bool {
	f, ok := a.out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// writeJSON writes a value over several lines, for json, or in one, for jsonl.
func (a *app) writeJSON(f format, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	if f == asJSON {
		var indented bytes.Buffer
		if err := json.Indent(&indented, b, "", "  "); err != nil {
			return err
		}
		b = indented.Bytes()
	}
	_, err = a.out.Write(append(b, '\n'))
	return err
}

// writePlainJSON writes a value whose types say themselves how their instants are
// to be written.
func (a *app) writePlainJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeLine is writePlainJSON in one line.
func (a *app) writeLine(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// column is one column of a table of Ts.
type column[T any] struct {
	title string
	wide  bool // only in wide
	full  bool // never cut: it says what to do
	text  func(T) string
}

// list is what a command lists.
type list[T any] struct {
	items   []T
	columns []column[T]
	id      func(T) string
	whole   any    // as json
	empty   string // said instead of a table without rows
}

func write[T any](a *app, f format, l list[T]) error {
	switch f {
	case asJSON:
		return a.writeJSON(f, l.whole)
	case asLines:
		for _, it := range l.items {
			if err := a.writeJSON(f, it); err != nil {
				return err
			}
		}
		return nil
	case asID:
		for _, it := range l.items {
			if _, err := fmt.Fprintln(a.out, l.id(it)); err != nil {
				return err
			}
		}
		return nil
	default:
		if len(l.items) == 0 && l.empty != "" {
			fmt.Fprintln(a.err, l.empty)
			return nil
		}
		return writeTable(a, f, l)
	}
}

func writeTable[T any](a *app, f format, l list[T]) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	columns := l.columns
	if f != asWide {
		columns = slices.DeleteFunc(slices.Clone(columns), func(c column[T]) bool { return c.wide })
	}
	cells := make([]string, len(columns))
	row := func(text func(column[T]) string) {
		for i, c := range columns {
			limit := maxCell
			if i == len(columns)-1 {
				limit = maxLastCell
			}
			cells[i] = plain(text(c))
			if f != asWide && !c.full {
				cells[i] = short(cells[i], limit)
			}
			cells[i] = cmp.Or(cells[i], "-")
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	row(func(c column[T]) string { return c.title })
	for _, it := range l.items {
		row(func(c column[T]) string { return c.text(it) })
	}
	return w.Flush()
}

// Characters of a cell, and of the last one in a row, that a table shows; wide
// shows all.
const (
	maxCell     = 60
	maxLastCell = 120
)

// sheet writes what is known of one thing, a line each; empty values are left
// out.
func (a *app) sheet(rows ...[2]string) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		if v := plain(r[1]); v != "" {
			fmt.Fprintf(w, "%s\t%s\n", r[0], v)
		}
	}
	return w.Flush()
}
