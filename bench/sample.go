package main

import (
	"math"
	"slices"
	"time"
)

// sample is how long something took, each time.
type sample []time.Duration

// Summary is what is left of a sample. Times are in milliseconds.
type Summary struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
	P99 float64 `json:"p99_ms"`
}

func (s sample) summary() Summary {
	sorted := slices.Sorted(slices.Values(s))
	return Summary{N: len(s), P50: percentile(sorted, 50), P95: percentile(sorted, 95), P99: percentile(sorted, 99)}
}

// percentile is by nearest rank: a time that was measured, never one between
// two. Of no times it is NaN, which is no number anywhere.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return millis(sorted[min(max(rank, 1), len(sorted))-1])
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
