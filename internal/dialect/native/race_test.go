//go:build race

package native

// slowness is how much longer than in earnest a test may take under the race
// detector.
const slowness = 10
