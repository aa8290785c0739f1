package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
)

// runFacts are what a test wants of a run. Fields that are zero may be anything.
type runFacts struct {
	Status    engine.Status
	Stdout    string
	Message   string // a part of it
	NoMessage bool
}

// checkRun returns a function that compares what a method of the service returns with what
// is wanted. about says which run it is, if several are alike.
func checkRun(t *testing.T, want runFacts, about ...string) func(*engine.Run, error) {
	return func(run *engine.Run, err error) {
		t.Helper()
		if err != nil || run == nil {
			t.Errorf("%s no run, but %v", strings.Join(about, " "), err)
			return
		}
		got := want
		if want.Status != "" {
			got.Status = run.Status
		}
		if want.Stdout != "" {
			got.Stdout = run.Stdout
		}
		if !strings.Contains(run.Message, want.Message) {
			got.Message = run.Message
		}
		if want.NoMessage {
			got.NoMessage = run.Message == ""
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s the run differs (-want +got); it is %s, its message %q:\n%s",
				strings.Join(about, " "), run.Status, run.Message, diff)
		}
	}
}
