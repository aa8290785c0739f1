package cli

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/sandbox/linux"
)

// notOurs is a goroutine that a package below the SDK for Gemini starts when it
// is loaded, and that nobody can end.
var notOurs = goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")

// The executor of a service in this process is this test binary, executed
// again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(linux.ExecutorMain(os.Args[2:]))
	}
	goleak.VerifyTestMain(m, notOurs)
}
