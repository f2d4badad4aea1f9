package pgtest

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/migrations"
)

// New returns a database with the current schema.
func New(t testing.TB) *DB {
	t.Helper()
	return NewWith(t, schemaName(), migrations.Up)
}

// New is the package's New on this server.
func (c *Cluster) New(t testing.TB) *DB {
	t.Helper()
	return c.NewWith(t, schemaName(), migrations.Up)
}

// schemaName names the schema by the content of its migrations.
var schemaName = sync.OnceValue(func() string {
	h := sha256.New()
	err := fs.WalkDir(migrations.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(migrations.FS, name)
		if err != nil {
			return err
		}
		h.Write([]byte(name))
		h.Write([]byte{0})
		h.Write(b)
		h.Write([]byte{0})
		return nil
	})
	if err != nil {
		panic(err) // an embedded file system cannot fail
	}
	return "schema_" + hex.EncodeToString(h.Sum(nil))[:24]
})
