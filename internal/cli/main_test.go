package cli

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/linux"
)

// notOurs is a goroutine that a package below the SDK for Gemini starts when it
// is loaded, and that nobody can end.
var notOurs = goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")

// completeAsAirlock makes this test binary the program that a shell asks for completions.
const completeAsAirlock = "TEST_COMPLETE_AS_AIRLOCK"

// The executor of a service in this process is this test binary, executed
// again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:], map[string]func() executor.Wall{"": linux.New}))
	}
	if _, is := os.LookupEnv(completeAsAirlock); is {
		os.Exit(Run(context.Background(), Release{}, os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	goleak.VerifyTestMain(m, notOurs)
}
