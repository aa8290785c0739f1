package openterminal

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
	h := New(nil, nil, Options{Log: slog.New(slog.DiscardHandler)})
	runtime.ReadMemStats(&after)
	if made := runtime.NumGoroutine() - goroutines; made > 0 {
		t.Errorf("%d goroutines", made)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 200<<10 {
		t.Errorf("%d bytes", took)
	}
	runtime.KeepAlive(h)
}
