package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/daybookhq/daybook/eventstore"
	"github.com/daybookhq/daybook/internal/crashpoint"
)

// Config says what a keeper works with.
type Config struct {
	Directory string // where exports go; empty: months of runs stay
	Host      string // of the directory, for the record
	Actor     string // who lets go, for the record; also the lease's owner
	Every     time.Duration
	Page      int // events read at once; 0 means 5,000
	Progress  func(Progress)
	Logger    *slog.Logger
}

// Progress tells how far a long step is.
type Progress struct {
	Month  string
	What   string // exported or verified
	Events int64
}

// Keeper looks after how long history is kept.
type Keeper struct {
	store *eventstore.Store
	c     Config
	spoke time.Time // when the lease was last renewed
}

// term is how long a keeper that was killed holds the others up.
const term = 2 * time.Minute

// ErrElsewhere says that another process looks after retention now.
var ErrElsewhere = errors.New("another process looks after retention now: try again in two minutes")

// New makes a keeper.
func New(store *eventstore.Store, c Config) (*Keeper, error) {
	c.Every, c.Page = cmp.Or(c.Every, time.Hour), cmp.Or(c.Page, 5000)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if c.Directory != "" {
		dir, err := filepath.Abs(c.Directory)
		if err != nil {
			return nil, err
		}
		c.Directory = dir
	}
	return &Keeper{store: store, c: c}, nil
}

// Run does what is due, every hour, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		done, err := k.Keep(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // a clean stop, whatever it interrupted
		case errors.Is(err, ErrElsewhere):
		case err != nil:
			k.c.Logger.WarnContext(ctx, "retention is failing; nothing is lost by it", "error", err)
		case done.Retired != nil || done.Outputs > 0:
			k.c.Logger.InfoContext(ctx, "history older than it is kept is gone", "months", done.Retired, "outputs", done.Outputs)
		}
		for month, why := range done.Blocked {
			k.c.Logger.InfoContext(ctx, "a month of runs is due to go and stays", "month", month, "reason", why)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(k.c.Every):
		}
	}
}

// Done is what a pass did.
type Done struct {
	Retired []eventstore.RetiredMonth `json:"retired"` // months that the log has let go of
	Empty   []string                  `json:"empty,omitempty"`
	Blocked map[string]string         `json:"blocked,omitempty"` // months that were due and stay, and why
	Outputs int                       `json:"outputs"`           // of attempts, removed
}

// Keep does everything that is due now. What it could not do it says, and does
// the rest.
func (k *Keeper) Keep(ctx context.Context) (d Done, err error) {
	d.Blocked = map[string]string{}
	held, err := k.store.LeaseRetention(ctx, k.c.Actor, term)
	if err != nil {
		return d, err
	}
	if !held {
		return d, ErrElsewhere
	}
	k.spoke = time.Now()
	defer func() {
		done, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_, _ = k.store.LeaseRetention(done, k.c.Actor, 0) // it lapses by itself otherwise
	}()
	if d.Outputs, err = k.dropOutputs(ctx); err != nil {
		return d, err
	}
	plan, err := k.Plan(ctx)
	if err != nil {
		return d, err
	}
	for _, m := range plan.Months {
		switch {
		case m.State == Blocked:
			d.Blocked[m.Month] = m.Why
			continue
		case m.State != Due:
			continue
		case k.c.Directory == "":
			d.Blocked[m.Month] = "there is no directory to export it to"
			continue
		}
		x, err := k.retire(ctx, m.month)
		var stays *eventstore.NotRetiredError
		switch {
		case errors.As(err, &stays):
			d.Blocked[m.Month] = stays.Why
		case err != nil:
			return d, err
		case x == nil:
			d.Empty = append(d.Empty, m.Month)
		default:
			d.Retired = append(d.Retired, *x)
		}
	}
	return d, k.sweep(ctx)
}

// retire takes a month from wherever an earlier attempt left it to its end. It
// returns nothing for a month without events.
func (k *Keeper) retire(ctx context.Context, of time.Time) (*eventstore.RetiredMonth, error) {
	if err := os.MkdirAll(k.c.Directory, 0o700); err != nil {
		return nil, fmt.Errorf("directory for exports: %w", err)
	}
	x, err := k.export(ctx, of)
	if err != nil {
		return nil, err
	}
	if x.Events == 0 {
		return nil, k.store.RetireMonth(ctx, of, "", k.c.Actor)
	}
	m, err := k.verify(ctx, x.RetiredMonth)
	if err != nil {
		return nil, err
	}
	if err := k.store.RecordVerified(ctx, of, x.SHA256); err != nil {
		return nil, err
	}
	if err := crashpoint.Err(crashpoint.RetentionPostVerify); err != nil {
		return nil, err
	}
	if err := k.store.MayRetire(ctx, of, x.SHA256); err != nil { // before the jobs are told
		return nil, err
	}
	for _, id := range m.sorted() {
		if _, err := k.store.RecordRetired(ctx, id, m.jobs[id].retired(x.RetiredMonth), eventstore.Meta{Actor: k.c.Actor}); err != nil {
			return nil, err
		}
		if err := k.alive(ctx, of, "recorded", m.events); err != nil {
			return nil, err
		}
	}
	if err := crashpoint.Err(crashpoint.RetentionPreDrop); err != nil {
		return nil, err
	}
	if err := k.drop(ctx, of, x.SHA256); err != nil {
		return nil, err
	}
	if err := crashpoint.Err(crashpoint.RetentionPostDrop); err != nil {
		return nil, err
	}
	k.c.Logger.InfoContext(ctx, "a month of runs is exported, verified and dropped", "month", x.Name(), "runs", x.Runs, "events", x.Events, "file", x.File, "sha256", x.SHA256)
	return &x.RetiredMonth, nil
}

// drop asks a few times: a query that reads the log may be in the way, and it is
// the one that goes first.
func (k *Keeper) drop(ctx context.Context, of time.Time, digest string) error {
	for tries := 1; ; tries++ {
		err := k.store.RetireMonth(ctx, of, digest, k.c.Actor)
		if !errors.Is(err, eventstore.ErrInTheWay) || tries == 10 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(tries) * 200 * time.Millisecond):
		}
	}
}

// alive tells how far a step is and keeps the lease.
func (k *Keeper) alive(ctx context.Context, of time.Time, what string, events int64) error {
	k.c.Progress(Progress{Month: of.Format("2006-01"), What: what, Events: events})
	if time.Since(k.spoke) < term/4 {
		return nil
	}
	held, err := k.store.LeaseRetention(ctx, k.c.Actor, term)
	if err == nil && !held {
		err = ErrElsewhere
	}
	k.spoke = time.Now()
	return err
}
