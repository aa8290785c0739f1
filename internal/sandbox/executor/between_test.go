package executor

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// noLauncher starts no executor, like one whose parent is busy or has exited.
type noLauncher struct{}

func (noLauncher) Launch(context.Context, string) (*os.File, error) {
	return nil, errors.New("broken pipe")
}
func (noLauncher) Close() error { return nil }

// Between two executors the sandbox is temporarily unavailable, which is not an
// internal error.
func TestBetweenExecutors(t *testing.T) {
	s := &Sandbox{config: Config{Launcher: noLauncher{}, Log: quiet}}
	_, run := s.Run(t.Context(), sandboxtest.Python("1"), silent{})
	_, held := s.Held(t.Context())
	for _, err := range []error{run, held, s.Hold(t.Context(), engine.NewID(), 0, "", nil, sandboxtest.Limits()),
		s.Release(t.Context(), engine.NewID(), 0)} {
		e, ok := errors.AsType[*engine.Error](err)
		if !ok || e.Kind != engine.ErrUnavailable || e.RetryAfter == 0 {
			t.Errorf("%#v", err)
		}
	}
}
