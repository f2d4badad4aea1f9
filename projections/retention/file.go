package retention

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/crashpoint"
)

// line is an event as an export has it: all that the table has, but the number
// of the transaction, which means nothing elsewhere.
type line struct {
	Position      int64           `json:"position"`
	Era           int             `json:"era"`
	Category      domain.Category `json:"category"`
	StreamID      uuid.UUID       `json:"stream_id"`
	Version       int             `json:"version"`
	Type          string          `json:"type"`
	SchemaVersion int             `json:"schema_version"`
	At            time.Time       `json:"at"`
	Actor         string          `json:"actor"`
	Correlation   *uuid.UUID      `json:"correlation,omitempty"`
	Causation     *uuid.UUID      `json:"causation,omitempty"`
	Data          json.RawMessage `json:"data"`
}

// encode writes an event's line. The same event has always the same one.
func encode(to *bytes.Buffer, r eventstore.Stored) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	return e.Encode(line{Position: r.Position, Era: r.Era, Category: r.Category, StreamID: r.StreamID, Version: r.Version, Type: r.Type,
		SchemaVersion: r.SchemaVersion, At: r.At, Actor: r.Actor, Correlation: r.Correlation, Causation: r.Causation, Data: r.Data})
}

// walk goes through a month's events, stream by stream, a page at a time and
// each in a statement of its own: no snapshot is held open meanwhile.
func (k *Keeper) walk(ctx context.Context, of time.Time, what string, see func(eventstore.Stored) error) error {
	var stream uuid.UUID
	version := 0
	for seen := int64(0); ; {
		page, err := k.store.MonthPage(ctx, of, stream, version, k.c.Page)
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := see(r); err != nil {
				return err
			}
		}
		seen += int64(len(page))
		if err := k.alive(ctx, of, what, seen); err != nil {
			return err
		}
		if len(page) < k.c.Page {
			return nil
		}
		stream, version = page[len(page)-1].StreamID, page[len(page)-1].Version
	}
}

// export writes the month to a file. The file gets its name when it is complete
// and on disk; what an earlier attempt left is overwritten.
func (k *Keeper) export(ctx context.Context, of time.Time) (x eventstore.MonthExport, err error) {
	// Before the first page: what is committed later is late, even if it is in a
	// page.
	if x.Seen, err = k.store.Snapshot(ctx); err != nil {
		return x, err
	}
	partial := filepath.Join(k.c.Directory, "runs-"+of.Format("2006-01")+".partial")
	f, err := os.OpenFile(partial, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return x, fmt.Errorf("export %s: %w", of.Format("2006-01"), err)
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = os.Remove(partial)
		}
	}()
	m := month{}
	sum := sha256.New()
	out := &counter{w: bufio.NewWriterSize(f, 1<<20)}
	var buf bytes.Buffer
	err = k.walk(ctx, of, "exported", func(r eventstore.Stored) error {
		if err := m.add(r); err != nil {
			return err
		}
		buf.Reset()
		if err := encode(&buf, r); err != nil {
			return fmt.Errorf("export run %s version %d: %w", r.StreamID, r.Version, err)
		}
		_, _ = sum.Write(buf.Bytes()) // a hash does not fail
		_, err := out.Write(buf.Bytes())
		return err
	})
	if err == nil {
		err = m.end()
	}
	if err != nil {
		return x, err
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	x.RetiredMonth = eventstore.RetiredMonth{
		Month: of, SHA256: digest, File: "runs-" + of.Format("2006-01") + "-" + digest[:12] + ".jsonl", Directory: k.c.Directory, Host: k.c.Host,
		Runs: m.runs, Events: m.events, Bytes: out.n, NewestAt: m.newest, Position: m.position, ExportedBy: k.c.Actor,
	}
	x.Era, x.XID = m.era, m.xid
	if m.events == 0 {
		return x, errors.Join(f.Close(), os.Remove(partial))
	}
	if err := k.keep(f, out, x.RetiredMonth, partial); err != nil {
		return x, fmt.Errorf("export %s: %w", x.Name(), err)
	}
	if err := crashpoint.Err(crashpoint.RetentionPostExport); err != nil {
		return x, err
	}
	return x, k.store.RecordExport(ctx, x)
}

// keep puts a written file in its place, with its checksum beside it in the form
// of sha256sum.
func (k *Keeper) keep(f *os.File, out *counter, x eventstore.RetiredMonth, partial string) error {
	if err := errors.Join(out.w.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	path := filepath.Join(k.c.Directory, x.File)
	if err := writeSynced(path+".sha256", x.SHA256+"  "+x.File+"\n"); err != nil {
		return err
	}
	if err := os.Rename(partial, path); err != nil {
		return err
	}
	return syncDir(k.c.Directory)
}

func writeSynced(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

type counter struct {
	w *bufio.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return c.w.Write(b)
}

// verify reads the file back and compares it with the table, line by line and
// in full. What it learns on the way is what the jobs' streams are to keep.
func (k *Keeper) verify(ctx context.Context, x eventstore.RetiredMonth) (*month, error) {
	path := filepath.Join(k.c.Directory, x.File)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("verify export of %s: %w", x.Name(), err)
	}
	defer func() { _ = f.Close() }()
	differs := func(format string, args ...any) error {
		return fmt.Errorf("verify export of %s: %s: %s; nothing was dropped: remove the file, and it is exported again", x.Name(), path, fmt.Sprintf(format, args...))
	}
	m := &month{jobs: map[uuid.UUID]*jobMonth{}}
	in := &summed{r: bufio.NewReaderSize(f, 1<<20), sum: sha256.New()}
	var want bytes.Buffer
	var have []byte
	err = k.walk(ctx, x.Month, "verified", func(r eventstore.Stored) error {
		if err := m.add(r); err != nil {
			return err
		}
		want.Reset()
		if err := encode(&want, r); err != nil {
			return err
		}
		have = append(have[:0], make([]byte, want.Len())...)
		if err := in.read(have); err != nil {
			return differs("it ends before run %s version %d: %v", r.StreamID, r.Version, err)
		}
		if !bytes.Equal(have, want.Bytes()) {
			return differs("line %d is not what the table has for run %s version %d", m.events, r.StreamID, r.Version)
		}
		return nil
	})
	if err == nil {
		err = m.end()
	}
	if err != nil {
		return nil, err
	}
	if _, err := in.r.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, differs("it goes on after the last event of the table")
	}
	if digest := hex.EncodeToString(in.sum.Sum(nil)); digest != x.SHA256 {
		return nil, differs("its checksum is %s, and %s was recorded", digest, x.SHA256)
	}
	return m, nil
}

type summed struct {
	r   *bufio.Reader
	sum hash.Hash
}

func (s *summed) read(b []byte) error {
	if _, err := io.ReadFull(s.r, b); err != nil {
		return err
	}
	_, _ = s.sum.Write(b) // a hash does not fail
	return nil
}
