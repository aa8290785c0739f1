package executor_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/linux"
)

// TestMain runs the executor if the test binary is started as one, so that the tests of
// package executor, which cannot import a wall, have one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:], map[string]func() executor.Wall{"": linux.New}))
	}
	goleak.VerifyTestMain(m)
}
