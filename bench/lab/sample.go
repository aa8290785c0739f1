package lab

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Sample is how long something took, each time.
type Sample []time.Duration

// At returns a percentile by nearest rank: a time that was measured, never one between two. Of no times it is 0.
func (s Sample) At(p float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(s))))
	return slices.Sorted(slices.Values(s))[min(max(rank, 1), len(s))-1]
}

// P50 returns the median in milliseconds.
func (s Sample) P50() float64 { return Millis(s.At(50)) }

// P99 returns the 99th percentile in milliseconds.
func (s Sample) P99() float64 { return Millis(s.At(99)) }

// Millis returns a time in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// FromMillis returns the times of a list of milliseconds.
func FromMillis(list []float64) (s Sample) {
	for _, ms := range list {
		s = append(s, time.Duration(ms*float64(time.Millisecond)))
	}
	return s
}

// Median returns the lower median of values, or NaN.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(values))[(len(values)-1)/2]
}

// Digits writes a number with three digits that count.
func Digits(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
