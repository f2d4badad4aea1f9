package projections

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// compare returns the rows that have no stream.
func (c *checker) compare(streams [][]logged, rows []RunSummary, parked []uuid.UUID) (strays []uuid.UUID) {
	table := make(map[uuid.UUID]RunSummary, len(rows))
	for _, row := range rows {
		table[row.RunID] = row
	}
	aside := make(map[uuid.UUID]bool, len(parked))
	for _, id := range parked {
		aside[id] = true
	}
	for _, stream := range streams {
		id := stream[0].StreamID
		row, found := table[id]
		delete(table, id)
		c.report.Streams++
		if aside[id] {
			c.report.Parked++
		}
		if d, ok := c.compareRun(stream, row, found, aside[id]); !ok {
			c.report.add(d)
		}
	}
	return slices.SortedFunc(maps.Keys(table), compareIDs)
}

// compareRun folds as many events as the row claims to have, which must be those
// the follower has behind it or, where it scans or was made to try again, more.
func (c *checker) compareRun(stream []logged, row RunSummary, found, parked bool) (Drift, bool) {
	d := Drift{Table: "run_summaries", Key: stream[0].StreamID.String()}
	applied := 0
	for applied < len(stream) && stream[applied].applied {
		applied++
	}
	switch {
	case row.Version > len(stream):
		d.What = fmt.Sprintf("at version %d, the log ends at %d", row.Version, len(stream))
		return d, false
	case row.Version < applied && !parked && !found:
		d.What = "missing"
		return d, false
	case row.Version < applied && !parked:
		d.What = fmt.Sprintf("at version %d, the follower is past %d", row.Version, applied)
		return d, false
	case !found:
		return d, true
	}
	want := RunSummary{RunID: stream[0].StreamID}
	for _, e := range stream[:row.Version] {
		if err := want.applyRecorded(e.Recorded, c.traffic); err != nil {
			d.What = fmt.Sprintf("made of events that do not fold: %v", err)
			return d, false
		}
	}
	d.What, d.Differences = "differs", differences(want, row)
	return d, len(d.Differences) == 0
}

func differences(log, table RunSummary) (out []Difference) {
	if reflect.DeepEqual(log, table) {
		return nil
	}
	l, t := reflect.ValueOf(log), reflect.ValueOf(table)
	for i := range l.NumField() {
		a, b := text(l.Field(i)), text(t.Field(i))
		if a != b {
			name, _, _ := strings.Cut(l.Type().Field(i).Tag.Get("json"), ",")
			out = append(out, Difference{Column: name, Log: a, Table: b})
		}
	}
	return out
}

func text(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "null"
		}
		v = v.Elem()
	}
	return fmt.Sprint(v.Interface())
}
