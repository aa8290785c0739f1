package engine

import "time"

// Timing is a part of the time that a run took.
type Timing struct {
	Name string // "admit", "queue", "stage", "sandbox", "program", "collect", "record"
	Took time.Duration
}

// timings measures the parts of a run, one after the other.
type timings struct {
	last time.Time
	all  []Timing
}

func (l *timings) start() { l.last, l.all = time.Now(), make([]Timing, 0, 8) }

// end closes the part that began when the one before ended.
func (l *timings) end(name string) {
	now := time.Now()
	l.all = append(l.all, Timing{name, now.Sub(l.last)})
	l.last = now
}

// split gives a share of the last part a name of its own.
func (l *timings) split(name string, took time.Duration) {
	last := &l.all[len(l.all)-1]
	took = min(took, last.Took)
	last.Took -= took
	l.all = append(l.all, Timing{name, took})
}
