package eventstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/domain"
)

// specKey names a version of a job's definition. It never changes, so it can be
// kept for as long as there is room; nobody may change what it points to.
type specKey struct {
	job     uuid.UUID
	version int
}

// specCache keeps recently used definitions. When full it drops an arbitrary
// half: the next read brings back what is in use.
type specCache struct {
	mu sync.Mutex
	m  map[specKey]*domain.JobSpec
}

const maxSpecs = 20_000

func newSpecCache() *specCache { return &specCache{m: map[specKey]*domain.JobSpec{}} }

func (c *specCache) get(k specKey) (*domain.JobSpec, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.m[k]
	return s, ok
}

func (c *specCache) put(k specKey, s *domain.JobSpec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.m) >= maxSpecs {
		for old := range c.m {
			delete(c.m, old)
			if len(c.m) <= maxSpecs/2 {
				break
			}
		}
	}
	c.m[k] = s
}

// errNoDefinition says that a run is pinned to a version that the log has not.
var errNoDefinition = errors.New("job definition is missing")

// Index: the primary key of events_job.
const selectSpecs = `
SELECT e.stream_id, e.version, e.type, e.schema_version, e.data
  FROM unnest($1::uuid[], $2::int[]) AS u(s, v)
  JOIN events e ON e.category = 'job' AND e.stream_id = u.s AND e.version = u.v`

// specsFor makes sure that the definitions pinned by the runs are known.
func (s *Store) specsFor(ctx context.Context, tx *txn, runs []domain.Run) (map[specKey]*domain.JobSpec, error) {
	pinned := make([]specKey, 0, 8)
	for _, r := range runs {
		pinned = pin(pinned, r)
	}
	return s.pinnedSpecs(ctx, tx, pinned)
}

// pin adds the definition that the run is pinned to, unless the run before is
// pinned to the same.
func pin(pinned []specKey, r domain.Run) []specKey {
	k := specKey{r.JobID, r.JobVersion}
	if n := len(pinned); n > 0 && pinned[n-1] == k {
		return pinned
	}
	return append(pinned, k)
}

func (s *Store) pinnedSpecs(ctx context.Context, tx *txn, pinned []specKey) (map[specKey]*domain.JobSpec, error) {
	specs := make(map[specKey]*domain.JobSpec, 8)
	var jobs []uuid.UUID
	var versions []int32
	for _, k := range pinned {
		if _, ok := specs[k]; ok {
			continue
		}
		spec, ok := s.specs.get(k)
		specs[k] = spec
		if !ok {
			jobs, versions = append(jobs, k.job), append(versions, int32(k.version))
		}
	}
	if len(jobs) == 0 {
		return specs, nil
	}
	found := 0
	err := tx.query(ctx, selectSpecs, []any{jobs, versions}, func(rows pgx.Rows) error {
		var k specKey
		var typ string
		var schema int
		var data []byte
		if err := rows.Scan(&k.job, &k.version, &typ, &schema, &data); err != nil {
			return err
		}
		e, err := domain.DecodeEvent(typ, schema, data)
		if err != nil {
			return err
		}
		spec := new(domain.JobSpec)
		switch e := e.(type) {
		case domain.JobCreated:
			*spec = e.Spec
		case domain.JobUpdated:
			*spec = e.Spec
		default:
			return fmt.Errorf("job %s version %d is %s, which defines nothing", k.job, k.version, typ)
		}
		s.specs.put(k, spec)
		specs[k] = spec
		found++
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read job definitions: %w", err)
	}
	if found != len(jobs) {
		return nil, fmt.Errorf("%w: %d of %d pinned versions are in the log", errNoDefinition, found, len(jobs))
	}
	return specs, nil
}
