package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/daybookhq/daybook/internal/client"
)

// exportOf is what an export holds, in the words it was asked for.
type exportOf struct {
	Job  string `json:"job,omitempty"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// exportPlace is how far an export is: what is in the file up to Bytes goes up to
// the place. What a killed export wrote behind that is thrown away.
type exportPlace struct {
	Of    exportOf `json:"of"`
	Next  string   `json:"next"`
	Bytes int64    `json:"bytes"`
}

type exportFile struct {
	f     *os.File
	buf   *bufio.Writer
	place string
	of    exportOf
}

// openExport opens a file to export to, and puts the export behind what it has.
func openExport(path string, of exportOf, e *client.Exporting) (*exportFile, error) {
	x := &exportFile{place: path + ".place", of: of}
	at, err := readPlace(x.place)
	switch {
	case err != nil:
		return nil, err
	case at != nil && e.After != "":
		return nil, usage("--after is not needed: %s knows how far %s is", x.place, path)
	case at != nil && at.Of != of:
		return nil, usage("%s holds another export (--job %q --from %q --to %q): give the same flags, or another --file", path, at.Of.Job, at.Of.From, at.Of.To)
	}
	if x.f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	info, err := x.f.Stat()
	var end int64
	switch {
	case err != nil:
	case at == nil && info.Size() > 0:
		err = usage("%s is there and no export that could be gone on with: give another --file", path)
	case at != nil && info.Size() < at.Bytes:
		err = fmt.Errorf("%s is shorter (%d bytes) than %s says (%d): it was changed; give another --file", path, info.Size(), x.place, at.Bytes)
	case at != nil:
		e.After, end = at.Next, at.Bytes
	}
	if err == nil {
		err = x.f.Truncate(end)
	}
	if err == nil {
		_, err = x.f.Seek(end, 0)
	}
	if err != nil {
		return nil, errors.Join(err, x.f.Close())
	}
	x.buf = bufio.NewWriterSize(x.f, 1<<18)
	e.Page = x.page
	return x, nil
}

// page makes what was written last, and then says so.
func (x *exportFile) page(next string) error {
	if err := errors.Join(x.buf.Flush(), x.f.Sync()); err != nil {
		return err
	}
	end, err := x.f.Seek(0, 1)
	if err != nil {
		return err
	}
	b, err := json.Marshal(exportPlace{Of: x.of, Next: next, Bytes: end})
	if err != nil {
		return err
	}
	if err := os.WriteFile(x.place+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(x.place+".new", x.place)
}

func readPlace(path string) (*exportPlace, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var at exportPlace
	if err := json.Unmarshal(b, &at); err != nil {
		return nil, fmt.Errorf("%s is not what an export writes: %w", path, err)
	}
	return &at, nil
}
