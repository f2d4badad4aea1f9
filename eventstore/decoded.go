package eventstore

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/google/uuid"

	"github.com/daybookhq/daybook/domain"
)

// decoded keeps definitions that were shown lately, since decoding is most of
// what a page of jobs costs. They are found by what is stored, not by a version,
// which means another definition in another history. Nobody may change what they
// point to.
type decoded struct {
	mu sync.Mutex
	m  map[uuid.UUID]decodedSpec
}

type decodedSpec struct {
	stored []byte
	spec   domain.JobSpec
}

// Up to 5,000 definitions of 4 KiB are kept, ten full pages of jobs.
const (
	maxDecoded     = 5000
	maxDecodedSize = 4 << 10
)

func (d *decoded) decode(job uuid.UUID, stored []byte) (spec domain.JobSpec, err error) {
	d.mu.Lock()
	have, ok := d.m[job]
	d.mu.Unlock()
	if ok && bytes.Equal(have.stored, stored) {
		return have.spec, nil
	}
	if err := json.Unmarshal(stored, &spec); err != nil || len(stored) > maxDecodedSize {
		return spec, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.m == nil {
		d.m = map[uuid.UUID]decodedSpec{}
	}
	for old := range d.m {
		if len(d.m) < maxDecoded {
			break
		}
		delete(d.m, old)
	}
	d.m[job] = decodedSpec{bytes.Clone(stored), spec}
	return spec, nil
}
