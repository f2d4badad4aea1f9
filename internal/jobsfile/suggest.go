package jobsfile

import (
	"slices"
	"strings"
)

// synonyms are words of other schedulers for fields of ours.
var synonyms = map[string]string{
	"cron": "schedule", "schedules": "schedule", "at": "schedule", "every": "schedule", "interval": "schedule",
	"timezone": "time_zone", "tz": "time_zone", "zone": "time_zone", "location": "time_zone",
	"command": "exec", "cmd": "exec", "run": "exec", "script": "exec", "args_list": "argv", "arguments": "args", "payload": "args", "params": "args",
	"retries": "retry", "backoff": "retry", "attempts": "max_attempts", "max_retries": "max_attempts", "max_interval": "max", "initial_interval": "initial", "factor": "multiplier",
	"enabled": "paused", "disabled": "paused", "suspend": "paused", "concurrency_policy": "overlap", "startingDeadlineSeconds": "catchup_window", "labels": "tags",
	"working_dir": "dir", "workdir": "dir", "cwd": "dir", "environment": "env", "run_as": "user", "id": "name", "title": "name", "start": "start_at", "end": "end_at", "worker": "kind", "type": "kind",
}

// suggest reports whether the name is known, and if not, what may have been
// meant.
func suggest(name string, known []string) (hint string, ok bool) {
	if slices.Contains(known, name) {
		return "", true
	}
	plain := strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	best, distance := "", 3
	for _, k := range known {
		if d := editDistance(plain, k, distance); d < distance && d < len(k) {
			best, distance = k, d
		}
	}
	if s, known2 := synonyms[plain]; distance > 1 && known2 && slices.Contains(known, s) {
		best = s
	}
	if best != "" {
		return "did you mean " + best + "?", false
	}
	return "the fields are " + strings.Join(known, ", "), false
}

// editDistance counts the letters to insert, remove, replace or swap with their
// neighbour; limit or more is limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return min(row[len(b)], limit)
}
