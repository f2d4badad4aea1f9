// Package schedule decides when a job runs: five-field cron expressions,
// macros, fixed intervals and single instants, in any IANA time zone.
//
// A schedule belongs to one of four classes, fixed when it is parsed:
//
//   - Wall: a cron expression that names hours ("30 2 * * *"). Every matching
//     civil time fires one time. A civil time that the clock shows twice fires
//     at the first; one that the clock skips is read with the offset in force
//     before the skip, so 02:30 becomes 03:30. Two civil times that fall on one
//     instant are one fire.
//   - Elapsed: a cron expression whose hours cover the whole day
//     ("*/15 * * * *"). It fires whenever the clock shows a matching minute:
//     nothing in a skipped hour, both times in a repeated one.
//   - Interval: "@every 90m", counted in real time from a fixed anchor.
//   - Instant: "@at 2027-01-01T00:00:00Z".
//
// Schedule and Set values are immutable and safe for concurrent use. All
// instants that go in and out are absolute; the package reads no clock.
//
// Civil dates are walked as plain integers and instants are found from the
// zone's offset periods. Nothing here builds a zoned time from its parts with
// the time package, whose result for a skipped or repeated time is not defined.
package schedule
