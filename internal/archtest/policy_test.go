package archtest

// Where each third-party module may be used.
const (
	uuid      = "github.com/google/uuid"
	pgx       = "github.com/jackc/pgx/v5/..."
	nats      = "github.com/nats-io/nats.go/..."
	natsd     = "github.com/nats-io/nats-server/v2/..."
	watermill = "github.com/ThreeDotsLabs/watermill/..."
	wmSQL     = "github.com/ThreeDotsLabs/watermill-sql/v4/..."
	goose     = "github.com/pressly/goose/v3/..."
	huma      = "github.com/danielgtaylor/huma/v2/..."
	prom      = "github.com/prometheus/..."
	yaml      = "github.com/goccy/go-yaml/..."
	leak      = "go.uber.org/goleak"
	xsync     = "golang.org/x/sync/..."
	xsys      = "golang.org/x/sys/..."
)

// policy lists, for every package of this module, the imports it may have
// beyond the standard library. It states the architecture: an arrow that is
// not here is decided first, and the commit that adds it says why. A package
// that is not here fails. A name that ends in /... stands for the whole tree.
//
//	domain ← eventstore ← {outbox, projections} ← internal/* ← cmd
var policy = map[string][]string{
	// The core decides; it stores, reads and sends nothing.
	"domain":          {"domain/schedule", uuid},
	"domain/schedule": {},

	// Storage knows PostgreSQL, and nothing of NATS or HTTP.
	"migrations":            {pgx, goose},
	"eventstore":            {"domain/...", "internal/crashpoint", uuid, pgx, xsync},
	"outbox":                {"domain/...", "eventstore", "worker/protocol", "internal/crashpoint", uuid, pgx, watermill, wmSQL, xsync}, // a dispatch is stored as it is sent
	"projections":           {"domain/...", "eventstore", "worker/protocol", "internal/crashpoint", uuid, pgx, watermill, xsync},
	"projections/evidence":  {"domain/...", "eventstore", "projections", uuid, pgx},
	"projections/retention": {"domain/...", "eventstore", "internal/crashpoint", uuid, pgx},

	// Leaves that all but the domain and what user programs import may use.
	"internal/crashpoint": {},
	"internal/explorer":   {}, // a model, which nothing uses but its tests

	// What user programs import brings the NATS client and nothing else.
	"worker":          {"worker/protocol", uuid, nats},
	"worker/protocol": {uuid},
	"examples/...":    {"worker", "worker/protocol", uuid, nats, watermill},

	// One adapter speaks JetStream. The engine answers requests over core NATS,
	// and as it assembles the parts it hands the adapter its connection.
	"internal/natsjs":      {"domain/...", "worker/protocol", "outbox", uuid, nats, natsd, watermill, xsync, xsys},
	"internal/eventstream": {"domain/...", "eventstore", "projections", uuid},
	"internal/engine": {
		"domain/...", "eventstore", "outbox", "projections/...", "migrations", "worker/protocol", "internal/natsjs", "internal/crashpoint",
		uuid, pgx, nats, watermill, prom, xsync,
	},

	// What people and programs ask for. Only the HTTP API knows the API framework.
	"internal/client": {
		"domain/...", "eventstore", "outbox", "projections/...", "worker/protocol", "internal/natsjs", "internal/eventstream",
		uuid, pgx, nats,
	},
	"internal/httpapi": {
		"domain/...", "eventstore", "outbox", "projections/...", "worker/protocol", "internal/client", "internal/engine", "internal/jobsfile",
		uuid, pgx, huma, prom, xsync,
	},
	"internal/webui":     {"domain/...", "projections/...", "internal/client", "internal/httpapi", uuid},
	"internal/telemetry": {"domain/...", "eventstore", "outbox", "projections/...", "internal/engine", prom},
	"internal/config":    {"domain/..."},

	// What jobs are made from and how they run on this machine.
	"internal/jobsfile": {"domain/...", "internal/executor", uuid, yaml},
	"internal/crontab":  {"domain/...", "internal/executor", "internal/jobsfile"},
	"internal/executor": {"worker", "worker/protocol", xsys},
	"internal/builtin":  {"domain/...", "worker", "worker/protocol", "internal/executor"},

	// Measures the whole, from the outside as far as that is possible.
	"internal/bench": {"domain/...", "eventstore", "outbox", "projections", "migrations", "worker/...", "internal/devpg", "internal/natsjs", uuid, pgx},

	"internal/needs":           {},
	"internal/devpg":           {xsys},
	"internal/pgtest":          {"internal/devpg", "migrations", pgx, leak},
	"internal/natstest":        {"internal/natsjs", nats, natsd},
	"internal/proctest":        {"internal/natsjs", "internal/pgtest", leak},
	"internal/committest":      {},
	"internal/restoretest":     {},
	"internal/soaktest":        {},
	"internal/archtest":        {},
	"internal/crashtest":       {},
	"internal/crashtest/judge": {"domain/...", "eventstore", uuid},
	"internal/tools/...":       {"internal/devpg", "migrations", "internal/crashtest/judge"},
	"cmd/...":                  {"..."},
	"bench/...":                {"..."},
}

// testSupport may use package testing outside of tests, and only tests may
// import it.
var testSupport = []string{"internal/pgtest", "internal/natstest", "internal/proctest", "internal/needs"}

// impure lists standard packages, each with what is below it, through which
// the domain could reach the world.
var impure = []string{"context", "crypto/rand", "database/sql", "io/ioutil", "log", "math/rand", "net", "os", "plugin", "runtime/debug", "syscall", "unsafe"}

// impureCalls lists what else the domain must not use: it takes the time and
// ids as arguments. Of a package with only exceptions listed, every function
// whose name begins with New is meant.
var impureCalls = map[string]struct{ names, except []string }{
	"time": {names: []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}},
	uuid:   {names: []string{"EnableRandPool", "SetRand", "SetClockSequence", "GetTime"}, except: []string{"NewSHA1", "NewMD5", "NewHash"}},
}
