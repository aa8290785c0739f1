package linux

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A burst takes far more sandboxes than wait. Each program gets one of its own
// and its own answer, and as many as before wait again soon after.
func TestBurst(t *testing.T) {
	const burst = 200
	s := startBare(t, true)
	var asking sync.WaitGroup
	began := time.Now()
	for i := range burst {
		asking.Go(func() {
			spec := sandboxtest.Python(fmt.Sprintf("import os\nprint(%d, os.listdir(), os.getpid())", i))
			spec.Limits.Timeout = time.Minute
			r := sandboxtest.Run(t, s, spec)
			if want := fmt.Sprintf("%d ['main.py'] 2\n", i); r.Stdout != want || r.Code() != 0 {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %q", r.Code(), r.Stdout, r.Stderr, want)
			}
		})
	}
	asking.Wait()
	t.Logf("%d programs at once took %v", burst, time.Since(began))

	executor := executors(t)[0]
	for deadline := time.Now().Add(20 * time.Second); len(waitingPids(executor)) < leastWaiting; {
		if time.Now().After(deadline) {
			t.Fatalf("%d sandboxes wait, 20 s after the burst", len(waitingPids(executor)))
		}
		time.Sleep(100 * time.Millisecond)
	}
}
