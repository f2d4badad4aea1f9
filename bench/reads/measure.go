package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"text/tabwriter"
	"time"
)

// Figure is what was measured of a request.
type Figure struct {
	Request string  `json:"request"`
	Count   int     `json:"count"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
	Bytes   int     `json:"bytes"` // of the largest answer
}

// measure asks each for so many times, other values each time, after a few that
// do not count. Deep in a list it turns some pages before it chooses others.
func (c *caller) measure(ctx context.Context, requests []request, count int, w *world, say func(string, ...any)) (out []Figure, err error) {
	const warm, turns = 3, 20
	for _, q := range requests {
		rnd := rand.New(rand.NewPCG(7, uint64(w.runs)))
		f := Figure{Request: q.name, Count: count}
		var took []time.Duration
		path := ""
		for i := range warm + count {
			if path == "" || i%turns == 0 {
				if path, err = c.arrive(ctx, q, rnd); err != nil {
					return out, err
				}
			}
			began := time.Now()
			status, body, err := c.get(ctx, path)
			t := time.Since(began)
			if err != nil {
				return out, err
			}
			if status != http.StatusOK && status != http.StatusNotFound { // a run that failed has no output
				return out, fmt.Errorf("%s: status %d: %s", path, status, body)
			}
			if i >= warm {
				took = append(took, t)
				f.Bytes = max(f.Bytes, len(body))
			}
			if path, err = q.after(path, body); err != nil {
				return out, err
			}
		}
		slices.Sort(took)
		f.P50, f.P99, f.Max = milli(took[len(took)/2]), milli(took[(len(took)*99-1)/100]), milli(took[len(took)-1])
		out = append(out, f)
		say("%-40s p50 %7.2f ms   p99 %7.2f ms", f.Request, f.P50, f.P99)
	}
	return out, nil
}

func milli(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// table writes the figures for people, those above the bar marked.
func table(w io.Writer, figures []Figure, bar float64) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "request\tcount\tp50 ms\tp99 ms\tmax ms\tbytes\t\n")
	for _, f := range figures {
		mark := ""
		if f.P99 >= bar {
			mark = "  above"
		}
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%.2f\t%d\t%s\n", f.Request, f.Count, f.P50, f.P99, f.Max, f.Bytes, mark)
	}
	return t.Flush()
}
