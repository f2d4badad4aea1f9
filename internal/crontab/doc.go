// Package crontab reads a real crontab and says what each line means to cron, or why it cannot mean that here.
//
// It follows crontab(5) as cronie and Debian's cron have it:
//
//   - NAME = value sets a variable for the lines below it. A value, and a name, may stand in quotes of either kind, which
//     preserve blanks. Nothing is expanded. CRON_TZ also sets the time zone of the schedules below it.
//   - Five time fields or one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly, then, in the system
//     format (/etc/crontab, /etc/cron.d), a user, then the command, which extends to the end of the line.
//   - The first % that no backslash precedes ends the command; what follows is its standard input, in which each further
//     such % is a line break. \% stands for %.
//   - A line whose first visible character is # is a comment. There are no comments at the end of a line and no
//     continued lines. A - before the schedule, which keeps a command out of the system log, is accepted.
//
// Every line that is not taken over exactly is listed as a [Problem] with its number, its text and the reason.
package crontab
