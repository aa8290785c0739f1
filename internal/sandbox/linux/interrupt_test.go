package linux

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// leading is the host of an interpreter: it sends one cell, and interrupts it.
type leading struct {
	silent
	code     string
	end      func()
	controls engine.Controls
	mu       sync.Mutex
	orders   int
	report   string
}

func (h *leading) SetControls(controls engine.Controls) { h.controls = controls }

func (h *leading) Call(ctx context.Context, name string, input []byte) ([]byte, error) {
	switch name {
	case "next":
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.orders++; h.orders == 1 {
			return json.Marshal(map[string]string{"do": "run", "code": h.code})
		}
		h.report = string(input)
		h.end()
		<-ctx.Done()
	case "stdout":
		return nil, h.controls.Interrupt()
	case "interrupt": // by a signal alone
		<-ctx.Done()
	}
	return nil, nil
}

// An interrupt reaches the foreground, with and without control groups: without them
// the sandbox's first process is in another session than the program.
func TestInterruptOfForeground(t *testing.T) {
	if _, err := os.Stat(executor.NodePath); err != nil {
		sandboxtest.Skip(t, "needs node: run airlock setup")
	}
	s := start(t)
	spec := sandboxtest.Spec("js", "console.log('begun'); for (;;) {}")
	spec.Live, spec.Calls, spec.Held = true, true, engine.NewID()
	if err := s.Hold(t.Context(), spec.Held, 0, "", nil, spec.Limits); err != nil {
		t.Fatal(err)
	}
	defer s.Release(context.Background(), spec.Held, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	h := &leading{code: spec.Code, end: cancel}
	if outcome, err := s.Run(ctx, spec, h); err != nil || !strings.Contains(h.report, `"status":"error"`) {
		t.Errorf("the report of the cell is %q: %+v, %v", h.report, outcome, err)
	}
}
