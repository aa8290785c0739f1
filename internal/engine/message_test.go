package engine

import (
	"strings"
	"testing"
	"time"
)

// A limit of the kernel's that ends a program with SIGKILL is told from a kill
// that it gave itself.
func TestWordsForAKill(t *testing.T) {
	for _, test := range []struct {
		used, limit time.Duration
		explained   bool
	}{
		{5 * time.Second, 5 * time.Second, true},
		{4 * time.Second, 5 * time.Second, true},
		{time.Second, 5 * time.Second, false},
		{5 * time.Second, 0, false},
	} {
		end := &completion{run: &Run{}}
		end.describe(&Outcome{Signal: "SIGKILL", CPU: test.used}, Limits{CPUTime: test.limit}, nil)
		if got := strings.Contains(end.run.Message, "processor time"); got != test.explained {
			t.Errorf("%v of %v: %s", test.used, test.limit, end.run.Message)
		}
	}
}
