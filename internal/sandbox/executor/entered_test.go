package executor

import (
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// A program may call the service, which then starts a process beside it, before the
// executor has registered its sandbox: the start waits for that. If no program is
// starting, it does not wait.
func TestSandboxBeforeItIsRegistered(t *testing.T) {
	for name, h := range map[string]*heldWorkspace{"program": {runs: 1}, "live interpreter": {live: 1}, "nobody": {}} {
		t.Run(name, func(t *testing.T) {
			e := &executor{held: map[string]*heldWorkspace{"w": h}, sandboxes: map[string]*runningSandbox{}}
			starting := h.runs+h.live > 0
			found := make(chan error, 1)
			go func() {
				s, leave, err := e.sandboxIn("w")
				if err == nil {
					leave()
				}
				if err == nil && s != e.sandboxes["w"] {
					err = engine.ErrInternal
				}
				found <- err
			}()
			if !starting {
				if err := <-found; err == nil {
					t.Error("there is a sandbox where no program is")
				}
				return
			}
			select {
			case err := <-found:
				t.Fatalf("before it is known: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
			s := &runningSandbox{box: &Box{Request: &RunRequest{Held: "w"}}, entered: &entered{all: map[int]Entered{}},
				confined: make(chan struct{})}
			s.allowEntry()
			e.register(s)
			if err := <-found; err != nil {
				t.Error(err)
			}
		})
	}
}
