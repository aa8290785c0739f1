package e2b

import (
	"log/slog"
	"runtime"
	"testing"
)

// An unused handler has no goroutine, and takes little memory.
func TestUnused(t *testing.T) {
	var before, after runtime.MemStats
	goroutines := runtime.NumGoroutine()
	runtime.ReadMemStats(&before)
	h := New(Options{Log: slog.New(slog.DiscardHandler)})
	runtime.ReadMemStats(&after)
	if made := runtime.NumGoroutine() - goroutines; made > 0 {
		t.Errorf("%d goroutines", made)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 200<<10 {
		t.Errorf("%d bytes", took)
	}
	h.Close()
}
