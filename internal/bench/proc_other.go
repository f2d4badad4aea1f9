//go:build !linux

package bench

import (
	"runtime"
	"time"
)

// Outside Linux processor time and memory of other processes are not read.

func processor(...int) time.Duration       { return 0 }
func family(parent int) []int              { return []int{parent} }
func parentOf(int) (int, string)           { return 0, "" }
func busy() (worked, stolen time.Duration) { return 0, 0 }
func peakRSS(int) int64                    { return 0 }
func processorName() string                { return "" }
func memoryBytes() int64                   { return 0 }
func kernel() string                       { return runtime.GOOS }
