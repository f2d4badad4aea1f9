// Package crashtest runs the real binary, kills its processes again and again,
// and judges from the log and from what others saw of it. It is tests only; see
// the package judge for what is judged, and docs/reliability.md for the whole.
//
// The sample that runs by default kills a few times. DAYBOOK_CRASH_ROUNDS makes
// it longer, DAYBOOK_CRASH_JOBS wider, and DAYBOOK_CRASH_SEED repeats the choices of
// an earlier run. DAYBOOK_CRASH_SAVE names a folder to save the histories in, which
// can be judged again:
//
//	go run ./internal/tools/judge DIR
package crashtest
