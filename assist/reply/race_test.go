//go:build race

package reply

// raceEnabled: the race detector slows everything down.
const raceEnabled = true
