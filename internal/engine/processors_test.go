package engine

import (
	"log/slog"
	"runtime"
	"testing"
)

// The default of runs at the same time follows what the process may use of the machine, not the machine.
func TestConcurrencyOfContainer(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + 3))
	s := New(Config{}, nil, nil, nil, slog.New(slog.DiscardHandler))
	if want := 2 * (runtime.NumCPU() + 3); s.queue.slots != want {
		t.Errorf("%d, not %d", s.queue.slots, want)
	}
}
