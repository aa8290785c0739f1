package linux

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language/typescript"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// TestMain runs the executor if the test binary is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(ExecutorMain(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == "compile" && os.Args[2] == "typescript" {
		os.Exit(typescript.Main(os.Args[3:], os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

var quiet = slog.New(slog.DiscardHandler)

// silent is a host that ignores all calls.
type silent struct{}

func (silent) Output(engine.Stream, []byte) {}
func (silent) Call(context.Context, string, []byte) ([]byte, error) {
	return nil, engine.ErrNotFound
}

// start starts a sandbox for a test, with some protections left out.
func start(t *testing.T, weaken ...string) *Sandbox {
	t.Helper()
	launcher := NewLauncher(LaunchOptions{Runtimes: sandboxtest.Runtimes(), weaken: weaken})
	s, err := Start(t.Context(), Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
