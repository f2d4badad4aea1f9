// Judge gives its verdict on histories that were saved before: each argument is
// a folder as a crash test leaves it.
//
//	go run ./internal/tools/judge DIR...
//	go run ./internal/tools/judge -table DIR    all histories and trials in DIR, as tables in Markdown
//
// Its exit status is 1 if one of them breaks an invariant, and 2 if one cannot be read.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/daybookhq/daybook/internal/crashtest/judge"
)

func main() {
	list := flag.Bool("invariants", false, "list what is judged, and end")
	all := flag.String("table", "", "write tables of all histories and trials in this folder")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: judge [-invariants] [-table DIR] DIR...\n\nDIR holds a saved history: events.jsonl, faults.jsonl and so on.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *list {
		for _, i := range judge.Invariants {
			fmt.Printf("%-4s %s\n", i.ID, i.What)
		}
		return
	}
	if *all != "" {
		ok, err := table(os.Stdout, *all)
		if err != nil {
			fmt.Fprintf(os.Stderr, "judge: %v\n", err)
			os.Exit(2)
		}
		if !ok {
			os.Exit(1)
		}
		return
	}
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	status := 0
	for _, dir := range flag.Args() {
		h, err := judge.Load(dir)
		if err != nil {
			fmt.Fprintf(os.Stderr, "judge: %v\n", err)
			status = 2
			continue
		}
		report, v := h.Judge()
		fmt.Printf("%s\n%s", dir, report)
		if s := v.String(); s != "" {
			fmt.Printf("violations:\n%s\n", s)
			status = max(status, 1)
			continue
		}
		fmt.Printf("%d invariants hold\n", len(judge.Invariants))
	}
	os.Exit(status)
}
