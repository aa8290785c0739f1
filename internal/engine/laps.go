package engine

import "time"

// Lap is a part of the time that a run took.
type Lap struct {
	Name string // "admit", "queue", "stage", "sandbox", "program", "collect", "record"
	Took time.Duration
}

// laps measures the parts of a run, one after the other.
type laps struct {
	last time.Time
	all  []Lap
}

func (l *laps) start() { l.last, l.all = time.Now(), make([]Lap, 0, 8) }

// end closes the part that began when the one before ended.
func (l *laps) end(name string) {
	now := time.Now()
	l.all = append(l.all, Lap{name, now.Sub(l.last)})
	l.last = now
}

// split gives a share of the last part a name of its own.
func (l *laps) split(name string, took time.Duration) {
	last := &l.all[len(l.all)-1]
	took = min(took, last.Took)
	last.Took -= took
	l.all = append(l.all, Lap{name, took})
}
