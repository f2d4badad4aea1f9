// Package restoretest loses parts of a deployment's history and brings it back
// as docs/operations.md says, by the commands that stand there: a dump restored
// behind NATS, a restore to a moment, a promoted standby that lost commits, and
// a NATS store restored behind the database.
//
// The engines are processes that nobody restarts. They must notice by
// themselves, write nothing until the era is raised, go on then, and leave no
// run of either history unaccounted for.
package restoretest
