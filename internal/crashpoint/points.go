package crashpoint

// Point is a place in the program. The declared ones are constants, so that a
// test can go through all of them and the compiler knows a misspelt one.
type Point uint8

// The points, by what is under way. "post_select" is behind the statement that
// locks the rows, "pre_commit" before the last round trip, which holds writes
// and COMMIT, and "post_commit" before anything is made of its success.
const (
	MaterializePostSelect Point = iota
	MaterializePreCommit
	MaterializePostCommit

	ClaimPostSelect
	ClaimPreCommit
	ClaimPostCommit // the pack is not handed over to the relay

	DirectPreCommit // runs are made and claimed in one transaction
	DirectPostCommit

	RelayPostPoll    // packs are leased and not in memory yet
	RelayPrePublish  // nothing is out
	RelayPostPublish // everything is out and nothing recorded
	RelayPreDelete   // the row of a published pack is still there

	RearmPostSelect
	RearmPreCommit
	RearmPostCommit

	StartPostDecide
	StartPreCommit
	StartPostCommit
	OutcomePostDecide
	OutcomePreCommit
	OutcomePostCommit
	RPCPreReply // all is recorded and nobody told

	ReaperPostSelect
	ReaperPreCommit
	ReaperPostCommit

	ProjectorPostRead
	ProjectorPreCommit
	ProjectorPostCommit

	FeedPostRead
	FeedPostPublish // the checkpoint is where it was
	FeedPostSave

	RetentionPostExport // the file is complete and not recorded
	RetentionPostVerify // and the jobs are not told
	RetentionPreDrop    // they are
	RetentionPostDrop   // rows of read models are left

	count
)

var table = [count]struct {
	name string
	errs bool // the place reports errors: Err, not At
}{
	MaterializePostSelect: {"materialize.post_select", true},
	MaterializePreCommit:  {"materialize.pre_commit", false},
	MaterializePostCommit: {"materialize.post_commit", false},

	ClaimPostSelect: {"claim.post_select", true},
	ClaimPreCommit:  {"claim.pre_commit", false},
	ClaimPostCommit: {"claim.post_commit", true},

	DirectPreCommit:  {"direct.pre_commit", false},
	DirectPostCommit: {"direct.post_commit", true},

	RelayPostPoll:    {"relay.post_poll", true},
	RelayPrePublish:  {"relay.pre_publish", true},
	RelayPostPublish: {"relay.post_publish", true},
	RelayPreDelete:   {"relay.pre_delete", true},

	RearmPostSelect: {"rearm.post_select", true},
	RearmPreCommit:  {"rearm.pre_commit", false},
	RearmPostCommit: {"rearm.post_commit", true},

	StartPostDecide:   {"start.post_decide", true},
	StartPreCommit:    {"start.pre_commit", false},
	StartPostCommit:   {"start.post_commit", true},
	OutcomePostDecide: {"outcome.post_decide", true},
	OutcomePreCommit:  {"outcome.pre_commit", false},
	OutcomePostCommit: {"outcome.post_commit", true},
	RPCPreReply:       {"rpc.pre_reply", true},

	ReaperPostSelect: {"reaper.post_select", true},
	ReaperPreCommit:  {"reaper.pre_commit", false},
	ReaperPostCommit: {"reaper.post_commit", true},

	ProjectorPostRead:   {"projector.post_read", true},
	ProjectorPreCommit:  {"projector.pre_commit", true},
	ProjectorPostCommit: {"projector.post_commit", true},

	FeedPostRead:    {"feed.post_read", true},
	FeedPostPublish: {"feed.post_publish", true},
	FeedPostSave:    {"feed.post_save", false},

	RetentionPostExport: {"retention.post_export", true},
	RetentionPostVerify: {"retention.post_verify", true},
	RetentionPreDrop:    {"retention.pre_drop", true},
	RetentionPostDrop:   {"retention.post_drop", true},
}

// String is the point's name.
func (p Point) String() string { return table[p].name }

// Errs reports whether the place can report an error.
func (p Point) Errs() bool { return table[p].errs }

// All lists the declared points.
func All() []Point {
	all := make([]Point, count)
	for i := range all {
		all[i] = Point(i)
	}
	return all
}

func names() []string {
	out := make([]string, count)
	for i, p := range table {
		out[i] = p.name
	}
	return out
}

func byName(name string) (Point, bool) {
	for i, p := range table {
		if p.name == name {
			return Point(i), true
		}
	}
	return 0, false
}
