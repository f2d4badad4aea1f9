//go:build linux

package crashtest

import "github.com/daybookhq/daybook/internal/crashtest/judge"

// complaints are what PostgreSQL may complain about after a fault, and after no
// other.
var complaints = map[string][]judge.Excuse{
	"database frozen": {
		excuse(`^transaction took \S+ and would commit runs behind the claimers`, "a transaction was frozen in the middle, and is decided again"),
		excuse(`^canceling statement due to (user request|statement timeout|lock timeout)`, "who asked gave up waiting for a frozen server"),
	},
	"engine frozen":  frozen,
	"relay frozen":   frozen,
	"reaper frozen":  frozen,
	"claimer frozen": frozen,

	"engine cut off from everything": parted,
	"database read-only": {
		excuse(`^cannot execute .* in a read-only transaction`, "the database took no writes"),
	},
	"database's disk full": {
		excuse(`No space left on device`, "the disk was full"),
		excuse(`^could not (extend|write)`, "the disk was full"),
	},
}

var frozen = []judge.Excuse{
	excuse(`^terminating connection due to idle-in-transaction timeout`, "an engine was frozen in the middle of a transaction"),
	excuse(`^canceling statement due to lock timeout`, "another engine waited for the rows of a frozen one"),
}

// parted is what the server says when an engine does not hear it, or it does not
// hear the engine.
var parted = []judge.Excuse{
	excuse(`^terminating connection due to idle-in-transaction timeout`, "an engine was cut off in the middle of a transaction"),
	excuse(`^canceling statement due to (user request|lock timeout)`, "who asked gave up waiting for an answer, or for rows of an engine that was cut off"),
	excuse(`^could not (send|receive) data`, "a connection was cut"),
}
