package eventstore

import "context"

// Index: jobs_name_key.
const selectJobsNamed = `SELECT ` + jobColumns + ` FROM jobs WHERE name = ANY($1) ORDER BY name`

// JobsNamed reads the jobs of these names that there are, archived ones too.
func (s *Store) JobsNamed(ctx context.Context, names []string) (map[string]JobDetail, error) {
	found, err := s.selectJobs(ctx, selectJobsNamed, names)
	if err != nil {
		return nil, err
	}
	out := make(map[string]JobDetail, len(found))
	for _, j := range found {
		out[j.Spec.Name] = j
	}
	return out, nil
}
