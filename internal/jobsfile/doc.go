// Package jobsfile reads definitions of jobs as people write them: a YAML file
// with a list of jobs, or the same shape in JSON.
//
// A file is taken whole or not at all. Whatever is wrong with it is reported
// together, each problem with its line, its field, the refused value and what
// would be right: a field that does not exist, a contradiction, a name given
// twice, an expression that never fires. Nothing is ignored silently, and
// features that this version does not have are refused by name.
//
// What a file leaves out is filled in with the defaults, so that a definition
// means the same under a later version with other defaults.
//
// Of YAML, anchors, aliases and merge keys (<<) are understood; tags, several
// documents in one file and keys that are not text are not. Values are read
// strictly: a number is no text, yes is not true.
package jobsfile

import "github.com/daybookhq/daybook/domain"

// Bounds of what is read.
const (
	MaxBytes = 1 << 20 // of a file
	MaxJobs  = 10_000  // in a file
	maxDepth = 64      // of values in one another
	maxNodes = 1 << 19 // values in a file, with what aliases stand for
)

// Options are what a file does not say itself.
type Options struct {
	// Source becomes the Source of every job: the file that owns them. Empty
	// when no file does.
	Source string
}

// File is what a jobs file defines, in its order.
type File struct {
	Name string
	Jobs []Job
}

// Job is one definition, complete and valid.
type Job struct {
	Spec   domain.JobSpec
	Paused bool // whether the job starts paused when it is made
	Line   int  // where it begins, from 1
}

// Parse reads a jobs file. The name is for messages. The error is of type
// *Errors and holds every problem; there is no File then.
func Parse(name string, src []byte, o Options) (*File, error) {
	r := newReader(name, o)
	root := r.load(src)
	if r.failed() {
		return nil, r.errors()
	}
	jobs := r.file(root)
	if r.failed() {
		return nil, r.errors()
	}
	return &File{Name: name, Jobs: jobs}, nil
}

// ParseJob reads one definition, of the shape that an entry of a jobs file has.
// The name is for messages, as is an error that of Parse.
func ParseJob(name string, src []byte, o Options) (*Job, error) {
	r := newReader(name, o)
	root := r.load(src)
	if r.failed() {
		return nil, r.errors()
	}
	job := r.job(root, "", nil)
	if r.failed() {
		return nil, r.errors()
	}
	return &job, nil
}
