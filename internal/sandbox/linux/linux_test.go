package linux

import (
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/language/typescript"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// TestMain runs the executor if the test binary is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:], map[string]func() executor.Wall{"": New}))
	}
	if len(os.Args) > 2 && os.Args[1] == "compile" && os.Args[2] == "typescript" {
		os.Exit(typescript.Main(os.Args[3:], os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

var quiet = slog.New(slog.DiscardHandler)

// silent is a host that ignores all calls.
type silent = sandboxtest.Host

// start starts a sandbox for a test, with some protections left out.
func start(t *testing.T, weaken ...string) *executor.Sandbox {
	t.Helper()
	launcher := executor.NewLauncher(executor.LaunchOptions{Runtimes: sandboxtest.Runtimes(), Weaken: weaken})
	s, err := executor.Start(t.Context(), executor.Config{Launcher: launcher, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
