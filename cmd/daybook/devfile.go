package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/daybookhq/daybook/internal/devpg"
)

// devFile is DIR/dev.json: where a running `daybook dev` can be reached.
type devFile struct {
	PID           int    `json:"pid"`
	Database      string `json:"database"`       // as the application's role
	AdminDatabase string `json:"admin_database"` // as the owner of the tables
	NATS          string `json:"nats"`
	HTTP          string `json:"http"`
	Token         string `json:"token"` // of the HTTP API, for the commands of the owner
	Data          string `json:"data"`
}

const devFileName = "dev.json"

// dataDir is --data, or the default directory of this user.
func (a *app) dataDir() string {
	if a.data != "" {
		return a.data
	}
	return devpg.DefaultDir("daybook")
}

// findDev reads the dev.json of a `daybook dev` that is alive.
func (a *app) findDev() (devFile, error) {
	name := filepath.Join(a.dataDir(), devFileName)
	var d devFile
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return d, &exitError{code: exitUnreachable, err: fmt.Errorf(
			"no running 'daybook dev' found (%s does not exist): start one, or give --url or --data, or set DATABASE_URL", name)}
	}
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return d, fmt.Errorf("%s: %w", name, err)
	}
	if err := syscall.Kill(d.PID, 0); errors.Is(err, syscall.ESRCH) {
		return d, &exitError{code: exitUnreachable, err: fmt.Errorf("'daybook dev' (pid %d, %s) is not running any more: start it again", d.PID, d.Data)}
	}
	return d, nil
}

// write replaces the file in one step, readable by its owner alone.
func (d devFile) write(dir string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // connection strings hold ampersands, and people copy them from here
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return err
	}
	tmp := filepath.Join(dir, devFileName+".new")
	if err := os.WriteFile(tmp, b.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, devFileName))
}
