package executor

import "testing"

// A run is not answered early while a process of the program's exists, or may exist.
func TestExitedAlone(t *testing.T) {
	for _, alone := range []bool{true, false} {
		done := &outcome{Lost: true}
		if got := (&watch{}).exited(Event{Status: 7 << 8, Alone: alone}, done); got != alone || done.Lost ||
			done.Status != 7<<8 {
			t.Errorf("alone: %v: %v, %+v", alone, got, done)
		}
	}
}
