package executor

import "sync/atomic"

// A countedProgram is the part of one program in the number of those that may compute. It
// counts from the acceptance of its request until its end, except while it is frozen or will
// be soon. The goroutine of its request owns it.
type countedProgram struct {
	running *atomic.Int32
	counts  bool
}

// countProgram counts one program more.
func (e *executor) countProgram() *countedProgram {
	c := &countedProgram{running: &e.running}
	c.count(true)
	return c
}

// count changes whether the program counts.
func (c *countedProgram) count(yes bool) {
	switch {
	case yes && !c.counts:
		c.running.Add(1)
	case !yes && c.counts:
		c.running.Add(-1)
	}
	c.counts = yes
}
