// Package retention lets the log go of what is older than it is to be kept.
//
// Runs leave by whole months, since a month of runs is a partition. A month that
// is due is exported to a file, one event a line; the file is read back and
// compared with the table, line by line; each job's stream is told what must
// outlast the events of its runs (counts, skips, backfills); then the database
// drops the partition, in one transaction that first looks whether anything came
// to it since the export, whether every reader of the log is past it and whether
// a run of it still lives. What is left of the runs in the read models goes
// afterwards. Slots, jobs and definitions stay for ever.
//
// Every step can be killed and repeated. Nothing is remembered between them but
// rows in retired_months and finished files, and a file is compared again by the
// very pass that drops.
package retention
