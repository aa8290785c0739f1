//go:build race

package native

// slowness is how much longer than in earnest a test may take under the race
// detector, which sees every byte that a loop reads: eleven times was measured.
const slowness = 20
