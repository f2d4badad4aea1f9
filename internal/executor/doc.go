// Package executor runs the command of an exec job: one process tree, started, watched and ended by the
// worker that holds the run.
//
// # What the command sees
//
// The environment is built from nothing; no variable of the worker is inherited except LANG and TZ. So neither
// database nor NATS credentials nor the worker's token can leak into a job by default; what a job needs is named in its
// definition, as a value or as {from_env: NAME}. In order, later ones winning:
//
//   - PATH, HOME, LOGNAME, USER, and LANG and TZ if the worker has them; SHELL too for a shell line.
//     PATH is /usr/bin:/bin for a shell line, as under cron, and adds /usr/local and the sbin directories for argv.
//   - the target's own variables;
//   - DAYBOOK_RUN_ID (the idempotency key), DAYBOOK_JOB, DAYBOOK_ATTEMPT, DAYBOOK_SCHEDULED_AT (RFC 3339, UTC; absent
//     without an instant) and DAYBOOK_ARGS (JSON, "null" without arguments; absent above 64 KiB, where only standard
//     input carries them).
//
// Standard input is the target's own text, or else the arguments as JSON, or else empty. Standard output and
// standard error share one pipe, so that their order is kept. The working directory is Dir, or else HOME; a home
// directory that does not exist becomes /, an explicit Dir that does not exist is an error.
//
// # How it ends
//
// The command is a session of its own, without a terminal. When the context ends, every process of the session gets
// SIGTERM, and SIGKILL if any of them is left after the grace period. A process that moved itself to a new session
// (setsid, daemons) has left and is not followed. After a command has ended by itself, the processes it left in
// the background live on, as under cron; Run waits WaitDelay for them to close the output and then closes it,
// after which their writes fail.
//
// On Linux the kernel kills the command when the worker dies without having ended it, so that a retry does not meet
// the first attempt still at work. This reaches the command itself, not processes it had started.
//
// # What the exit status means
//
//	0         done
//	75        EX_TEMPFAIL: not now, try later
//	64, 65    EX_USAGE, EX_DATAERR: no retry would help
//	126, 127  of a shell line: the command is not executable or not found; no retry would help
//	other     failed, to be retried
package executor
