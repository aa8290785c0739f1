package linux

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A burst needs far more sandboxes than wait. Each program gets its own sandbox and
// answer, and soon afterwards as many sandboxes wait as before.
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

	executorPID := executors(t)[0]
	if !sandboxtest.Await(func() bool { return len(waitingPids(executorPID)) >= executor.LeastWaiting }) {
		t.Fatalf("%d sandboxes wait after the burst, want %d", len(waitingPids(executorPID)), executor.LeastWaiting)
	}
}

// A busy executor has more files open than a program may have. A cold start begins as a
// copy of it.
func TestManyOpenFiles(t *testing.T) {
	s := start(t)
	executorPID := executors(t)[0]
	open := func() int {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", executorPID))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for most := 200; open() <= maxOpenFiles; most-- {
		if most == 0 {
			t.Fatalf("the executor has %d files open: too few for this to be seen", open())
		}
		started := begun{first: make(chan struct{}, 1)}
		asking.Go(func() {
			defer started.Output(engine.Stdout, nil)
			spec := sandboxtest.Spec("bash", "echo; exec sleep 600")
			spec.Limits.Timeout = 5 * time.Minute
			if _, err := s.Run(ctx, spec, started); err != nil {
				t.Error(err)
			}
		})
		if <-started.first; t.Failed() {
			return
		}
	}
	if r := sandboxtest.Run(t, s, sandboxtest.Python("print(1)")); r.Stdout != "1\n" {
		t.Errorf("stdout %q, stderr %q", r.Stdout, r.Stderr)
	}
}

// begun receives a program's start.
type begun struct {
	sandboxtest.Host
	first chan struct{}
}

func (b begun) Output(engine.Stream, []byte) {
	select {
	case b.first <- struct{}{}:
	default:
	}
}
