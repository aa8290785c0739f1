package engine

import "time"

// SteadyClock returns a clock for everything that is created and expires: the
// wall time of this moment, plus what has elapsed since. A wall clock that
// jumps by a year, forwards or back, does not move it. Service and index are
// to have the same one.
func SteadyClock(wall func() time.Time) func() time.Time {
	began, start := wall().Round(0).UTC(), time.Now()
	return func() time.Time { return began.Add(time.Since(start)) }
}
