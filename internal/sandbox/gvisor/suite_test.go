package gvisor

import (
	"log/slog"
	"os"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// start starts a sandbox for a test. Its executor is the airlock beside which the command is.
func start(t *testing.T) *executor.Sandbox {
	t.Helper()
	return startWith(t, executor.LaunchOptions{Runtimes: sandboxtest.Runtimes()})
}

func startWith(t *testing.T, options executor.LaunchOptions) *executor.Sandbox {
	t.Helper()
	if os.Geteuid() != 0 {
		sandboxtest.Skip(t, "this wall needs root")
	}
	binary := sandboxtest.Binary()
	if binary == "" {
		sandboxtest.Skip(t, "AIRLOCK_TEST_EXECUTOR names no airlock with airlock-gvisor beside it: make build gvisor")
	}
	options.Wall, options.Binary = Name, binary
	launcher := executor.NewLauncher(options)
	s, err := executor.Start(t.Context(), executor.Config{Launcher: launcher, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSuite(t *testing.T) {
	sandboxtest.Suite(t, sandboxtest.Backend{
		Open:   func(t *testing.T) engine.Sandbox { return start(t) },
		Root:   true,
		Kernel: true,
	})
}

func TestSuiteInImage(t *testing.T) {
	runtimes := sandboxtest.LiveRuntimesOf(t)
	record := sandboxtest.Image(t, runtimes, "trixie")
	sandboxtest.Suite(t, sandboxtest.Backend{
		Open: func(t *testing.T) engine.Sandbox {
			return sandboxtest.InImage(startWith(t, executor.LaunchOptions{Runtimes: runtimes}), record)
		},
		Root:   true,
		Kernel: true,
		Image:  true,
	})
}
